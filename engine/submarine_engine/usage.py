"""What jobs have cost: GPU-hours waited for, held and busy, by who or what they were for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from submarine_engine.amounts import UNKNOWN
from submarine_engine.clusters.store import read_events
from submarine_engine.config import load_config
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Event, Moment, Retried
from submarine_engine.history import JobPaths, default_home
from submarine_engine.lifecycle import JobStatus, apply
from submarine_engine.metrics import Row, is_gpu, read_used
from submarine_engine.records import JobSummary, iter_jobs, record_of

_HOUR = 3600.0
_INTERVAL = 2.0  # seconds that a measurement stands for at most: they are a second apart
_IDLE = 1.0  # percent: what only drives a display, or keeps a context
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class GpuTime:
    """GPU-seconds: of two GPUs for a minute, 120.

    Parameters
    ----------
    queued
        Asked for and waited for.
    held
        From when they were granted until they were given back.
    busy
        Those among them in which the job's code ran.
    idle
        Those among these in which the GPUs did nothing, as far as they were measured.
    measured
        Those among the busy ones that were measured.
    """

    queued: float = 0.0
    held: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    measured: float = 0.0

    @property
    def wasted(self) -> float:
        """Held for nothing: its container began, its results were written, the GPU was idle."""
        return max(0.0, self.held - self.busy) + self.idle

    def __add__(self, other: GpuTime) -> GpuTime:
        """Return both together."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return GpuTime(*(one + another for one, another in pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What some jobs have cost.

    Parameters
    ----------
    of
        What they have in common.
    jobs
        How many they are. A sweep's or a map's workers count with it, as one.
    time
        Of their GPUs.
    """

    of: str
    jobs: int
    time: GpuTime

    def row(self, price: float | None = None) -> tuple[str, ...]:
        """Return it as text, in GPU-hours, below `heads`.

        Parameters
        ----------
        price
            Of a GPU for an hour.
        """
        time_ = self.time
        hours = [f"{one / _HOUR:.2f}" for one in (time_.queued, time_.held, time_.busy)]
        idle = f"{time_.idle / _HOUR:.2f}" if time_.measured else UNKNOWN
        cost = () if price is None else (f"{time_.held / _HOUR * price:.2f}",)
        return (self.of, str(self.jobs), *hours, idle, f"{time_.wasted / _HOUR:.2f}", *cost)

    def to_json(self, price: float | None = None) -> dict[str, Any]:
        """Return the JSON form, in GPU-seconds; ``idle`` is null where nothing was measured.

        Parameters
        ----------
        price
            Of a GPU for an hour; None to leave the cost out.
        """
        time_ = self.time
        told = {
            "of": self.of,
            "jobs": self.jobs,
            "queued": round(time_.queued, 3),
            "held": round(time_.held, 3),
            "busy": round(time_.busy, 3),
            "idle": round(time_.idle, 3) if time_.measured else None,
            "wasted": round(time_.wasted, 3),
        }
        return told if price is None else {**told, "cost": round(time_.held / _HOUR * price, 4)}


WORDS = (
    "GPU-hours: held until given back, busy while the code ran, idle while it left the GPU alone; "
    "wasted is held and not busy, or idle"
)
"""What stands below a table of usage."""


def heads(by: str, price: float | None = None) -> tuple[str, ...]:
    """Return the heads of a table of usage.

    Parameters
    ----------
    by
        What its rows are for: ``user``, ``week``.
    price
        Of a GPU for an hour; None where no cost is shown.
    """
    return (
        by,
        "jobs",
        "queued",
        "held",
        "busy",
        "idle",
        "wasted",
        *(() if price is None else ("cost",)),
    )


def usage(by: str = "user", since: float | None = None, home: Path | None = None) -> list[Usage]:
    """Return what the jobs on record have cost, the most GPU time first; days and weeks in order.

    Parameters
    ----------
    by
        One of `USAGE_BY`.
    since
        How long ago, in seconds, the jobs were submitted at most; None for all.
    home
        Where jobs are kept; see `default_home`.
    """
    home = home or default_home()
    oldest = None if since is None else time.time() - since
    now = Moment.now()
    key = _key(by, home)
    found: dict[str, Usage] = {}
    for job in iter_jobs(home, children=True):
        if oldest is not None and (job.created is None or job.created.wall < oldest):
            break
        with suppress(OSError):
            paths = JobPaths(home, job.id)
            events = [event for event, _ in read_events(paths.events)[0]]
            of = key(job)
            had = found.get(of) or Usage(of=of, jobs=0, time=GpuTime())
            spent = had.time + gpu_time(events, now, partial(_used, paths))
            found[of] = Usage(of=of, jobs=had.jobs + (not job.parent), time=spent)
    if by in ("day", "week"):
        return sorted(found.values(), key=lambda one: one.of)
    return sorted(found.values(), key=lambda one: (-one.time.held, -one.time.queued, one.of))


def _used(paths: JobPaths, task: str) -> Sequence[Row]:
    return read_used(paths.task(task))


Measured = Callable[[str], Sequence[Row]]
"""What a task has used, by its id."""


def gpu_time(events: Iterable[Event], now: Moment, measured: Measured | None = None) -> GpuTime:
    """Return what a job's GPUs were asked for, held and busy, over all of its attempts.

    Parameters
    ----------
    events
        All of the job, in their order.
    now
        Until when to count for a job that is not over.
    measured
        Tells what its tasks have used; None where nobody asks how idle its GPUs were.
    """
    spent, status = GpuTime(), JobStatus()
    for event in events:
        if isinstance(event, Retried):
            spent += _of_attempt(status, event.at, measured)
        status = apply(status, event)
    return spent + _of_attempt(status, status.finished or now, measured)


def _of_attempt(status: JobStatus, end: Moment, measured: Measured | None) -> GpuTime:
    spent = GpuTime()
    each = status.asked_gpus / len(status.tasks) if status.tasks else 0
    for task in status.tasks:
        gpus = len(task.gpus) if task.held else each
        queued = task.queued.until(task.held or end) if task.queued else 0.0
        held = task.held.until(task.released or task.exited or end) if task.held else 0.0
        spent += GpuTime(gpus * queued, gpus * held)
        if task.busy:
            until = task.returned or task.exited or end
            spent += GpuTime(busy=gpus * task.busy.until(until))
            if measured and task.gpus:
                spent += _idle(measured(task.task), task.busy.wall, until.wall)
    return spent


def _idle(rows: Sequence[Row], begin: float, end: float) -> GpuTime:
    """Return how long each GPU was measured between two times, and how long it did nothing."""
    idle = total = 0.0
    for before, row in pairwise([None, *rows]):
        if row is None:
            continue
        # What is missing before a row was not measured, unless many were put together in it.
        since = row.at - row.rows * _INTERVAL
        seconds = min(end, row.at) - max(begin, since, before.at if before else since)
        for name, (_, mean, _) in row.numbers.items():
            if seconds > 0 and is_gpu(name):
                total += seconds
                idle += seconds if mean <= _IDLE else 0.0
    return GpuTime(idle=idle, measured=total)


def others(home: Path | None = None) -> list[str]:
    """Return how many GPUs others hold now, a line for each cluster that tells.

    Parameters
    ----------
    home
        Where jobs are kept: the clusters are those of the newest, and the configured one.
    """
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - loads them

    home = home or default_home()
    newest = (job.cluster for job in islice(iter_jobs(home), _LOOKED_AT))
    lines = []
    for name in dict.fromkeys([str(load_config().value("cluster")), *newest]):
        with suppress(SubmarineError, OSError):
            gpus = open_cluster(name).gpus()
            theirs = [gpu for gpu in gpus if gpu.holder and not _is_on_record(home, gpu.job_id)]
            held = Counter(gpu.queue or "" for gpu in theirs)
            if held:
                of = ", ".join(f"queue {queue}: {n}" for queue, n in sorted(held.items()) if queue)
                whose = f" ({of})" if of else ""
                lines.append(f"{name}: others hold {held.total()} of {len(gpus)} GPUs now{whose}")
    return lines


def _is_on_record(home: Path, job_id: str | None) -> bool:
    return bool(job_id) and JobPaths(home, str(job_id)).record.exists()


def _key(by: str, home: Path) -> Callable[[JobSummary], str]:
    """Return the function that says which group of the usage table a job belongs to."""
    records: dict[str, dict[str, Any]] = {}

    def record(job: JobSummary) -> dict[str, Any]:
        # What works for another job is for what that one is for.
        wanted = job.parent or job.id
        if wanted not in records:
            records.clear()  # one is enough: its workers stand beside it in the list
            with suppress(OSError, ValueError):
                records[wanted] = record_of(wanted, home)
        return records.get(wanted, {})

    def spec(job: JobSummary, name: str) -> str:
        told = record(job).get("spec")
        return str((told.get(name) if isinstance(told, dict) else None) or "—")

    def when(job: JobSummary, form: str) -> str:
        return time.strftime(form, time.localtime(job.created.wall)) if job.created else "—"

    return {
        "user": lambda job: str(record(job).get("user") or "—"),
        "notebook": lambda job: spec(job, "notebook"),
        "name": lambda job: spec(job, "name"),
        "cluster": lambda job: job.cluster,
        "day": lambda job: when(job, "%Y-%m-%d"),
        "week": lambda job: when(job, "%G-W%V"),
    }[by]
