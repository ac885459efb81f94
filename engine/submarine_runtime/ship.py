"""Brings a task's files to HDFS while it runs, where the nodes' own pages cannot be reached.

A process of its own does it: it holds no GPU, nothing in the task waits for it, and what the task
wrote last is brought after the task is gone.

A log lies in HDFS as segments, ``stdout@<offset of its first byte>``. A segment grows by appending.
Where it is not certain whether an append was done, the segment is left as it is and another begins
at the last byte that is certain: segments may overlap, and say the same where they do. Any other
file of the folder is written again whenever it has changed. ``@over`` says that all is there.
"""

from __future__ import annotations

import os
import re
import time

from submarine_runtime.lean import suppress
from submarine_runtime.webwrite import WebFolder

STREAMS = ("stdout", "stderr", "events", "displays")
EVERY = 0.5
"""Seconds between two looks; HDFS sees two requests a log that has grown."""

PATIENCE = 30.0
"""Seconds that are tried for in vain, once the task is gone."""

_LOOK = 0.05
_PIECE = 8 << 20
_LARGEST = 256 << 20
_DESCRIPTORS = 1024
_LAST = ("outcome.json", "exit")
_OVER = "@over"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_RESULT = re.compile(r"(return|home|var-\w{1,200})\.(pkl|txt)")
"""What comes whatever its size: it was limited where it was written, and lies there by a rename."""


def start(folder: str, urls: str, below: str, task: int) -> None:
    """Start the process, and return at once.

    Parameters
    ----------
    folder
        The task's folder.
    urls, below
        Where to, as of `WebFolder`.
    task
        The process with whose end the task is over.
    """
    if os.fork():
        os.wait()
        return
    os.setsid()  # no part of the task's process group, which is killed at its end
    if os.fork():
        os._exit(0)  # and no descendant of the task either
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, _DESCRIPTORS)
        Shipper(folder, WebFolder(urls, below)).run(task)
    finally:
        os._exit(0)


class Shipper:
    """Brings what is new of a folder's files.

    Parameters
    ----------
    folder
        The task's folder.
    there
        Where to.
    """

    def __init__(self, folder: str, there: WebFolder) -> None:
        self._folder = folder
        self._there = there
        self._sent = dict.fromkeys(STREAMS, 0)
        self._segment: dict[str, str] = {}
        self._brought: dict[str, tuple[int, int]] = {}

    def run(self, task: int) -> None:
        """Bring what is new until the process `task` is gone and all is there."""
        last = time.monotonic()
        while True:
            over = not _lives(task)
            try:
                complete = self.step()
                if over and complete:
                    self._there.create(_OVER, b"")
                    return
            except OSError:
                if over and time.monotonic() > last + PATIENCE:
                    return
            else:
                last = time.monotonic()
                if over or not complete:
                    continue
            again = time.monotonic() + EVERY
            while time.monotonic() < again and (over or _lives(task)):
                time.sleep(_LOOK)

    def step(self) -> bool:
        """Bring what is new; return whether that was all of it.

        Raises
        ------
        OSError
            HDFS does not take it; the next step goes on.
        """
        # Who sees the outcome may believe that the logs and results are complete.
        others = self._others()
        others.sort(key=lambda name: _LAST.index(name) if name in _LAST else -1)
        more = [self._grow(stream) for stream in STREAMS]
        for name in others:
            if name not in _LAST or not any(more):
                self._bring(name)
        return not any(more)

    def _grow(self, stream: str) -> bool:
        """Bring the next bytes of a log; return whether there may be more of them."""
        sent = self._sent[stream]
        try:
            with open(f"{self._folder}/{stream}", "rb") as file:  # noqa: PTH123 - pathlib is slow
                file.seek(sent)
                data = file.read(_PIECE)
        except FileNotFoundError:
            return False
        if not data:
            return False
        segment = self._segment.pop(stream, None)
        if segment is None:
            segment = f"{stream}@{sent:020d}"
            self._there.create(segment, data)
        else:
            self._there.append(segment, data)
        self._segment[stream] = segment
        self._sent[stream] = sent + len(data)
        return len(data) == _PIECE

    def _others(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            return [
                entry.name
                for entry in entries
                if entry.name not in STREAMS
                and _NAME.fullmatch(entry.name)
                and entry.is_file(follow_symlinks=False)
            ]

    def _bring(self, name: str) -> None:
        """Bring a file if it has changed."""
        with suppress(FileNotFoundError):
            with open(f"{self._folder}/{name}", "rb") as file:  # noqa: PTH123 - as above
                status = os.fstat(file.fileno())
                version = status.st_mtime_ns, status.st_size
                large = status.st_size > _LARGEST
                if self._brought.get(name) == version or (large and not _RESULT.fullmatch(name)):
                    return
                self._there.replace(name, file if large else file.read())
            self._brought[name] = version


def _lives(pid: int) -> bool:
    """Tell whether a process runs: neither gone nor waited for, see ``/proc/PID/stat``, proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
