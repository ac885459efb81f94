"""A container's events, unpacked from the log that they come in into the task's log directory.

`submarine_runtime.eventpack` says how they lie in it. The log is the job's own text: names lead
nowhere else, and what is damaged is passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from submarine_runtime.eventpack import LOG

from submarine_engine.history import TaskPaths, make_private, write_aside

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
