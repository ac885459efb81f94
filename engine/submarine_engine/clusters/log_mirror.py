"""A task's logs, copied from wherever they can be read into the job's own folder.

One of the logs is a packed one, of the events for TensorBoard, and is unpacked as it comes.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from submarine_runtime.call_frames import RETURNS
from submarine_runtime.displays import FILE
from submarine_runtime.eventpack import LOG, files, pack
from submarine_runtime.metrics import FILE as METRICS
from submarine_runtime.moments import MOST, SHARE
from submarine_runtime.progress_file import STARTUP
from submarine_runtime.reported import FILE as REPORTED

from submarine_engine.errors import ClusterError
from submarine_engine.history import TaskPaths, make_private, read_json, write_aside, write_json


class LogsGoneError(ClusterError):
    """The node no longer has the log, or not yet."""


class LogTruncatedError(ClusterError):
    """The log is shorter than what was read of it: it was cut, and began anew."""


# The copy is only ever appended to, and its size is the only note of how far it came: whoever goes
# on (the keeper after a kill, another source after the application's end) begins at the next byte.


SERIES = (METRICS, REPORTED, STARTUP)
"""Files that nobody waits for. Most are thinned while they are written: their copy is what is there
now.
"""

EXIT = "exit"
"""Written last, with the status of the task's process."""

# What a call has printed is there before it is known how the call ended.
STREAMS = ("stdout", "stderr", LOG, FILE, RETURNS, *SERIES)
LIMIT = 32 << 20
_PIECE = 1 << 20
_BETWEEN = 0.05  # seconds: the job is over and waits for it; each look is a question to a node
_TEXT = ("stdout", "stderr")
_EVENTS_EVERY = 1.0  # seconds: curves are looked at by people, and a look walks a shared disk
_SERIES_EVERY = 2.0
"""Seconds: nobody waits for these, and each look is a question more to a node."""

_MOMENTS = 0.1
"""Seconds: what comes sooner after a moment has its time."""


class LogSource(Protocol):
    """Where a container's logs can be read."""

    @property
    def container(self) -> str:
        """What the cluster calls the container."""

    @property
    def live(self) -> bool:
        """Whether it shows the files themselves, so that a shorter one was truncated."""

    @property
    def complete(self) -> bool:
        """Whether what it last showed of a container that is over is all there is."""

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file; empty where nothing is known of the container."""

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file from `offset` on.

        Parameters
        ----------
        name
            One of `sizes`.
        offset
            In bytes.
        limit
            In bytes; fewer may come, none at the file's end.
        """

    def close(self) -> None:
        """Close what was opened for it."""


class FolderSource:
    """The files of a container in a folder that this machine sees: a disk that hosts share.

    Parameters
    ----------
    container
        What the cluster calls the container.
    folder
        Where its files are. Of the folders below it only ``logdir`` is seen: what the task writes
        there for TensorBoard is packed here, since nobody does that on the host.
    """

    live = True
    complete = True

    def __init__(self, container: str, folder: Path) -> None:
        self.container = container
        self._folder = folder
        self._packed: dict[str, int] = {}
        self._pack_due = 0.0

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file; empty where the folder is not there."""
        found = self._scan()
        # Whoever waits for the next line asks for sizes many times a second. What the task has
        # written before its end is packed in the same answer that tells of the end.
        if EXIT in found or time.monotonic() >= self._pack_due:
            self._pack_due = time.monotonic() + _EVENTS_EVERY
            if self._pack_events():
                with suppress(OSError):
                    found[LOG] = (self._folder / LOG).lstat().st_size
        return found

    def _scan(self) -> dict[str, int]:
        found = {}
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was renamed, or is gone
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file from `offset` on.

        Parameters
        ----------
        name
            One of `sizes`.
        offset, limit
            In bytes.

        Raises
        ------
        LogsGoneError
            There is no such file.
        LogTruncatedError
            It was cut, and is shorter than `offset`.
        """
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise LogsGoneError(f"{name} of {self.container}: {error.strerror}") from error
        try:
            if os.fstat(descriptor).st_size < offset:
                raise LogTruncatedError(f"{name} of {self.container} was cut")
            return os.pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close nothing: files are opened as they are read."""

    def _pack_events(self) -> bool:
        """Put what is new of the task's events into the log that they come home in."""
        logdir, there = self._folder / "logdir", {}
        with suppress(OSError):  # gone with its folder, or no room: the next look goes on
            for name in files(str(logdir)):
                with suppress(OSError):  # of one alone: the others go on
                    there[name] = (logdir / name).lstat().st_size
            if there != self._packed:
                pack(str(logdir), str(self._folder / LOG))
                self._packed = there
                return True
        return False


