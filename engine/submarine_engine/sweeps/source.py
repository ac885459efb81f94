"""The trials of a sweep, as a pool runs them: what comes next, who gives a GPU away, what is told.

Each call of the pool is a trial, or the rest of one that was paused. The study has the trials, the
pool's journal the calls; a call's label says whose it is. Where the controller was killed between
the two, the trial is in the study and no call is: it is given then, before anything new is asked.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import re
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.amounts import duration
from submarine_engine.errors import SubmarineError
from submarine_engine.map_summary import task_folder
from submarine_engine.pool.calls import DONE, LAST, WAIT, Answer, Call, End, Nothing
from submarine_engine.pool.pool import GivenUpError, told_of
from submarine_engine.sweeps.found import Found
from submarine_engine.sweeps.hparams import HParams
from submarine_engine.sweeps.record import FILE, SweepRecord
from submarine_engine.sweeps.rows import short
from submarine_engine.sweeps.study import OpenTrial, Study, TrialResult
from submarine_engine.sweeps.summary import Summarizer

if TYPE_CHECKING:
    from submarine_engine.pool.folder import PoolFolder
    from submarine_engine.pool.pool import Pool

_LABEL = re.compile(r"trial ([0-9]+)")
_LARGEST_STEP = 1 << 53  # what a float holds exactly
_LOOK = 0.5  # seconds between two looks at what people ask of a sweep


class _Trial:
    """A trial that has begun and is not told yet.

    `keeps` says whether it can go on elsewhere from a checkpoint.
    """

    def __init__(self, asked: OpenTrial) -> None:
        self.asked = asked
        self.runs = False
        self.since = 0.0
        self.reports = 0
        self.keeps = False
        self.ends = False
        self.paused = False


class Trials:
    """The trials of a sweep, as a pool's source.

    Parameters
    ----------
    folder
        The pool's.

    Raises
    ------
    SubmarineError
        The sweep or its study cannot be read, or Optuna is not there.
    """

    goes_on = True
    """A pool whose calls were all done may be given more later."""

    def __init__(self, folder: PoolFolder) -> None:
        self._folder = folder.root
        self._record = SweepRecord.read(folder.root)
        plan = self._record.plan
        self._objectives = [name for name, _ in plan.objectives]
        self._study = Study(folder.root, self._record.study_name, plan, self._record.space)
        task = task_folder()
        self._summary = Summarizer(task, self._study)
        self._hparams = HParams(task and task / "logdir", self._objectives)
        self._open: dict[int, _Trial] = {}
        self._ends: deque[tuple[Call, End]] = deque()
        self._line: deque[OpenTrial] = deque()
        self._next_call = 0
        self._failed = 0
        self._succeeded = 0
        self._first_error = ""
        self._seen: tuple[int, int] = (0, 0)
        self._looked = 0.0
        self._pool: Pool

    # What a pool asks of its source.

    def begin(self, pool: Pool) -> None:
        """Hear that `pool` runs the trials, and find those that were begun before."""
        self._pool = pool
        self._next_call = max(pool.known, default=-1) + 1
        given = {_number(call.label) for call in pool.journal.record.calls.values()}
        self._study.check(given)
        own = os.environ.get("SUBMARINE_JOB_ID", "")
        if own and (own not in self._record.jobs or self._record.left == own):
            # `job retry` made another one; or it was killed as it was about to leave.
            self._record = self._record.with_job(own, left="")
        for asked in self._study.running():
            self._open[asked.number] = _Trial(asked)
            if asked.number not in given:
                self._line.append(asked)
        for told in self._study.results():
            self._count(told)
            if told.number not in self._open and told.state != "waiting":
                self._summary.ended(told, before=True)
                self._hparams.ended(told)
        self._take_wishes()
        began = self._study.begun()
        if began:
            best = self._best_words()
            pool.say(f"{began} of {self._total()} trials have begun by now{best}")

    def poll(self) -> None:
        """Report trials that have ended; see what people have asked for meanwhile."""
        self._report_ends()
        self._summarize()
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            status = (self._folder / FILE).stat()
        except OSError:
            return
        if (status.st_mtime_ns, status.st_ino) != self._seen:
            self._take_wishes()

    def next(self) -> Call | Nothing:
        """Return the next trial: the rest of a paused one before a new one."""
        self.poll()
        if self._record.paused:
            return LAST if any(trial.runs for trial in self._open.values()) else DONE
        if self._pool.crowded:
            return WAIT  # a GPU that falls free now is another job's
        if self._line:
            return self._call(self._line.popleft())
        if self._study.begun() < self._total():
            asked = self._study.ask()
            self._open[asked.number] = _Trial(asked)
            return self._call(asked)
        return LAST if self._open else DONE

    def began(self, call: Call, worker: str) -> None:  # noqa: ARG002 - the pool's record has it
        """Hear that the trial of `call` runs; its `worker` is in the pool's record."""
        trial = self._open.get(_number(call.label))
        if trial is not None:
            trial.runs, trial.since, trial.ends = True, time.monotonic(), False

    def reported(self, call: Call, report: Mapping[str, Any]) -> Answer:
        """Tell the study what a trial has reported; answer whether it is to end.

        Parameters
        ----------
        call
            The trial's; its label has the number.
        report
            The ``step``, the ``values`` by name, and in ``keeps`` whether the trial can go on from
            a checkpoint; anything else where the job's code wrote it.
        """
        number = _number(call.label)
        trial = self._open.get(number)
        step, values = report.get("step"), report.get("values")
        if trial is None or not isinstance(values, dict):
            return Answer.GO_ON
        if not isinstance(step, int) or abs(step) > _LARGEST_STEP:
            return Answer.GO_ON
        trial.reports += 1
        trial.keeps = report.get("keeps") is True and self._record.checkpoints is not None
        value = _float(values.get(self._objectives[0]))
        if value is not None and self._study.report(number, step, value):
            return Answer.STOP
        if trial.ends:
            return Answer.PAUSE
        if self._record.paused or self._is_to_yield(number):
            trial.ends = True
            if not self._record.paused:
                self._pool.say(f"trial {number} gives its GPU to another job")
            return Answer.PAUSE
        return Answer.GO_ON

    def ended(self, call: Call, end: End) -> None:
        """Take how a trial ended; the study learns it once the GPU has its next trial.

        Parameters
        ----------
        call
            The trial's.
        end
            How it ended.
        """
        self._ends.append((call, end))

    def _report_ends(self) -> None:
        """Tell the study what became of trials, once; put paused ones in line again."""
        while self._ends:
            call, end = self._ends.popleft()
            number = _number(call.label)
            trial = self._open.get(number)
            if trial is None:  # told before a controller took over
                continue
            trial.runs = False
            if end.outcome == "pause":
                self._paused(call, trial)
                continue
            del self._open[number]
            values, error = self._came_to(number, end)
            self._study.tell(number, values, error=error, seconds=round(end.seconds, 3))
            told = self._study.result_of(number)
            self._count(told)
            self._summary.ended(told)
            self._hparams.ended(told)
            self._say(told, trial.asked)
            self._give_up_if_all_fail()

    def _paused(self, call: Call, trial: _Trial) -> None:
        number = trial.asked.number
        trial.paused = True
        calls = self._pool.journal.record.calls
        if any(one > call.index and _number(calls[one].label) == number for one in calls):
            return  # that call is the rest of it
        self._line.append(trial.asked)
        keeps = trial.keeps or self._has_checkpoint(number)
        kept = "goes on from its checkpoint" if keeps else "begins again"
        self._pool.say(f"trial {number} paused; it {kept} when there is a GPU")

    def leave(self) -> bool:
        """Note that this job hears nothing more; return whether nothing was asked for meanwhile."""
        own = os.environ.get("SUBMARINE_JOB_ID", "")
        left = self._record.leave(own)
        if not left:
            self._take_wishes()
        return left

    def _has_checkpoint(self, number: int) -> bool:
        """Return whether a trial that ended before this controller began has kept something."""
        folder = self._record.checkpoints
        with suppress(OSError):
            return folder is not None and any(Path(folder, f"trial-{number}").iterdir())
        return False

    def result(self) -> Found:
        """Return what the job has for a result."""
        self._summarize(last=True)
        return Found(self._folder)

    def _summarize(self, *, last: bool = False) -> None:
        """Keep what the job's card shows up to date."""
        states = {
            number: "running" if trial.runs else "paused" if trial.paused else "waiting"
            for number, trial in self._open.items()
        }
        self._summary.update(self._record, self._pool, states, now=last)

    # What people ask for.

    def _take_wishes(self) -> None:
        status = (self._folder / FILE).stat()
        self._seen = status.st_mtime_ns, status.st_ino
        was = self._record
        self._record = SweepRecord.read(self._folder)
        if again := self._study.again(self._record.again):
            self._pool.say(f"{again} failed trials are tried again")
        if self._record.paused and not was.paused:
            self._pool.say("paused: each trial ends at its next report")
        if self._record.plan.trials != was.plan.trials:
            self._pool.say(f"extended: {self._total()} trials now")

    def _total(self) -> int:
        return self._record.plan.total(self._record.space) + self._study.retries()

    # Who gives a GPU away.

    def _is_to_yield(self, number: int) -> bool:
        """Return whether this trial is to give its GPU away: one of the worst of those that can."""
        leaving = sum(trial.ends for trial in self._open.values() if trial.runs)
        each = max(1, self._record.plan.gpus_each)
        # As many at once as are lacking: one after the other would take a report's time for each.
        lacking = -(-self._pool.lacking // each)
        yielding = min(lacking, self._pool.workers - self._pool.least) - leaving
        if yielding <= 0:
            return False
        able = [
            one
            for one, trial in self._open.items()
            if trial.runs and trial.reports and not trial.ends
        ]
        return number in nlargest(yielding, able, key=self._readiness)

    def _readiness(self, number: int) -> tuple[bool, float, float]:
        """Return how little is lost where a trial ends: the worst of a sweep goes first.

        Of those that would begin again, it is the one that has run the shortest.
        """
        trial = self._open[number]
        if trial.keeps:
            return True, self._study.pruned_first(number), 0.0
        return False, 0.0, trial.since

    # What a trial came to.

    def _call(self, asked: OpenTrial) -> Call:
        params = {
            name: _place_of(value) if name in self._record.objects else value
            for name, value in asked.params.items()
        }
        index, self._next_call = self._next_call, self._next_call + 1
        arguments = pickle.dumps(((asked.number, params, self._record.checkpoints), {}))
        return Call(index, arguments, f"trial {asked.number}")

    def _came_to(self, number: int, end: End) -> tuple[list[float] | None, str]:
        """Return a trial's values, or what it failed with; neither where it was pruned."""
        if end.outcome != "value":
            return None, "" if end.outcome == "stop" else self._error(end)
        try:
            found = _Plain(io.BytesIO(end.payload)).load()
            values, lacks = found.get("values"), found.get("lacks")
            problem = str(found.get("problem", ""))
        except Exception as error:  # noqa: BLE001 - what the trial's process wrote may be anything
            return None, f"what it came to cannot be read: {type(error).__name__}: {error}"
        if lacks and (last := self._last_report(number)) is not None:
            values = {lacks: last}  # it went on after its last report
        if not values:
            return None, problem or f"it has no {self._objectives[0]}"
        told = [_float(values.get(name)) for name in self._objectives]
        for name, value in zip(self._objectives, told, strict=True):
            if value is None or math.isnan(value):
                return None, f"{name} is not a number (NaN)"
        return [value for value in told if value is not None], ""

    def _error(self, end: End) -> str:
        """Return in words what a trial has failed with, and at which cell and line."""
        return "it was cancelled" if end.outcome == "withdrawn" else told_of(end, self._pool.folder)

    def _last_report(self, number: int) -> float | None:
        reports = self._study.result_of(number).reports or {}
        return reports[max(reports)] if reports and len(self._objectives) == 1 else None

    def _count(self, told: TrialResult) -> None:
        if told.state in {"complete", "pruned"}:
            self._succeeded += 1
        elif told.state == "failed":
            self._failed += 1
            self._first_error = self._first_error or told.error

    def _give_up_if_all_fail(self) -> None:
        enough = min(self._record.plan.first_failures, self._total())
        if self._succeeded or self._failed < enough:
            return
        self._summarize(last=True)
        raise GivenUpError(
            f"all of the first {self._failed} trials failed; the first one {self._first_error}",
            fix="mend that, and sweep again",
        )

    # What the log says.

    def _say(self, told: TrialResult, asked: OpenTrial) -> None:
        params = " ".join(f"{name}={short(value)}" for name, value in asked.params.items())
        took = f" in {duration(told.seconds)}" if told.seconds else ""
        if told.state == "complete":
            came = ", ".join(
                f"{name} {short(value)}"
                for name, value in zip(self._objectives, told.values, strict=True)
            )
            came += self._best_words()
        elif told.state == "pruned":
            came = f"pruned after {len(told.reports or {})} reports{self._best_words()}"
        else:
            came = f"failed: {told.error}"
        self._pool.say(f"trial {told.number}: {came}{took}: {params}")
        self._tell_progress()

    def _best_words(self) -> str:
        best = self._study.best()
        if not best:
            return ""
        if len(best) > 1 or len(self._objectives) > 1:
            return f" ({len(best)} that none beats)"
        return f" (best {short(best[0].value)} by trial {best[0].number})"

    def _tell_progress(self) -> None:
        from submarine_runtime import progress  # noqa: PLC0415 - of the job that this runs in

        done, total = self._failed + self._succeeded, self._total()
        failures = f", {self._failed} failed" if self._failed else ""
        progress(min(1.0, done / total), f"{done} of {total} trials{failures}{self._best_words()}")


class _Plain(pickle.Unpickler):
    """Loads numbers and text: a trial's process is a stranger to its controller."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def _number(label: str) -> int:
    found = _LABEL.fullmatch(label)
    if found is None:
        raise SubmarineError(f"the call {label!r:.60} is no trial", fix="begin a new sweep")
    return int(found[1])


def _place_of(label: object) -> int:
    """Return which choice a label stands for: ``1: (64, 32)``."""
    return int(str(label).partition(":")[0])


def _float(value: object) -> float | None:
    """Return a number as a worker tells it, which says in words what is none to JSON."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):  # an integer may be larger than any float
        return None
