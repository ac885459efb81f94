"""What a sweep has found by now, from any process; and how it goes on, again, or ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.amounts import duration
from submarine_engine.clusters import locks
from submarine_engine.errors import (
    CommandError,
    JobCancelledError,
    JobError,
    JobFailedError,
    JobNotFoundError,
    SubmarineError,
)
from submarine_engine.history import default_home
from submarine_engine.pool.call_logs import CallLogs
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.pool.launching import control_job
from submarine_engine.records import open_job
from submarine_engine.sweeps.plan import MAXIMIZE, MOST_TRIALS
from submarine_engine.sweeps.record import SweepRecord, find_sweep, iter_sweeps
from submarine_engine.sweeps.rows import short
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.study import (
    STUDY_FILE,
    TrialResult,
    best_of,
    import_optuna,
    open_storage,
    trial_result,
)

if TYPE_CHECKING:
    import optuna

    from submarine_engine.future import Job

_COMPLETE = 30.0  # seconds: as long as a pool's workers have to end by themselves
_LOG = 1 << 26
"""Bytes of what each run of a trial has printed, at most."""


class Found:
    """What a sweep has found by now. It may still run, here or without this process.

    Parameters
    ----------
    folder
        The sweep's.
    space
        With the values as they were given; as the study keeps them unless given.
    """

    def __init__(self, folder: Path, space: Space | None = None) -> None:
        self._folder = folder
        self._space = space
        self._study: optuna.Study | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (self._folder.name,)

    def __repr__(self) -> str:
        states = self.counts()
        told = ", ".join(f"{count} {state}" for state, count in states.items()) or "no trial yet"
        best = self._best()
        words = f"; best {best[0].values[0]:.6g} by trial {best[0].number}" if best else ""
        return f"<sweep {self.name}: {told}{words}>"

    @property
    def name(self) -> str:
        """What people call the sweep."""
        return self._record().name

    @property
    def id(self) -> str:
        """The id of the sweep: that of its pool."""
        return self._folder.name

    @property
    def job_id(self) -> str:
        """The id of `job`; empty where none was submitted."""
        return (self._record().jobs or ("",))[-1]

    @property
    def job(self) -> Job:
        """The job that runs the sweep, or ran it last.

        Raises
        ------
        JobNotFoundError
            It is removed.
        """
        return open_job(self.job_id)

    @property
    def study(self) -> optuna.Study:
        """Optuna's study, read from its file: all that Optuna can do with one.

        Raises
        ------
        SubmarineError
            Optuna is not installed, or the study does not begin or cannot be read.
        """
        study = self._opened()
        if study is None:
            raise SubmarineError(
                "the sweep has no study yet", fix="wait until its first trial has begun"
            )
        return study

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """All trials that have begun by now."""
        study = self._opened()
        if study is None:
            return ()
        space = self._space or self._record().space
        return tuple(trial_result(trial, space) for trial in study.get_trials(deepcopy=False))

    @property
    def best(self) -> TrialResult:
        """The best trial by now: its `params` and `value`. Of several objectives see `bests`.

        Raises
        ------
        SubmarineError
            None has come to a value yet.
        """
        best = self._best()
        if best:
            return best[0]
        failed = self.failed
        raise SubmarineError(
            "no trial has come to a value" + (f", {len(failed)} have failed" if failed else " yet"),
            where=f"sweep {self.name}",
            fix=f"the first one: {failed[0].error}" if failed else "wait for the first one",
        )

    @property
    def bests(self) -> tuple[TrialResult, ...]:
        """All trials that no other beats in each objective; one where there is one objective."""
        return self._best()

    @property
    def failed(self) -> tuple[TrialResult, ...]:
        """The trials that have failed by now, each with its `error`."""
        return tuple(trial for trial in self.trials if trial.state == "failed")

    def results(self) -> Any:  # noqa: ANN401 - a DataFrame where pandas is there
        """Return a row for each trial: a `pandas.DataFrame` where pandas is there, else dicts.

        Its columns are ``number``, ``state``, the parameters, the objectives, ``seconds`` and
        ``error``.
        """
        names = [name for name, _ in self._record().plan.objectives]
        rows = [
            {
                "number": trial.number,
                "state": trial.state,
                **trial.params,
                **dict(zip(names, trial.values or [None] * len(names), strict=True)),
                "seconds": trial.seconds,
                "error": trial.error or None,
            }
            for trial in self.trials
        ]
        try:
            import pandas as pd  # noqa: PLC0415 - where it is there
        except ImportError:
            return rows
        return pd.DataFrame(rows).set_index("number") if rows else pd.DataFrame()

    def table(self, sort: str = "") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the heads and rows of a table of all trials, as text.

        Parameters
        ----------
        sort
            The head of the column to sort by: of what is searched for the best first, of all
            others the smallest. In the order of their numbers unless given.

        Raises
        ------
        CommandError
            There is no such column.
        """
        record = self._record()
        params, names = record.space.names, [name for name, _ in record.plan.objectives]
        heads = ("trial", "state", *params, *names, "took", "error")
        if sort and sort not in heads:
            raise CommandError(
                f"there is no column {sort!r:.60}",
                where=f"sweep {record.name}",
                fix=f"sort by one of {', '.join(heads)}",
            )
        at = heads.index(sort) if sort else 0
        cells = [
            (
                trial.number,
                trial.state,
                *(trial.params.get(name, "") for name in params),
                *(trial.value_of(place) for place in range(len(names))),
                "" if trial.seconds is None else trial.seconds,
                trial.error.partition("\n")[0],
            )
            for trial in self.trials
        ]
        down = dict(record.plan.objectives).get(sort) == MAXIMIZE
        there = [row for row in cells if row[at] != ""]
        there.sort(key=lambda row: _comparable(row[at]), reverse=down)
        rows = [*there, *(row for row in cells if row[at] == "")]
        took = len(heads) - 2
        return heads, [
            tuple(
                duration(float(cell)) if place == took and cell != "" else short(cell)
                for place, cell in enumerate(row)
            )
            for row in rows
        ]

    def log(self, number: int) -> str:
        """Return what a trial has printed by now: ``stdout``, then ``stderr``.

        Parameters
        ----------
        number
            The trial's.

        Raises
        ------
        CommandError
            No such trial has begun.
        """
        logs = CallLogs(PoolFolder(self._folder))
        runs = [run for index in logs.labelled(f"trial {number}") for run in logs.runs(index)]
        if not runs:
            raise CommandError(
                f"no trial {number} has begun",
                where=f"sweep {self.name}",
                fix=f"see them: submarine sweep show {self.name}",
            )
        return "".join(logs.text(run, _LOG).text for run in runs)

    def counts(self) -> dict[str, int]:
        """Return how many trials are in each state."""
        states = [trial.state for trial in self.trials]
        return {state: states.count(state) for state in dict.fromkeys(states)}

    def row(self) -> tuple[str, ...]:
        """Return id, name, job, trials and best of the sweep, as text for a list."""
        told = ", ".join(f"{number} {state}" for state, number in self.counts().items())
        best = self._best()
        return self.id, self.name, self.job_id, told, short(best[0].value) if best else ""

    def wait(self) -> Found:
        """Wait until the sweep is over, or paused; raise what has ended it.

        Raises
        ------
        JobFailedError, JobCancelledError, JobLostError
            As `Job.result`.
        """
        try:
            self.job.result()
        except JobCancelledError as error:
            error.fix = f"what it has found: open_sweep({self.name!r}); to go on: resume() of that"
            raise
        except JobFailedError as error:
            if error.remote_type != JobFailedError.__name__:
                raise
            # The sweep was given up: why, and what to do, its controller has said.
            what, _, fix = error.remote_message.partition("\n→ ")
            raise JobFailedError(what, job_id=self.job_id, fix=fix) from None
        return self

    @property
    def runs(self) -> bool:
        """Whether a job runs the sweep now, or waits to."""
        try:
            return not self.job.done()
        except JobNotFoundError:  # it was removed, or whoever began the sweep was killed before
            return False

    # How it goes on.

    def retry_failed(self) -> Found:
        """Try the failed trials once more, with the same parameters; return itself.

        Raises
        ------
        CommandError
            None has failed that is not tried again already.
        """
        tried = {trial.retry_of for trial in self.trials}
        numbers = [trial.number for trial in self.failed if trial.number not in tried]
        if not numbers:
            raise CommandError(
                "no trial has failed that was not tried again",
                where=f"sweep {self.name}",
                fix="found.failed has those that failed",
            )
        self._change(again=lambda found: tuple(dict.fromkeys([*found.again, *numbers])))
        return self._go_on()

    def extend(self, trials: int) -> Found:
        """Add more trials, to a sweep that runs or is over; return itself.

        Parameters
        ----------
        trials
            How many more.

        Raises
        ------
        CommandError
            It is no such number, or a grid has no more points.
        """
        if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
            raise CommandError(f"trials={trials!r:.40} is no number", fix="give 1 or more")
        record = self._record()
        before = record.plan.total(record.space)
        if record.plan.searches_by == "grid" and before >= record.space.grid_size():
            raise CommandError(
                f"the grid has no more than its {before} points",
                where=f"sweep {self.name}",
                fix="begin a sweep over more choices",
            )
        space = record.space  # what another program has added meanwhile stays
        self._change(
            plan=lambda found: replace(
                found.plan, trials=min(found.plan.total(space) + trials, MOST_TRIALS)
            ),
            paused=False,
        )
        return self._go_on()

    def pause(self) -> Found:
        """Let each trial end at its next report, to go on later; return itself."""
        if not self.runs:
            raise CommandError(
                "the sweep is over",
                where=f"sweep {self.name}",
                fix=f"add trials: submarine sweep extend {self.name} --trials 20",
            )
        self._change(paused=True)
        return self

    def resume(self) -> Found:
        """Go on with a sweep that was paused, cancelled, or lost; return itself."""
        self._change(paused=False)
        return self._go_on()

    def cancel(self) -> bool:
        """End the sweep with its trials; what it has found stays. Return whether it was asked."""
        return self.job.cancel("the sweep was cancelled")

    def _go_on(self) -> Found:
        """Have a job run the sweep where none does."""
        with locks.held(self._folder / "begin.lock"):  # another program may be about to
            if self.runs and not self._is_through():
                return self
            job = control_job(PoolFolder(self._folder))
            self._record().with_job(job.id)
        return self

    def _is_through(self) -> bool:
        """Return whether the job that runs it is at its end, and would not hear of more."""
        lock = self._folder / "controller.lock"
        until = time.monotonic() + _COMPLETE
        record = self._record()
        if record.left != self.job_id and (
            not lock.exists()
            or not locks.is_free(lock)
            or self.job.status().state.value == "queued"
        ):
            return False
        while self.runs and time.monotonic() < until:
            if self._record().left != self.job_id and not locks.is_free(lock):
                return False  # it only begins
            time.sleep(0.05)  # a look reads two small files
        if self.runs:
            raise JobError(
                "the job that runs the sweep neither ends nor goes on",
                job_id=self.job.id,
                fix=f"cancel it: submarine job cancel {self.job.id}",
            )
        return True

    def _best(self) -> tuple[TrialResult, ...]:
        study = self._opened()
        return () if study is None else best_of(study, self._space or self._record().space)

    def _opened(self) -> optuna.Study | None:
        """Return the study; None as long as there is none."""
        if self._study is None and (self._folder / STUDY_FILE).is_file():
            name = self._record().study_name
            try:
                # Of a file that is only begun: it does not hold its study yet.
                with suppress(KeyError):
                    storage = open_storage(self._folder)
                    self._study = import_optuna().load_study(study_name=name, storage=storage)
            except (ValueError, TypeError) as error:
                raise SubmarineError(
                    f"the sweep's study cannot be read: {error}",
                    where=str(self._folder / STUDY_FILE),
                    fix="begin a new sweep",
                ) from None
        return self._study

    def _record(self) -> SweepRecord:
        return SweepRecord.read(self._folder)

    def _change(self, **given: Any) -> SweepRecord:  # noqa: ANN401 - of its fields
        return self._record().change(**given)

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self.trials)


def open_sweep(name: str) -> Found:
    """Return a sweep by its name, its id, or that of its job: also one that runs or was cancelled.

    Parameters
    ----------
    name
        The newest of that name is taken.

    Raises
    ------
    JobNotFoundError
        There is none.
    """
    return Found(find_sweep(default_home(), name).folder)


def sweeps(limit: int | None = None) -> list[Found]:
    """Return the sweeps on record, the newest first.

    Parameters
    ----------
    limit
        How many at most.
    """
    return [Found(record.folder) for record in islice(iter_sweeps(default_home()), limit)]


def _comparable(value: object) -> tuple[bool, float, str]:
    """Return what sorts numbers before texts."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (False, float(value), "") if number else (True, 0.0, str(value))  # type: ignore[arg-type] # a number, as was looked at


def _opened(pool: str) -> Found:
    return Found(PoolFolder.of(default_home(), pool).root)
