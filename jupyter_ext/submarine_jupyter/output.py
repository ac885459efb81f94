"""What a task has written and shown as one text: both logs in their order, displays between.

The logs are files of their own. Their order comes from the task's *moments*: how long both were at
some time, which the runtime notes whenever the code turns to the other stream (on YARN the keeper,
as text comes). A line stands where its first byte was written, so lines have numbers by which they
are read and searched. Where nobody noted moments (of programs of other languages) displays alone
say what came before what, and otherwise stdout stands before stderr.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.clusters.reader import displays_from
from submarine_engine.errors import JobError
from submarine_engine.events import Display
from submarine_engine.history import JobPaths
from submarine_engine.masking import masked_pread, masker_of

from submarine_jupyter import jobs
from submarine_jupyter.log_index import LONGEST, MOST, LineIndex, search, shown_line

STREAMS = ("stdout", "stderr")
MOST_SHOWN = 500
"""Displays that are told of; of more, the last."""
_STEP = 4 << 20
_MOST_MOMENTS = 8 << 20
"""Bytes of moments that are read: the runtime writes half of that at most."""

_Sizes = tuple[int, int]


class _Point(NamedTuple):
    """How long both logs were at one moment; its time where it is known."""

    sizes: _Sizes
    wall: float | None


class _Run(NamedTuple):
    """Lines of one stream that stand together."""

    start: int
    """The number of its first line among all."""
    stream: int
    first: int
    """The number of that line in its own log."""
    lines: int
    wall: float | None


class _PlacedDisplay:
    """One thing that stands in the output."""

    def __init__(self, display: Display) -> None:
        self.display_id = display.display_id
        self.place = display.stdout, display.stderr
        self.offset = display.offset


class Output:
    """The output of one task; used by one thread at a time.

    Parameters
    ----------
    paths
        The job's files.
    task
        Which of its tasks.
    """

    def __init__(self, paths: JobPaths, task: str) -> None:
        self._paths, self._task = paths, task
        self._files = paths.task(task)
        self._masker = masker_of(paths.root)
        self._indexes = (LineIndex(), LineIndex())
        self._displays_read = 0
        self._shown: list[_PlacedDisplay] = []
        self._newest: dict[str, int] = {}  # by display id: where its newest state is
        self._clears = False
        self._begin()

    def _begin(self) -> None:
        self._runs: list[_Run] = []
        self._done = [0, 0]  # lines of each stream that have their place
        self._ends = [0, 0]  # bytes likewise
        self._wall: float | None = None
        self._points: list[_Point] = []
        self._moments_read = 0
        self._generation = self._generations()

    def _generations(self) -> tuple[int, ...]:
        return tuple(index.generation for index in self._indexes)

    def grow(self, most: int) -> bool:
        """Read at most `most` bytes more of each log; return whether everything is known now."""
        with self._logs() as logs:
            grown = [
                log < 0 or index.grow(log, most)
                for index, log in zip(self._indexes, logs, strict=True)
            ]
            if self._generation != self._generations():
                self._begin()
                self._points += [_Point(item.place, None) for item in self._shown]
            if not all(grown):
                return False
            # After the logs: what was noted as they were written is known then.
            self._read_moments()
            whole = self._read_displays()
            self._place(logs)
        return whole

    def read(self, start: int | None, count: int) -> dict[str, object]:
        """Return lines by number as `read_lines` does; of each its stream and time, too.

        Parameters
        ----------
        start
            The number of the first line, from 0; None for the last `count` lines.
        count
            How many at most.

        Returns
        -------
        dict
            As `read_lines`, and ``streams`` (0 for stdout, 1 for stderr) and ``times`` (seconds
            since the epoch, None where nobody knows).
        """
        runs, total = self._all()
        first = max(0, total - count) if start is None else min(start, total)
        wanted = list(_cut(runs, first, min(total, first + count)))
        with self._logs() as logs:
            spans = list(self._spans(wanted, logs))
            whole = sum(min(end - begin, LONGEST) for _, begin, end, _ in spans)
            most = LONGEST if whole <= MOST else min(LONGEST, MOST // max(1, len(spans)))
            lines = [
                shown_line(logs[stream], begin, end, most, self._masker)
                for stream, begin, end, _ in spans
            ]
        return {
            "total": total,
            "size": sum(index.size for index in self._indexes),
            "start": first,
            "lines": lines,
            "streams": [stream for stream, *_ in spans],
            "times": [wall for *_, wall in spans],
        }

    def at(self, wall: float, around: int) -> dict[str, object]:
        """Return the line that was the last one at some moment, and those around it.

        Parameters
        ----------
        wall
            Seconds since the epoch.
        around
            How many lines before it, and how many after it.

        Returns
        -------
        dict
            As `read`, and ``line``: its number, None where nothing was written by then, or nobody
            knows when.
        """
        runs, _ = self._all()
        told = (run for run in reversed(runs) if run.wall is not None and run.wall <= wall)
        last = next(told, None)
        if last is None:
            return {**self.read(0, 0), "line": None}
        line = last.start + last.lines - 1
        first = max(0, line - around)
        return {**self.read(first, line - first + 1 + around), "line": line}

    def raw(self, start: int, count: int) -> tuple[bytes, int]:
        """Return lines as they were written, each with its end, and how many these are.

        But for secrets, which are masked here, too.

        Parameters
        ----------
        start
            The number of the first line, from 0.
        count
            How many at most.
        """
        wanted = list(_cut(self._all()[0], start, start + count))
        with self._logs() as logs:
            found = [
                masked_pread(self._masker, logs[stream], end - begin, begin)
                for stream, begin, end, _ in self._spans(wanted, logs)
            ]
        return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in found), len(
            found
        )

    def search(self, text: str, start: int, count: int) -> dict[str, object]:
        """Return the numbers of lines that hold `text`, as `log_index.search` does.

        Parameters
        ----------
        start
            The number of the line to begin at, from 0.
        count
            How many lines at most.
        """
        runs, _ = self._all()
        found: list[int] = []
        limits: list[int] = []
        with self._logs() as logs:
            for stream, index in enumerate(self._indexes):
                mine = [run for run in runs if run.stream == stream]
                if not mine:
                    continue
                first = _first_from(mine, start)
                told: Any = search(index, logs[stream], text, first, count, self._masker)
                found += [number for line in told["lines"] if (number := _number(mine, line)) >= 0]
                if told["next"] is not None:
                    limits.append(_number(mine, told["next"]))
        found.sort()
        if len(found) > count:
            limits.append(found[count])
        if not limits:
            return {"lines": found, "next": None}
        return {"lines": [line for line in found if line < min(limits)], "next": min(limits)}

    def shown(self) -> dict[str, object]:
        """Return what is shown now: of each thing how many lines stand before it.

        Returns
        -------
        dict
            ``displays``: each with ``offset`` (see `display`), which is another one when its state
            is, and ``line``; ``left_out``: how many come before these.
        """
        runs, _ = self._all()
        streams = [[run for run in runs if run.stream == stream] for stream in range(2)]
        found = []
        with self._logs() as logs:
            for item in self._shown[-MOST_SHOWN:]:
                counts = [
                    index.lines_before(log, size) if log >= 0 else 0
                    for index, log, size in zip(self._indexes, logs, item.place, strict=True)
                ]
                line = max(
                    _number(mine, n - 1) + 1 if n else 0
                    for mine, n in zip(streams, counts, strict=True)
                )
                found.append({"offset": self._state_of(item), "line": line})
        return {"displays": found, "left_out": max(0, len(self._shown) - MOST_SHOWN)}

    def display(self, offset: int) -> dict[str, object]:
        """Return the MIME bundle of a thing that is shown now, by the ``offset`` of `shown`.

        Raises
        ------
        FileNotFoundError
            There is none; it may have another state by now.
        """
        if all(self._state_of(item) != offset for item in self._shown):
            raise FileNotFoundError(offset)
        try:
            [found], _ = displays_from(self._paths, self._task, offset, 1)
        except (JobError, ValueError) as error:  # the job has cut them, or written others there
            raise FileNotFoundError(offset) from error
        return {"data": found.data, "metadata": found.metadata}

    @contextmanager
    def _logs(self) -> Iterator[_Sizes]:
        """Open both logs; -1 for one that is not there."""
        with ExitStack() as stack:
            out, err = (_opened(stack, self._files.log(name)) for name in STREAMS)
            yield out, err

    def _read_moments(self) -> None:
        try:
            data, _ = jobs.part_of(
                self._files.moments, self._moments_read, _MOST_MOMENTS - self._moments_read
            )
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]  # the rest is still written
        self._moments_read += len(whole)
        for line in whole.splitlines():
            if point := _point(line):
                self._points.append(point)

    def _read_displays(self) -> bool:
        """Take in what was shown since; return whether that is all."""
        try:
            found, end = displays_from(self._paths, self._task, self._displays_read, _STEP)
        except JobError:  # the job has cut them: what there is now is all
            self._displays_read, self._shown, self._clears = 0, [], False
            self._newest = {}
            found, end = displays_from(self._paths, self._task, 0, _STEP)
        self._displays_read, begun = end, self._displays_read
        for display in found:
            self._show(display)
        return end - begun < _STEP

    def _show(self, display: Display) -> None:
        if display.kind == "clear":
            self._clears = display.wait
            if not display.wait:
                self._shown = []
            return
        if self._clears:
            self._shown, self._clears = [], False
        if display.display_id is not None:
            self._newest[display.display_id] = display.offset
        if display.kind == "display":
            self._shown.append(_PlacedDisplay(display))
            self._points.append(_Point(self._shown[-1].place, None))

    def _state_of(self, item: _PlacedDisplay) -> int:
        """Return where the newest state of a thing is, in the task's displays."""
        if item.display_id is None:
            return item.offset
        return self._newest.get(item.display_id, item.offset)

    def _place(self, logs: _Sizes) -> None:
        """Give the lines before each point their place."""
        self._points.sort(key=lambda point: sum(point.sizes))
        sizes = [index.size for index in self._indexes]
        later = []
        for point in self._points:
            if any(place > size for place, size in zip(point.sizes, sizes, strict=True)):
                later.append(point)  # its text is not read yet
                continue
            for stream, place in enumerate(point.sizes):
                if place > self._ends[stream]:  # one that goes back tells nothing, and costs
                    self._ends[stream] = place
                    count = self._indexes[stream].lines_before(logs[stream], place)
                    self._add(stream, count)
            self._wall = point.wall or self._wall
        self._points = later

    def _add(self, stream: int, until: int) -> None:
        first = self._done[stream]
        if until > first:
            self._runs.append(_Run(sum(self._done), stream, first, until - first, self._wall))
            self._done[stream] = until

    def _all(self) -> tuple[list[_Run], int]:
        """Return all runs, with one of each stream for what is after the last point."""
        runs, start = list(self._runs), sum(self._done)
        with self._logs() as logs:
            for stream, (index, log) in enumerate(zip(self._indexes, logs, strict=True)):
                count = (index.total(log) if log >= 0 else 0) - self._done[stream]
                if count > 0:
                    runs.append(_Run(start, stream, self._done[stream], count, self._wall))
                    start += count
        return runs, start

    def _spans(
        self, runs: list[_Run], logs: _Sizes
    ) -> Iterator[tuple[int, int, int, float | None]]:
        """Yield stream, begin, end and time of the lines of `runs`."""
        begins: dict[int, Iterator[tuple[int, int]]] = {}
        for stream, index in enumerate(self._indexes):
            mine = [run for run in runs if run.stream == stream]
            count = sum(run.lines for run in mine)
            found = index.begins(logs[stream], mine[0].first, count) if mine else []
            begins[stream] = iter(list(pairwise(found)))
        for run in runs:
            for _ in range(run.lines):
                begin, end = next(begins[run.stream], (0, 0))
                yield run.stream, begin, end, run.wall


