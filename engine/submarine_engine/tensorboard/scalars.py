"""The scalars of a job for its card: a few tags, thinned, read on where the last look ended."""

from __future__ import annotations

import math
import os
import stat
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from threading import Lock

from submarine_engine.history import JobPaths
from submarine_engine.tensorboard.eventfile import HEAD, LARGEST, TAIL, length_of, scalars_of
from submarine_engine.tensorboard.found import event_files, job_sources

TAGS = 8
POINTS = 200

_MOST_TAGS = 64
_MOST_FILES = 64
_MOST_JOBS = 64
_PIECE = 1 << 20
_ONE_LOOK = 32 << 20
_LOOK_AGAIN = 1.0
_LONGEST_TAG = 100

Scalars = dict[str, list[list[float]]]


class Series:
    """The points of one tag: all of them at first, every second, fourth … as they get many."""

    def __init__(self) -> None:
        self._points: list[list[float]] = []
        self._last: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, step: int, value: float) -> None:
        """Take one more point; the newest is always kept."""
        self._last = [step, value]
        if self._seen % self._every == 0:
            self._points.append(self._last)
            if len(self._points) > 2 * POINTS:
                self._points = self._points[::2]
                self._every *= 2
        self._seen += 1

    def points(self) -> list[list[float]]:
        """Return at most `POINTS` of them, the newest among them, by step."""
        kept = self._points[:: max(1, math.ceil(len(self._points) / (POINTS - 1)))]
        if kept and kept[-1] is not self._last:
            kept = [*kept, self._last]
        return sorted(kept, key=lambda point: point[0])


class Reader:
    """The scalars of one job's files of events, read once.

    Parameters
    ----------
    paths
        The job.
    """

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._lock = Lock()
        self._offsets: dict[Path, int] = {}
        self._series: dict[str, Series] = {}
        self._roots: list[tuple[str, Path]] = []
        self._looked_at = float("-inf")
        self._new = False
        self._shown: Scalars = {}

    def look(self, *, at_once: bool = False) -> Scalars:
        """Read what is new, a bounded part of it; return what is known by now.

        Parameters
        ----------
        at_once
            Look even where the last look was a moment ago.
        """
        with self._lock:
            if at_once or time.monotonic() - self._looked_at >= _LOOK_AGAIN:
                self._read()
                self._looked_at = time.monotonic()
            if self._new:
                first = list(self._series.items())[:TAGS]
                self._shown = {tag: series.points() for tag, series in first}
                self._new = False
            return self._shown

    def _read(self) -> None:
        sources = [source for source in job_sources(self._paths) if not source.remote]
        left, files = _ONE_LOOK, _MOST_FILES
        for source in sources:
            root = Path(source.place)
            for path in event_files(root):
                files -= 1
                if files < 0 or left <= 0:
                    return
                run = path.parent.relative_to(root).as_posix()
                with suppress(OSError):
                    left -= self._read_file(path, "" if run == "." else f"{run}/", left)

    def _read_file(self, path: Path, run: str, limit: int) -> int:
        """Read on in one file; return how many bytes."""
        offset = self._offsets.get(path, 0)
        if offset < 0:  # no file of events, or a damaged one
            return 0
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=_PIECE) as file:  # noqa: PTH123 - a descriptor
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode):
                return 0
            begin, end = offset, min(seen.st_size, offset + limit)
            file.seek(offset)
            while offset + HEAD + TAIL <= end:
                length = length_of(file.read(HEAD))
                if length is None:
                    self._offsets[path] = -1
                    return offset - begin
                after = offset + HEAD + length + TAIL
                if after > seen.st_size:
                    break  # its end is still to be written
                if length <= LARGEST:
                    self._take(run, file.read(length))
                offset = after
                file.seek(offset)
            self._offsets[path] = offset
            return offset - begin

    def _take(self, run: str, record: bytes) -> None:
        for scalar in scalars_of(record):
            tag = f"{run}{scalar.tag}"
            known = tag in self._series or len(self._series) < _MOST_TAGS
            if len(tag) <= _LONGEST_TAG and known and math.isfinite(scalar.value):
                self._series.setdefault(tag, Series()).add(scalar.step, scalar.value)
                self._new = True


_readers: OrderedDict[str, Reader] = OrderedDict()
_readers_lock = Lock()


def scalars(paths: JobPaths, *, at_once: bool = False) -> Scalars:
    """Return the scalars that a job has written to its log directory so far.

    Reads what is new since the last call in this process; call it in a thread. Files that are no
    events, or damaged, are passed over.

    Parameters
    ----------
    at_once
        Whether to look even where the last look was a moment ago: nobody asks again after a job's
        end.

    Returns
    -------
    dict of str to list
        At most `TAGS` tags, those first that were written first; of each at most `POINTS` pairs
        of step and value, by step. Finite numbers alone. Tags are the job's own text.
    """
    with _readers_lock:
        reader = _readers.pop(str(paths.root), None) or Reader(paths)
        _readers[str(paths.root)] = reader
        while len(_readers) > _MOST_JOBS:
            _readers.popitem(last=False)
    return reader.look(at_once=at_once)
