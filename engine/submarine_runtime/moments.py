"""Notes when the task's text was written, and in which order stdout and stderr.

`task` begins it; readers put both logs in order by it. The logs are files of their own, and neither
time nor the other's text stands in them. So whenever the code turns to the other stream, and a few
times a second besides, a line in the file `FILE` says how long both logs were then: ``[wall,
stdout, stderr]``. What programs beside this process write has no line of its own.
"""

from __future__ import annotations

import os
import sys
import time
from io import FileIO, TextIOWrapper
from time import monotonic

from submarine_runtime.lean import mode_in, suppress
from submarine_runtime.leave import note_file

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

FILE = "moments"
MOST = 4 << 20
"""Bytes of the file: what is written later has the last moment of it."""

_EVERY = 0.05  # seconds between two lines for one stream: a loop that prints would fill `MOST`
SHARE = 2000
"""The longer a job runs the rarer: its age by this apart, so that a week is a few MB."""

_old: list[Any] = []
"""Libraries that were imported ahead may hold these."""


class Moments:
    """Writes how long the logs were, as text is about to be added.

    Parameters
    ----------
    folder
        The task's.
    """

    def __init__(self, folder: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(f"{folder}/{FILE}", flags, mode_in(folder))
        note_file(self._file)
        self._owner = os.getpid()
        self._began = monotonic()
        self._left = MOST

    def note(self) -> float:
        """Note how long the logs are; return when more of the same stream is noted again."""
        now = monotonic()
        if self._left > 0 and self._owner == os.getpid():  # a fork's text is its parent's, too
            with suppress(OSError):  # a full disk, or a file that the code has closed
                sizes = os.fstat(1).st_size, os.fstat(2).st_size
                line = b"[%.3f, %d, %d]\n" % (time.time(), *sizes)
                self._left -= os.write(self._file, line)
        return now + max(_EVERY, (now - self._began) / SHARE)


class _Stream(FileIO):
    """stdout or stderr, unbuffered as ``python -u`` has them, that takes notice of what comes."""

    other: _Stream

    def __init__(self, descriptor: int, name: str, moments: Moments) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.name = name
        plain = super().write
        due = 0.0

        # Each print comes here. A method would look up four attributes more.
        def write(data: Any) -> Any:  # noqa: ANN401 - bytes-like, as FileIO has it
            nonlocal due
            if due <= monotonic():
                due = moments.note()
                self.other.turn()
            return plain(data)

        def turn() -> None:
            nonlocal due
            due = 0.0

        self.write = write  # type: ignore[method-assign] # called by TextIOWrapper, as a method is
        self.turn = turn
        """The other stream was written to: what comes next is noted."""


def begin(folder: str) -> None:
    """Note from now on in the task's `folder` when its text is written."""
    with suppress(OSError):
        moments = Moments(folder)
        out, err = _Stream(1, "<stdout>", moments), _Stream(2, "<stderr>", moments)
        out.other, err.other = err, out
        for name, raw in (("stdout", out), ("stderr", err)):
            old = getattr(sys, name)
            if type(getattr(old, "buffer", None)) is not FileIO:
                continue  # buffered: what is written here is not what comes into the log
            new: Any = TextIOWrapper(
                raw, old.encoding, old.errors, "\n", old.line_buffering, write_through=True
            )
            new.mode = "w"
            _old.append(old)
            for place in (name, f"__{name}__"):
                setattr(sys, place, new)