class LogMirror:
    """Copies the logs and displays of one container behind what the task's logs hold already.

    Where a task runs in one container after another, the logs of each come after those of the one
    before. A file that was truncated by its job begins anew behind what was copied of it. Where
    each log of each container begins is kept beside the copies.

    Parameters
    ----------
    local
        The task's files.
    source
        Where to copy from.
    """

    def __init__(self, local: TaskPaths, source: LogSource) -> None:
        self._local = local
        self._logs = {stream: local.log(stream) for stream in STREAMS}
        self._source = source
        self._note = local.origins
        self._origins = self._begin()
        self._began = time.monotonic()
        self._moment_due = self._series_due = 0.0

    def step(
        self, limit: int = LIMIT, sizes: Mapping[str, int] | None = None, *, last: bool = False
    ) -> int:
        """Copy what is new, at most `limit` bytes; return how many came of the logs.

        Parameters
        ----------
        limit
            How many bytes are copied at most, all files together.
        sizes
            What the source has just said of its files, to spare asking it again.
        last
            Whether all is wanted, and not only what somebody waits for.

        Raises
        ------
        ClusterError
            The source does not answer; what came before is written.
        OSError
            The copy cannot be written; likewise.
        """
        if sizes is None:
            sizes = self._source.sizes()
        copied = 0
        for stream in STREAMS:
            if stream in sizes and stream not in SERIES:
                copied += self._copy(stream, sizes[stream], limit - copied)
        if last or EXIT in sizes or time.monotonic() >= self._series_due:
            self._series_due = time.monotonic() + _SERIES_EVERY
            for stream in SERIES:
                if stream in sizes:
                    self._copy(stream, sizes[stream], LIMIT)
        return copied

    def peek(self, stream: str) -> int:
        """Copy a piece of one log, whatever its size is now; return how many bytes.

        Parameters
        ----------
        stream
            Which, as ``stdout``.

        Raises
        ------
        ClusterError, OSError
            As `step`.
        """
        return self._copy(stream, self._offset(stream) + 1, _PIECE)

    def drain(self, seconds: float = 30.0) -> bool:
        """Copy until nothing is missing, for a container that writes no more.

        Parameters
        ----------
        seconds
            How long it may take.

        Returns
        -------
        bool
            False where the source no longer knows the container, or time ran out: the rest is to
            come from elsewhere.

        Raises
        ------
        ClusterError, OSError
            As `step`.
        """
        until = time.monotonic() + seconds
        while True:
            sizes = self._source.sizes()
            if self._source.complete and not any(stream in sizes for stream in STREAMS):
                return False
            try:
                copied = self.step(sizes=sizes, last=True)
            except LogsGoneError:
                return False
            if self._source.complete and not self.behind(sizes):
                return True
            if time.monotonic() > until:
                return False
            if not copied:
                time.sleep(_BETWEEN)

    def behind(self, sizes: Mapping[str, int]) -> int:
        """Return how many bytes of files of these sizes are not copied yet.

        Parameters
        ----------
        sizes
            As the source has them.
        """
        return sum(
            max(0, sizes[stream] - self._offset(stream)) for stream in STREAMS if stream in sizes
        )

    def borders(self, stream: str) -> list[int]:
        """Return at which bytes of the copy the containers' logs begin.

        Parameters
        ----------
        stream
            Which, as ``stdout``.
        """
        return sorted(origins.get(stream, 0) for origins in _read_note(self._note).values())

    def _copy(self, stream: str, size: int, limit: int) -> int:
        offset = self._offset(stream)
        if size < offset:
            if not self._source.live and stream not in SERIES:
                return 0
            offset = self._begin_anew(stream)
        copied = 0
        while offset < size and copied < limit:
            try:
                data = self._source.read(stream, offset, min(_PIECE, limit - copied))
            except LogTruncatedError:
                offset = self._begin_anew(stream)
                break
            if not data:
                break
            if stream in _TEXT and self._source.live:  # else it was written who knows when
                self._note_moment()
            _append(self._logs[stream], data)
            offset += len(data)
            copied += len(data)
        return copied

    def _note_moment(self) -> None:
        """Note that more text came now, as the runtime notes on other clusters when it is written.

        So lines have times, and both logs an order, to the length of a look.
        """
        now = time.monotonic()
        if now < self._moment_due or _size(self._local.moments) >= MOST:
            return
        self._moment_due = now + max(_MOMENTS, (now - self._began) / SHARE)
        sizes = [_size(self._logs[stream]) for stream in _TEXT]
        with suppress(OSError):  # a full disk: the text itself has more to say of that
            _append(self._local.moments, f"{json.dumps([time.time(), *sizes])}\n".encode())

    def _offset(self, stream: str) -> int:
        """Return how far the source's file is copied."""
        return _size(self._logs[stream]) - self._origins[stream]

    def _begin(self) -> dict[str, int]:
        """Return at which byte of the copies the container's logs begin, and keep that."""
        noted = _read_note(self._note)
        if self._source.container in noted:
            return {**dict.fromkeys(STREAMS, 0), **noted[self._source.container]}
        origins = {stream: _size(self._logs[stream]) for stream in STREAMS}
        write_json(self._note, {**noted, self._source.container: origins})
        return origins

    def _begin_anew(self, stream: str) -> int:
        if stream in SERIES:
            os.truncate(self._logs[stream], self._origins[stream])
            return 0
        self._origins = {**self._origins, stream: _size(self._logs[stream])}
        noted = _read_note(self._note)
        write_json(self._note, {**noted, self._source.container: self._origins})
        return 0


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            # What was written counts, even if the disk has no room for the rest.
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_note(path: Path) -> dict[str, dict[str, int]]:
    """Return where the logs of each container begin; nothing where the note is spoilt.

    A loss of power may have spoilt the copies with it. So what their container has written is
    copied once more, behind what they hold.
    """
    try:
        noted = read_json(path) or {}
        return {
            container: {stream: int(origin) for stream, origin in origins.items()}
            for container, origins in noted.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError):
        return {}


