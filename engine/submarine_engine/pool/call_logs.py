"""What each call of a pool has written, found in its workers' logs: while it runs, and after."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import LONGEST_HEAD, RETURNS, SpoiltError, parsed

from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec
from submarine_engine.masking import masked_pread, masker_of
from submarine_engine.pool.journal import Follower

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.history import TaskPaths
    from submarine_engine.pool.folder import PoolFolder

_STREAMS = ("stdout", "stderr")
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PIECE = 1 << 16
_Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class CallRun:
    """A run of a call on a worker.

    Parameters
    ----------
    index, attempt
        Which call, and the how manieth try of it.
    worker
        The job of the worker.
    """

    index: int
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class CallText:
    """What a run has written to its worker's log.

    Parameters
    ----------
    run
        Which one.
    text
        Its end: ``stdout``, then ``stderr``.
    left_out
        How many bytes stand before that.
    """

    run: CallRun
    text: str
    left_out: int


class CallLogs:
    """The logs of a pool's calls; remembers where they begin, for who looks again.

    Parameters
    ----------
    folder
        The pool's.

    Raises
    ------
    JobNotFoundError
        It is gone, or of another release.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._home = folder.home
        self._task = JobSpec.from_json(folder.read()["spec"]).tasks[0]
        self._follower = Follower(folder)
        self._labels: dict[str, list[int]] = {}
        self._runs: dict[int, list[CallRun]] = {}
        self._spans: dict[str, _Spans] = {}

    def labelled(self, label: str) -> tuple[int, ...]:
        """Return the calls of that label, by index: one trial is several where it was paused."""
        self._read()
        return tuple(self._labels.get(label, ()))

    def runs(self, index: int) -> tuple[CallRun, ...]:
        """Return the runs of the call `index`, the latest last; empty where none has begun."""
        self._read()
        return tuple(self._runs.get(index, ()))

    def files(self, run: CallRun) -> TaskPaths:
        """Return the files of the worker that had a run."""
        return JobPaths(self._home, run.worker).task(self._task)

    def text(self, run: CallRun, most: int) -> CallText:
        """Return the end of what a run has written by now; nothing where its files are gone.

        Parameters
        ----------
        run
            Which one.
        most
            Bytes of each stream, at most.
        """
        files = self.files(run)
        spans = self._spans.setdefault(run.worker, _Spans(files.root / RETURNS))
        spans.read()
        begins = spans.begins.get((run.index, run.attempt))
        ends = spans.ends.get((run.index, run.attempt), {})
        pieces, left_out = [], 0
        for stream in _STREAMS:
            if begins is None or stream not in begins:
                continue
            with suppress(OSError):
                text, left = self._piece(files, stream, begins[stream], ends.get(stream), most)
                pieces.append(text)
                left_out += left
        return CallText(run, "".join(pieces), left_out)

    def _piece(
        self, files: TaskPaths, stream: str, at: int, until: int | None, most: int
    ) -> tuple[str, int]:
        descriptor = os.open(files.log(stream), _FLAGS)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return "", 0
            end = found.st_size if until is None else min(until, found.st_size)
            begin = max(at, end - most)
            masker = masker_of(files.root.parents[1])
            data = masked_pread(masker, descriptor, max(0, end - begin), begin)
        finally:
            os.close(descriptor)
        text = data.decode(errors="replace")
        if begin > at:  # not half a line
            text = text.partition("\n")[2] or text
        return text, begin - at

    def _read(self) -> None:
        for line in self._follower.read():
            if line["kind"] == "call":
                self._labels.setdefault(line["label"], []).append(line["index"])
            elif line["kind"] == "began":
                run = CallRun(line["index"], line["try"], line["worker"])
                self._runs.setdefault(run.index, []).append(run)


@dataclass
class _Spans:
    """Between which bytes of a worker's logs its calls have written."""

    path: Path
    begins: dict[tuple[int, int], _Sizes] = field(default_factory=dict)
    ends: dict[tuple[int, int], _Sizes] = field(default_factory=dict)
    _at: int = 0
    _open: tuple[int, int] | None = None

    def read(self) -> None:
        with suppress(OSError, SpoiltError):
            descriptor = os.open(self.path, _FLAGS)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    for head, end in _heads(descriptor, self._at):
                        self._take(head)
                        self._at = end
            finally:
                os.close(descriptor)

    def _take(self, head: dict[str, Any]) -> None:
        sizes = {one: size for one in _STREAMS if isinstance(size := head.get(one), int)}
        if not sizes or min(sizes.values()) < 0:
            return
        index, number = head.get("index"), head.get("try")
        if not (isinstance(index, int) and isinstance(number, int)):
            return  # a stranger's word
        key = index, number
        if head["kind"] != "began":
            self.ends[key] = sizes  # a fork's next call may have told that it began before
            return
        if self._open is not None:  # a call whose process died ends where the next one begins
            self.ends.setdefault(self._open, sizes)
        self._open = key
        self.begins[key] = sizes


def _heads(descriptor: int, at: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the heads of whole frames from `at` on, each with where its frame ends."""
    size = os.fstat(descriptor).st_size
    while at < size:
        line = os.pread(descriptor, _PIECE, at)
        while b"\n" not in line and len(line) < min(LONGEST_HEAD, size - at):
            line += os.pread(descriptor, _PIECE, at + len(line))
        if b"\n" not in line:
            return
        line = line[: line.index(b"\n")]
        head = parsed(line)
        at += len(line) + 1 + head["size"]
        if at > size:
            return
        yield head, at
