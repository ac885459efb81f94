"""Reading a job's stream: events and log bytes from the files, at a cursor."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from submarine_engine.clusters.base import Batch, Cursor
from submarine_engine.clusters.journal import read_events
from submarine_engine.errors import JobError
from submarine_engine.events import Event, Finished, LogChunk
from submarine_engine.history import JobPaths

_STREAMS = ("stdout", "stderr")
_LAST_LINE = 1 << 16
_LAST_EVENT = b'{"event": "Finished"'  # as `Event.to_json` orders it


class _Log(NamedTuple):
    task: str
    stream: str
    offset: int
    size: int

    @property
    def key(self) -> str:
        return f"{self.task}/{self.stream}"


def read_batch(paths: JobPaths, tasks: Sequence[str], cursor: Cursor, limit: int) -> Batch:
    """Return what is new after `cursor`, as `Cluster.read` says.

    The job's last event comes when every byte of its logs is delivered, so that nothing follows
    the end.

    Raises
    ------
    JobError
        `cursor` is none of this job's.
    OSError
        The job's folder is gone, or cannot be read.
    """
    # Events before logs: once the job's end is seen, its logs do not grow any more.
    found, position, ended = _new_events(paths, cursor.events)
    logs = _logs(paths, tasks, cursor.logs)
    chunks = [_read(paths, log, size) for log, size in _share(logs, limit)]
    offsets = {log.key: log.offset for log in logs if log.offset}
    offsets |= {f"{c.task}/{c.stream}": c.offset + len(c.data) for c in chunks}
    events: list[Event] = [event for event, _ in found]
    last: list[Event] = []
    if ended and any(offsets.get(log.key, 0) < log.size for log in logs):
        ended = False
        if events:
            events.pop()
            position = found[-1][1]
    elif ended and events:
        last = [events.pop()]
    return Batch([*events, *chunks, *last], Cursor(position, offsets), ended)


def _new_events(paths: JobPaths, offset: int) -> tuple[list[tuple[Event, int]], int, bool]:
    """Return the events after `offset`, where the next begins, and whether the job is over."""
    size = paths.events.stat().st_size
    if not 0 <= offset <= size:
        raise _no_cursor(paths, f"its events have {size} bytes, not {offset}")
    if offset == size:
        # No byte beyond `size`: an end that comes right now is the next batch's, with its event.
        begin = max(0, size - _LAST_LINE)
        tail = _bytes(paths.events, begin, size - begin)
        return [], offset, tail.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LAST_EVENT)
    if offset and _bytes(paths.events, offset - 1, 1) != b"\n":
        raise _no_cursor(paths, f"no event begins at byte {offset}")
    found, position = read_events(paths.events, offset)
    return found, position, bool(found) and isinstance(found[-1][0], Finished)


def _logs(paths: JobPaths, tasks: Sequence[str], offsets: Mapping[str, int]) -> list[_Log]:
    logs = []
    for task in tasks:
        for stream in _STREAMS:
            log = _Log(task, stream, offsets.get(f"{task}/{stream}", 0), _size(paths, task, stream))
            if not 0 <= log.offset <= log.size:
                raise _no_cursor(paths, f"{log.key} has {log.size} bytes, not {log.offset}")
            logs.append(log)
    if unknown := set(offsets) - {log.key for log in logs}:
        raise _no_cursor(paths, f"it has no log {min(unknown)!r}")
    return logs


def _size(paths: JobPaths, task: str, stream: str) -> int:
    try:
        status = paths.task(task).log(stream).lstat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _share(logs: Sequence[_Log], limit: int) -> list[tuple[_Log, int]]:
    """Share `limit` bytes out: a log that has little gets all of it, the others what is left."""
    fresh = sorted((log for log in logs if log.size > log.offset), key=lambda x: x.size - x.offset)
    shares = {}
    left = max(0, limit)
    for waiting, log in zip(range(len(fresh), 0, -1), fresh, strict=True):
        shares[log] = min(log.size - log.offset, -(-left // waiting))
        left -= shares[log]
    return [(log, shares[log]) for log in logs if shares.get(log)]


def _read(paths: JobPaths, log: _Log, size: int) -> LogChunk:
    data = _bytes(paths.task(log.task).log(log.stream), log.offset, size)
    return LogChunk(task=log.task, stream=log.stream, offset=log.offset, data=data)


def _bytes(path: os.PathLike[str], offset: int, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _no_cursor(paths: JobPaths, why: str) -> JobError:
    return JobError(
        f"this is no place in the job's stream: {why}",
        job_id=paths.job_id,
        fix="begin at Cursor(); a log gets shorter only when the job itself cuts it",
    )
