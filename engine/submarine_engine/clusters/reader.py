"""Reading a job's stream: events, log bytes and displays from the files, at a cursor."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from submarine_engine.clusters.base import Batch, Cursor
from submarine_engine.clusters.store import read_events
from submarine_engine.errors import JobError
from submarine_engine.events import (
    Display,
    Event,
    Finished,
    LogChunk,
    Question,
    display_from_json,
)
from submarine_engine.history import SPOILT, JobPaths, open_file, read_json
from submarine_engine.masking import masker_of

DISPLAYS = "displays"
_STREAMS = ("stdout", "stderr")
_LAST_LINE = 1 << 16
_LAST_EVENT = b'{"event": "Finished"'  # as `Event.to_json` orders it
_LARGEST_FRAME = 11 << 20
"""Bytes: the runtime writes 10 MB at most, see `submarine_runtime.displays`."""

_MOST_FRAMES = 80 << 20
"""Bytes of a task's displays that are read; the runtime writes 64 MB at most."""


class _Log(NamedTuple):
    task: str
    stream: str
    offset: int
    size: int

    @property
    def key(self) -> str:
        return f"{self.task}/{self.stream}"


@dataclass(frozen=True, slots=True)
class _Frames:
    """Displays of a task, each with where the next begins."""

    found: Sequence[tuple[Display, int]]
    end: int
    """Where to go on reading, once all that were found are given."""

    complete: bool
    """Whether the file held no more."""


