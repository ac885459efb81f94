"""The card of a sweep of 1,000 trials: what an update costs in Python, and what a page makes of it.

The trials are told as a controller tells them, without being run; the page is a real JupyterLab in
a real Chromium, and its times are its own.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from playwright.sync_api import Page
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, job_ids
from submarine_engine.lifecycle import JobStatus
from submarine_engine.pool.pool import Pool
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.record import SweepRecord
from submarine_engine.sweeps.rows import RowsReader
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.study import Study
from submarine_engine.sweeps.summary import Summarizer, Summary, read_summary
from submarine_magics.card import view
from submarine_magics.card.record import Record
from submarine_magics.card.served import served_tree

from bench.jupyter import CARD, JOB, PAINT, in_lab
from bench.table import Figure

TRIALS = 1000
_UPDATES = 60
_BETWEEN = 0.25  # seconds; a controller writes twice a second at most
# Notes the longest time between two frames from now on.
_FRAMES = """() => {
    let last = performance.now();
    window.longest = 0;
    const step = (now) => {
        window.longest = Math.max(window.longest, now - last);
        last = now;
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
}"""


class _Told:
    """A sweep whose trials are told one by one, into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        plan = SweepPlan(
            objectives=(("loss", "minimize"),), trials=TRIALS, sampler="random", gpus=1
        )
        space = Space.of("rate=loguniform(1e-4, 1e-1); units=[32, 64, 128]; depth=int(1, 8)")
        self._record = SweepRecord(folder=folder, name="train", plan=plan, space=space)
        self._study = Study(folder, self._record.study_name, plan, space)
        self._summarizer = Summarizer(folder, self._study)
        self._pool = cast("Pool", SimpleNamespace(holding=4, most=4))
        self._random = random.Random(1)  # noqa: S311 - no secret

    def tell(self, trials: int) -> None:
        """Tell of so many more trials, with ten reports each."""
        for _ in range(trials):
            asked = self._study.ask()
            loss = asked.params["rate"] + self._random.random()
            for step in range(10):
                self._study.report(asked.number, step, loss + 1 / (step + 1))
            self._study.tell(asked.number, [loss], seconds=1.0)
            self._summarizer.ended(self._study.result_of(asked.number))

    def look(self) -> None:
        """Write what the card shows."""
        self._summarizer.update(self._record, self._pool, {}, now=True)


def python(folder: Path) -> Figure:
    """Measure an update of a card in Python: the controller's writing, the server's drawing."""
    many, few = _Told(folder / "many"), _Told(folder / "few")
    many.tell(TRIALS - _UPDATES)
    many.look()
    few.look()
    return Figure(
        what=f"an update of a sweep's card in Python, {TRIALS:,} trials",
        target="<= 50 ms",
        unit="ms",
        ours=_timed(many, folder / "many"),
        peers={"from the first trial on": _timed(few, folder / "few")},
    )


def _timed(told: _Told, folder: Path) -> list[float]:
    reader = RowsReader(folder)
    found = []
    for _ in range(_UPDATES):
        told.tell(1)
        begun = time.process_time()
        told.look()
        reader.read()
        record = Record(job_id="1", cluster="local", spec=_spec(), sweep=read_summary(folder))
        served_tree(view(record, JobStatus(), Moment.now())).to_json()
        found.append((time.process_time() - begun) * 1000)
    return found


def _spec() -> Any:  # noqa: ANN401 - a JobSpec
    from submarine_engine.job import JobSpec  # noqa: PLC0415 - here alone

    return JobSpec(name="train")


def page(folder: Path) -> list[Figure]:
    """Measure the longest frame of a page while a card of 1,000 trials is updated, and its heap."""
    with in_lab(folder, [f"{JOB}import time\ntime.sleep(3600)"]) as found:
        found.evaluate(PAINT, [1, CARD])
        found.wait_for_selector(f"{CARD}[data-state=running]")
        home = folder / "lab/.local/share/submarine"
        (job_id,) = job_ids(home)
        task = JobPaths(home, job_id).task("worker-0").root
        told = _Told(folder / "told")
        told.tell(TRIALS)
        told.look()
        os.rename(folder / "told/trials.jsonl", task / "trials.jsonl")  # noqa: PTH104 - one call
        summary = read_summary(folder / "told")
        assert summary is not None
        idle = _frames(found, lambda _: None, summary)
        plain = _frames(found, lambda one: one.write(task), summary)
        found.locator(f"{CARD} button.smc-sort").nth(2).click()
        found.locator(f"{CARD} .smc-pager").wait_for()
        for at in (0, 1):
            found.locator(f"{CARD} button.smc-pin").nth(at).click()
            found.wait_for_function(
                "([pins, n]) => document.querySelectorAll(pins).length === n",
                arg=[f"{CARD} .smc-pin[aria-pressed=true]", at + 1],
            )
        _frames(found, lambda one: one.write(task), summary)  # what it keeps for good is there
        before = _heap(found)
        sorted_ = _frames(found, lambda one: one.write(task), summary)
        after = _heap(found)
    return [
        Figure(
            what=f"longest frame while a card of {TRIALS:,} trials is updated",
            target="<= 50 ms", unit="ms", ours=[plain], peers={"while nothing changes": [idle]},
        ),
        Figure(
            what=f"the same with all {TRIALS:,} sorted, two of them pinned",
            target="<= 50 ms", unit="ms", ours=[sorted_], peers={"while nothing changes": [idle]},
        ),
        Figure(
            what=f"the page's heap after {_UPDATES} more updates of it",
            target="flat", unit="MB", ours=[after], peers={"before them": [before]},
        ),
    ]  # fmt: skip


def _frames(found: Page, write: Callable[[Summary], None], summary: Summary) -> float:
    """Update the card again and again; return the longest frame meanwhile, in ms."""
    found.evaluate(_FRAMES)
    for number in range(_UPDATES):
        states = (("complete", TRIALS - 1 - number), ("running", 1 + number))
        best = replace(summary.best[0], values=(number / 1000,))
        write(replace(summary, states=states, held=number % 5, best=(best, *summary.best[1:])))
        found.wait_for_timeout(_BETWEEN * 1000)
    return float(found.evaluate("window.longest"))


def _heap(found: Page) -> float:
    """Return the megabytes that the page's scripts hold."""
    session = found.context.new_cdp_session(found)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    told = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return next(float(one["value"]) for one in told if one["name"] == "JSHeapUsedSize") / 1e6
