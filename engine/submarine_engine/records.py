"""Jobs on record: the list of them, and one of them opened from any process."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import ConfigError, JobError, SubmarineError
from submarine_engine.events import Moment
from submarine_engine.history import (
    SPOILT,
    JobPaths,
    default_home,
    find_job,
    finite,
    job_ids,
    job_user,
    of_one_second,
    open_file,
    read_json,
    shown_user,
    submitted_at,
)
from submarine_engine.job import JobState

_SECOND = len("20260101-000000")
_LONGEST = 1 << 20  # bytes of a summary
_SET_BACK = 3600.0
"""Seconds by which a clock may have been set back while a job had others work for it.

These have ids that are older than its own then, and hold GPUs all the same.
"""
_HOLDS = (JobState.STARTING, JobState.RUNNING)

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.future import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One line about a job.

    Parameters
    ----------
    gpus
        How many the job asked for; of one that others work for, how many these hold besides.
    created, finished
        None where that is not known, or not yet.
    parent
        The job that it works for; None for those that somebody has submitted.
    workers_on
        The cluster of the jobs that work for it, where that is another than its own.
    """

    id: str
    name: str
    cluster: str
    state: JobState
    reason: str = ""
    gpus: int = 0
    created: Moment | None = None
    finished: Moment | None = None
    parent: str | None = None
    workers_on: str | None = None

    @property
    def runs_on(self) -> str:
        """The cluster that its code runs on, as people see it: of a sweep that of its trials."""
        return self.workers_on or self.cluster

    def elapsed(self, now: Moment) -> float | None:
        """Return seconds from submission to the job's end, or to `now`.

        Parameters
        ----------
        now
            Until when to count for a job that is not over.
        """
        return self.created.until(self.finished or now) if self.created else None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the fields; moments as ``[wall, mono]``."""
        return {
            "id": self.id,
            "name": self.name,
            "cluster": self.cluster,
            "state": self.state.value,
            "reason": self.reason,
            "gpus": self.gpus,
            "created": _pair(self.created),
            "finished": _pair(self.finished),
            "parent": self.parent,
            "workers_on": self.workers_on,
        }


def _pair(moment: Moment | None) -> list[float] | None:
    return [moment.wall, moment.mono] if moment else None


def list_jobs(home: Path | None = None, limit: int | None = None) -> list[JobSummary]:
    """Return the jobs on record, newest first.

    Only what is returned is read, and each from its summary; a job that is not over is asked of
    its cluster, so that one whose supervisor has vanished is not said to run.

    Parameters
    ----------
    home
        Where jobs are kept; see `default_home`.
    limit
        The most to return; None for all.
    """
    clusters: dict[str, Cluster] = {}
    newest = islice(iter_jobs(home or default_home()), limit)
    return [_as_it_stands(summary, clusters) for summary in newest]


def iter_jobs(home: Path, *, children: bool = False) -> Iterator[JobSummary]:
    """Yield the summaries on record, newest first; a folder that holds none is passed over.

    Where the setting `user` is set, only that user's.

    Parameters
    ----------
    home
        Where jobs are kept.
    children
        Whether jobs that work for another one are among them.
    """
    user = shown_user()
    held: Counter[str] = Counter()
    for group in of_one_second(job_ids(home)):
        theirs = [one for one in group if user is None or job_user(home, one) == user]
        found = [summary for job_id in theirs if (summary := _read(home, job_id))]
        if not children:  # these are newer than what they work for, so all are known by then
            for one in found:
                if one.parent and one.state in _HOLDS:
                    held[one.parent] += one.gpus
            found = [_with(one, held) for one in found if not one.parent]
        yield from sorted(found, key=_age)


def _with(summary: JobSummary, held: Counter[str]) -> JobSummary:
    """Return a job with what those hold that work for it; one that is over has nobody."""
    gpus = held.pop(summary.id, 0)
    return (
        replace(summary, gpus=summary.gpus + gpus) if gpus and not summary.state.final else summary
    )


def children_of(home: Path, parent: str) -> list[str]:
    """Return the jobs that work for another one, the oldest first.

    Parameters
    ----------
    home
        Where jobs are kept.
    parent
        The job that they work for. None of them is older, but by a clock that was set back.
    """
    found = []
    oldest = time.strftime("%Y%m%d-%H%M%S", time.gmtime(submitted_at(parent) - _SET_BACK))
    for job_id in job_ids(home):
        if job_id[:_SECOND] < oldest:
            break
        summary = _read(home, job_id)
        if summary is not None and summary.parent == parent:
            found.append(job_id)
    return found[::-1]


def _age(summary: JobSummary) -> float:
    return -summary.created.wall if summary.created else 0.0


def _read(home: Path, job_id: str) -> JobSummary | None:
    try:
        # Ten thousand of them: no JobPaths for each, and no second file.
        descriptor = open_file(f"{home}/jobs/{job_id}/status.json")
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            data = json.loads(file.read(_LONGEST))
        return JobSummary(
            id=job_id,
            name=str(data["name"]),
            cluster=str(data["cluster"]),
            state=JobState(data["state"]),
            reason=str(data["reason"]),
            gpus=int(data["gpus"] or 0),
            created=_moment(data["created"]),
            finished=_moment(data["finished"]),
            parent=str(data["parent"]) if data.get("parent") else None,
            workers_on=str(data["workers_on"]) if data.get("workers_on") else None,
        )
    except SPOILT:
        return None  # being made, being deleted, or of a later release


def _moment(data: list[float] | None) -> Moment | None:
    return Moment(finite(data[0]), finite(data[1])) if data else None


def _as_it_stands(summary: JobSummary, clusters: dict[str, Cluster]) -> JobSummary:
    if summary.state.final:
        return summary
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - mostly all are over

    try:
        if summary.cluster not in clusters:  # one for all of them: it looks at its queue once
            clusters[summary.cluster] = open_cluster(summary.cluster)
        status = clusters[summary.cluster].status(summary.id)
    except SubmarineError:
        return summary
    if status.state is summary.state:
        return summary
    return replace(summary, state=status.state, reason=status.reason, finished=status.finished)


def job_words(limit: int = 50) -> list[str]:
    """Return what may name one of the newest `limit` jobs, for completion: ids, then names."""
    newest = list(islice(iter_jobs(default_home()), limit))
    return list(dict.fromkeys([s.id for s in newest] + [s.name for s in newest]))


def open_job(wanted: str) -> Job:
    """Open a job by id, by the end of its id, or by name (the newest of that name).

    Parameters
    ----------
    wanted
        An id, the end of one, or a job's name.

    Raises
    ------
    JobNotFoundError
        There is none, or several by that ending; or it is not of the user that the settings name.
    JobError
        Its record cannot be read.
    ConfigError
        The job is not over, and of a cluster that cannot be used here.
    """
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - entry points are slow
    from submarine_engine.future import Job  # noqa: PLC0415 - likewise

    home = default_home()
    paths = find_job(home, wanted, shown_user())
    name = str(_record(paths).get("cluster", "local"))
    try:
        return Job(open_cluster(name), paths.job_id)
    except ConfigError as error:
        summary = _read(home, paths.job_id)
        if summary is None or not summary.state.final:
            raise
        from submarine_engine.clusters.driver import PastCluster  # noqa: PLC0415 - seldom needed

        return Job(PastCluster(name, error, home), paths.job_id)


def record_of(job_id: str, home: Path | None = None) -> dict[str, Any]:
    """Return a job's ``record.json``; empty where it is not there, or cannot be read.

    Parameters
    ----------
    job_id
        The job.
    home
        Where all jobs are kept; None for where this process keeps them.
    """
    try:
        found = _record(JobPaths(home or default_home(), job_id))
    except JobError:  # `open_job` says so; that of another job is none of this one's business
        return {}
    return found if isinstance(found.get("spec", {}), dict) else {}


def _record(paths: JobPaths) -> dict[str, Any]:
    try:
        return read_json(paths.record) or {}
    except OSError as error:
        raise JobError(
            f"the job's record cannot be read: {error.strerror or error}",
            job_id=paths.job_id,
            where=str(paths.record),
            fix="see who has changed it; without it nobody can tell what the job was",
        ) from error


def job_name(job_id: str) -> str:
    """Return the name that the job `job_id` was given; its id where nobody can tell."""
    return str(record_of(job_id).get("spec", {}).get("name", job_id))
