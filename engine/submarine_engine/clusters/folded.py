"""Statuses of jobs, each folded once: later looks read only what is new."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from submarine_engine.clusters.journal import read_events
from submarine_engine.history import JobPaths
from submarine_engine.lifecycle import JobStatus, fold

_MOST = 256


class _Seen(NamedTuple):
    inode: int
    offset: int
    status: JobStatus


class Folded:
    """Remembers the statuses of the jobs looked at last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def status(self, paths: JobPaths) -> JobStatus:
        """Return the job as its events tell.

        Raises
        ------
        OSError
            The job's folder is gone, or cannot be read.
        """
        now = paths.events.stat()
        seen = self._seen.pop(paths.job_id, None)
        if seen is None or seen.inode != now.st_ino or seen.offset > now.st_size:
            seen = _Seen(now.st_ino, 0, JobStatus())
        if seen.offset < now.st_size:
            found, end = read_events(paths.events, seen.offset)
            status = fold((event for event, _ in found), seen.status)
            seen = _Seen(now.st_ino, end, status)
        self._seen[paths.job_id] = seen
        while len(self._seen) > _MOST:
            self._seen.popitem(last=False)
        return seen.status