# A container's events, unpacked from the log that they come in into the task's log directory.
#
# `submarine_runtime.eventpack` says how they lie in it. The log is the job's own text: names lead
# nowhere else, and what is damaged is passed over.


_HEAD = re.compile(rb"([0-9]{1,4}) ([0-9]{1,12}) ([0-9]{1,8})\n")
_LONGEST_HEAD = 32
_LARGEST = 1 << 23
_ONE_STEP = 64 << 20
_PART = 200


class EventLog:
    """Unpacks a task's events as their log grows.

    Parameters
    ----------
    local
        The task's files; the log is a copy among them.
    """

    def __init__(self, local: TaskPaths) -> None:
        self._local = local
        self._log = local.log(LOG)
        self._note = local.root / ".events-unpacked"
        self._done = _number(self._note)

    def step(self, borders: Iterable[int] = ()) -> None:
        """Unpack what is new, a bounded part of it.

        Parameters
        ----------
        borders
            At which bytes the logs of further containers begin.

        Raises
        ------
        OSError
            The task's folder cannot be written.
        """
        try:
            size = self._log.stat().st_size
        except FileNotFoundError:
            return
        if size <= self._done:
            return
        begin = self._done
        with self._log.open("rb") as file:
            while self._done < min(size, begin + _ONE_STEP):
                end = min((border for border in borders if border > self._done), default=size)
                after = self._unpack(file, end)
                if after is None:
                    if end == size:
                        break  # the rest of a piece is still to come
                    after = end  # the container before was cut off
                self._done = after
        if self._done != begin:
            write_aside(self._note, str(self._done).encode())

    def _unpack(self, file: BinaryIO, end: int) -> int | None:
        """Unpack the next piece; return where it ends. None where it is not all there."""
        file.seek(self._done)
        head = _HEAD.match(file.read(min(_LONGEST_HEAD, end - self._done)))
        if head is None:
            # Unless it is the beginning of one, nothing after it can be told apart.
            return None if end - self._done < _LONGEST_HEAD else end
        name_size, at, size = map(int, head.groups())
        after = self._done + head.end() + name_size + size
        if size > _LARGEST:
            return end
        if after > end:
            return None
        file.seek(self._done + head.end())
        name = file.read(name_size).decode("utf-8", "replace")
        data = file.read(size)
        if (path := self._place(name)) is not None:
            with suppress(OSError):  # a folder of that name, or a name that this disk has not
                _write(path, at, data)
        return after

    def _place(self, name: str) -> Path | None:
        parts = name.split("/")
        if not name.isprintable() or any(part in ("", ".", "..") for part in parts):
            return None
        if any(len(part.encode()) > _PART for part in parts):
            return None
        return self._local.logdir / PurePosixPath(name)


def _write(path: Path, at: int, data: bytes) -> None:
    make_private(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags | (0 if at else os.O_TRUNC), 0o600)
    try:
        if os.fstat(descriptor).st_size >= at:  # a hole would be read as damage
            os.pwrite(descriptor, data, at)
    finally:
        os.close(descriptor)


def _number(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_bytes())
    return 0