def _opened(stack: ExitStack, path: Path) -> int:
    try:
        return stack.enter_context(jobs.opened_log(path))
    except FileNotFoundError:
        return -1


def _point(line: bytes) -> _Point | None:
    """Read a moment; None for what is none: the file is the job's."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, list) or len(told) != 3:  # noqa: PLR2004 - time and two sizes
        return None
    wall, *sizes = told
    if type(wall) is not float or not 0 < wall < 1 << 40:
        return None
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in sizes):
        return None
    return _Point((sizes[0], sizes[1]), wall)


def _cut(runs: list[_Run], first: int, last: int) -> Iterator[_Run]:
    """Yield the parts of `runs` between two numbers of lines."""
    at = max(0, bisect_right(runs, first, key=lambda run: run.start) - 1)
    while at < len(runs) and runs[at].start < last:
        run = runs[at]
        skipped = max(0, first - run.start)
        count = min(run.start + run.lines, last) - run.start - skipped
        if count > 0:
            yield _Run(run.start + skipped, run.stream, run.first + skipped, count, run.wall)
        at += 1


def _number(runs: list[_Run], line: int) -> int:
    """Return the number among all of a line of one stream's; -1 where it has no place yet."""
    at = bisect_right(runs, line, key=lambda run: run.first) - 1
    if at < 0:
        return -1
    return runs[at].start + line - runs[at].first


def _first_from(runs: list[_Run], start: int) -> int:
    """Return the first line of one stream's that has at least the number `start` among all."""
    at = bisect_right(runs, start, key=lambda run: run.start) - 1
    if at < 0:
        return runs[0].first
    return runs[at].first + min(start - runs[at].start, runs[at].lines)
