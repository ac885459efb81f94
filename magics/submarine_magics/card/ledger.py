"""The GPU ledger of a job as the card shows it: stages with their times, and one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from submarine_engine.amounts import clock, count, duration, size
from submarine_engine.events import Moment
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus

from submarine_magics.card.record import Record
from submarine_magics.card.words import visible

# What the ledger calls held and busy is "starting" and "running" here: of a GPU that is held people
# ask by whom, and busy says how hard it works, which nobody measured.


_MUCH = 100_000
_LONG = 1.0
"""Bytes and seconds of results from which on people may ask what they cost."""

_MEANING = {
    "queued": "waiting for GPUs",
    "starting": "GPUs granted, code not yet running",
    "running": "wall time of the code, with its GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the ledger: ``queued``, ``starting`` or ``running``.

    Parameters
    ----------
    text
        How long, in words.
    meaning
        What the stage is, for who does not know the word.
    ticking
        Whether it goes on now.
    """

    name: str
    seconds: float
    text: str
    meaning: str
    ticking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The ledger in words and numbers.

    Parameters
    ----------
    gpus
        Which, in words: ``GPUs 0, 1``, ``2 GPUs``; or why there are none. While the job is not
        over, whose jobs are not known that may use them, too.
    stages
        Those reached, in order; none for a job without GPUs.
    released
        ``released 38 ms after return``, with what was written for the notebook before that where
        it is much; empty while they are not, and without GPUs.
    """

    gpus: str
    stages: tuple[Stage, ...]
    released: str


def view_ledger(record: Record, status: JobStatus, now: Moment) -> LedgerView:
    """Return the ledger of a job at the moment `now`.

    Parameters
    ----------
    record
        What does not change of the job.
    status
        The job's newest.
    """
    number = status.ledger.gpus
    if not number:
        return LedgerView(gpus=_without(record), stages=(), released="")
    ids = [visible(gpu, 20) for task in status.tasks for gpu in task.named_gpus]
    named = 0 < len(ids) <= 8  # noqa: PLR2004 - one line
    kind = "GPU" if number == 1 else "GPUs"
    gpus = f"{kind} {', '.join(ids)}" if named else count(number, "GPU")
    if record.not_known and not status.state.final:  # who may wait, or meet them, has to know
        gpus += f"; {visible(record.not_known, 80)}"
    return LedgerView(
        gpus=gpus,
        stages=_stages(status, now),
        released=_released(status),
    )


def _without(record: Record) -> str:
    if record.machine_gpus == 0:
        return "no GPU on this machine"
    return "no GPU"


def _stages(status: JobStatus, now: Moment) -> tuple[Stage, ...]:
    spent = status.ledger.seconds(now)
    seconds = {
        "queued": spent["queued"],
        "starting": spent["held"],
        "running": spent["busy"],
    }
    reached = {
        "queued": status.submitted is not None,
        "starting": any(task.held for task in status.tasks),
        "running": any(task.busy for task in status.tasks),
    }
    current = _current(status)
    return tuple(
        Stage(
            name=name,
            seconds=round(seconds[name], 3),
            text=clock(seconds[name]) if name == current else duration(seconds[name]),
            meaning=meaning,
            ticking=name == current,
        )
        for name, meaning in _MEANING.items()
        if reached[name]
    )


def _current(status: JobStatus) -> str | None:
    """Return the stage that goes on now: the first one that any task is in."""
    if status.state.final:
        return None
    for task in status.tasks:
        if task.returned or task.exited:
            continue
        return "running" if task.busy else "starting" if task.held else "queued"
    return None


def _wrote(status: JobStatus) -> str:
    """Return what was written while the GPUs were still held, where it is much or took long."""
    written = sum(task.wrote[0] for task in status.tasks)
    seconds = max((task.wrote[1] for task in status.tasks), default=0.0)
    much = written >= _MUCH or seconds >= _LONG
    return f"; results: {size(written)} in {duration(seconds)}" if much else ""


def _released(status: JobStatus) -> str:
    after = status.ledger.released_after
    if after is not None:
        returned = all(task.returned for task in status.tasks if task.held)
        return f"released {duration(after)} after {'return' if returned else 'exit'}" + _wrote(
            status
        )
    held = status.ledger.held_now
    if not held:
        return "never held" if status.state.final else ""
    over = status.state is not JobState.RUNNING and status.state.final
    return f"{count(held, 'GPU')} still held" if over else ""