def read_batch(paths: JobPaths, tasks: Sequence[str], cursor: Cursor, limit: int) -> Batch:
    """Return what is new after `cursor`, as `Cluster.read` says.

    The job's last event comes when every byte of its logs is delivered, so that nothing follows
    the end.

    Parameters
    ----------
    paths
        The job's files.
    tasks
        All that the job has had, in any attempt.
    cursor
        Where the batch before this one ended.
    limit
        Bytes of logs, at most.

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
    shares = _share(logs, limit)
    items: list[LogChunk | Display] = []
    offsets: dict[str, int] = {}
    behind = False
    for task in tasks:
        # Displays after the logs' sizes: what text of these comes after, is known to be after.
        at = cursor.logs.get(f"{task}/{DISPLAYS}", 0)
        frames = _read_frames(paths, task, at, limit, over=ended)
        mine = {log: shares.get(log, 0) for log in logs if log.task == task}
        given, reached, end = _in_order(paths, mine, frames, at, over=ended)
        items += given
        offsets |= {log.key: offset for log, offset in reached.items() if offset}
        offsets |= {f"{task}/{DISPLAYS}": end} if end else {}
        behind |= any(offset < log.size for log, offset in reached.items())
        behind |= end < frames.end or not frames.complete
    events: list[Event] = [event for event, _ in found]
    last: list[Event] = []
    if ended and behind:
        ended = False
        if events:
            events.pop()
            position = found[-1][1]
    elif ended and events:
        last = [events.pop()]
    return Batch([*events, *items, *last], Cursor(position, offsets), ended)


def displays_from(paths: JobPaths, task: str, offset: int, limit: int) -> tuple[list[Display], int]:
    """Return what a task has shown from byte `offset` of its displays on, and where to go on.

    At most `limit` bytes of them, but one if there is any.

    Parameters
    ----------
    paths
        The job's files.
    task
        Which task, as ``worker-0``.
    offset
        In bytes; where a frame begins.
    limit
        In bytes; a frame that is larger comes alone.

    Raises
    ------
    JobError
        There is no such byte.
    OSError
        They cannot be read.
    """
    frames = _read_frames(paths, task, offset, limit, over=False)
    # A question is text of the log.
    return [item for item, _ in frames.found if not isinstance(item, Question)], frames.end


def _in_order(
    paths: JobPaths, shares: Mapping[_Log, int], frames: _Frames, position: int, *, over: bool
) -> tuple[list[LogChunk | Display], dict[_Log, int], int]:
    """Return text and displays of a task in their order, and how far each log and they go.

    A display waits for the text before it, and keeps the text after it back. What may be the first
    part of a secret waits for the rest of it, but for what a display waits for.
    """
    items: list[LogChunk | Display] = []
    reached = {log: log.offset for log in shares}

    def give(log: _Log, until: int, *, hold: bool = False) -> None:
        until = min(until, log.offset + shares[log])
        if until > reached[log]:
            chunk = _read(paths, log, reached[log], until, hold=hold)
            if chunk.data:
                items.append(chunk)
            reached[log] += len(chunk.data)

    for display, end in frames.found:
        for log in shares:
            give(log, getattr(display, log.stream))
        if any(
            reached[log] < getattr(display, log.stream) and not (over and reached[log] >= log.size)
            for log in shares
        ):
            return items, reached, position
        items.append(display)
        position = end
    if frames.complete:
        for log in shares:
            give(log, log.size, hold=not over)
    return items, reached, frames.end


def _read_frames(paths: JobPaths, task: str, offset: int, limit: int, *, over: bool) -> _Frames:
    """Return displays from `offset` on: at most `limit` bytes of them, but one if there is any."""
    path = paths.task(task).displays
    size = _size(path)
    if not 0 <= offset <= size:
        raise _no_cursor(paths, f"{task}/{DISPLAYS} has {size} bytes, not {offset}")
    if offset == size:
        return _Frames((), size, complete=True)
    found: list[tuple[Display, int]] = []
    origins = _origins(paths, task)
    masker = masker_of(paths.root)
    position = offset
    with open(open_file(path, links=False), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.seek(offset)
        while position < size and (position == offset or position - offset < limit):
            line = file.readline(_LARGEST_FRAME)
            whole = line.endswith(b"\n")
            if not whole and len(line) < _LARGEST_FRAME and not over:  # it is still written
                return _Frames(found, position, complete=True)
            begin, position = position, position + len(line)
            # What is no display is none of the runtime's: nothing is shown of it.
            try:
                if whole and position <= _MOST_FRAMES:
                    told = json.loads(line)
                    told = masker.within(told) if masker else told
                    frame = display_from_json(told, task=task, offset=begin)
                    found.append((_from_origin(frame, origins), position))
            except (ValueError, RecursionError):
                continue
    return _Frames(found, position, complete=position >= size)


def _origins(paths: JobPaths, task: str) -> list[dict[str, int]]:
    """Return at which bytes the logs of each container of a task begin, where it had several."""
    try:
        noted = read_json(paths.task(task).origins) or {}
        return [
            {name: int(found.get(name, 0)) for name in (*_STREAMS, DISPLAYS)}
            for found in noted.values()
        ]
    except SPOILT:
        return []


def _from_origin(display: Display, origins: Sequence[Mapping[str, int]]) -> Display:
    """Count a display's place from where its container's logs begin: it knows these alone."""
    mine = [found for found in origins if found[DISPLAYS] <= display.offset]
    if not mine:
        return display
    last = max(mine, key=lambda found: (found[DISPLAYS], found["stdout"], found["stderr"]))
    places = {stream: getattr(display, stream) + last[stream] for stream in _STREAMS}
    return replace(display, **places)


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
            size = _size(paths.task(task).log(stream))
            log = _Log(task, stream, offsets.get(f"{task}/{stream}", 0), size)
            if not 0 <= log.offset <= log.size:
                raise _no_cursor(paths, f"{log.key} has {log.size} bytes, not {log.offset}")
            logs.append(log)
    known = {log.key for log in logs} | {f"{task}/{DISPLAYS}" for task in tasks}
    if unknown := set(offsets) - known:
        raise _no_cursor(paths, f"it has no log {min(unknown)!r}")
    return logs


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _share(logs: Sequence[_Log], limit: int) -> dict[_Log, int]:
    """Share `limit` bytes out: a log that has little gets all of it, the others what is left."""
    fresh = sorted((log for log in logs if log.size > log.offset), key=lambda x: x.size - x.offset)
    shares = {}
    left = max(0, limit)
    for waiting, log in zip(range(len(fresh), 0, -1), fresh, strict=True):
        # One byte at least: a display may keep back all the others.
        shares[log] = max(1, min(log.size - log.offset, -(-left // waiting)))
        left = max(0, left - shares[log])
    return shares


def _read(paths: JobPaths, log: _Log, begin: int, end: int, *, hold: bool) -> LogChunk:
    path = paths.task(log.task).log(log.stream)
    if (masker := masker_of(paths.root)) is None:
        data = _bytes(path, begin, end - begin)
    else:
        data = masker.read(lambda size, at: _bytes(path, at, size), begin, end, hold=hold)
    return LogChunk(task=log.task, stream=log.stream, offset=begin, data=data)


def _bytes(path: os.PathLike[str], offset: int, size: int) -> bytes:
    descriptor = open_file(path, links=False)
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
