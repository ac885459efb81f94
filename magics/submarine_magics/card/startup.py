"""Where the time of a job's start went, as it stands on its card: a thin bar, and what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_engine.amounts import duration
from submarine_engine.errors import SubmarineError
from submarine_engine.waterfall import MEANING, Startup

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.throttled_reads import ThrottledReads

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.job import JobSpec

_startups: ThrottledReads[Startup | None] = ThrottledReads(1.0, 200)


def read_started(job: Job, spec: JobSpec, *, final: bool = False) -> Startup | None:
    """Return how a job started, as it was known a second ago at most; None where nothing is.

    Parameters
    ----------
    spec
        What the job was asked to run.
    final
        Whether the job is over: then nothing comes any more, and the last of it is wanted.
    """
    if spec.parent is not None:
        return None
    try:
        return _startups.find(job.id, lambda _: job.startup(), anew=final)
    except (OSError, SubmarineError):
        return None  # a card never fails a job


def startup_node(found: Startup | None) -> Node | None:
    """Return a bar of the phases of `found` with their times; None where nothing is known."""
    if found is None:
        return None
    of = f" of attempt {found.attempt}" if found.attempt > 1 else ""
    label = node("div", "line", node("strong", "label", "Start"), " ",
                 node("span", "quiet", f"{duration(found.seconds)}{of}"))  # fmt: skip
    styles = {phase.name: phase.name.replace(" ", "-") for phase in found.phases}
    segments = [
        node("span", f"segment smc-{styles[phase.name]}", grow=f"{phase.seconds * 1000:.0f}")
        for phase in found.phases
    ]
    parts = [
        node("li", styles[phase.name], f"{phase.name} ",
             node("span", "time", duration(phase.seconds)), title=MEANING[phase.name])
        for phase in found.phases
    ]  # fmt: skip
    bar = node("div", "stack smc-thin", *segments, role="img", aria_label=f"start {found.words}")
    return node("div", "startup", label, bar, node("ul", "stages", *parts))
