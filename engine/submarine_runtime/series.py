"""A file of numbers over time that stays small; the newest rows are kept in full.

`metrics` and `reported` write such files, `submarine_engine.metrics` reads them.

A row is ``{"at": 1763769600.12, "cpu": 1.5}``: the wall clock, and numbers by name. Once the file
has `MOST` bytes, rows that are not of the latest half hour are put together. Such a row says of
how many it is made, ``"rows": 64``, and has ``[least, mean, most]`` in place of numbers that were
not all the same. What is no finite number, a loss that became NaN, is text.

A row is one write, and the thinned file takes the place of the old one at once: whoever is killed
leaves half a line at most, which `parse` passes over.
"""

from __future__ import annotations

import errno
import math
import os
import sys

from submarine_runtime.lean import dumps, mode_in, standard, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Row = dict[str, Any]

MOST = 1_000_000
"""Bytes of a file."""

RECENT = 1800.0
"""Seconds whose rows stay as they are, as far as they fit into three eighths of the file."""

AT, ROWS = "at", "rows"
_WIDEST = 1 << 26  # seconds: two years in one row
_THREE = 3


class Series:
    """Writes such a file, which one process at a time may do.

    Parameters
    ----------
    path
        The file; what is there is gone on with.
    most
        How many bytes it may have.
    recent
        Seconds whose rows stay as they are.

    Raises
    ------
    OSError
        It cannot be opened.
    """

    def __init__(self, path: str, most: int = MOST, recent: float = RECENT) -> None:
        self._path, self._most, self._recent = path, most, recent
        self._file = self._open()
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":  # who wrote it was killed
            os.write(self._file, b"\n")

    def add(self, row: Row) -> None:
        """Add a row.

        Raises
        ------
        OSError
            The disk is full; the row is lost.
        """
        line = f"{dumps(row)}\n".encode()
        before = os.fstat(self._file).st_size
        if os.write(self._file, line) < len(line):
            os.ftruncate(self._file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if before + len(line) > self._most:
            self._thin()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, mode_in(self._path.rpartition("/")[0]))

    def _thin(self) -> None:
        # What somebody else has put there could be of any size: no more than this is looked at.
        begin = max(0, os.fstat(self._file).st_size - 2 * self._most)
        content = os.pread(self._file, 2 * self._most, begin)
        rows = thinned(parse(content), self._most * 3 // 4, self._recent)
        folder, _, name = self._path.rpartition("/")
        aside = f"{folder}/.{name}"
        with suppress(FileNotFoundError):
            os.unlink(aside)  # noqa: PTH108 - pathlib takes long to import
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(aside, flags, mode_in(folder)), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(b"".join(rows))
        os.replace(aside, self._path)  # noqa: PTH105 - as above
        os.close(self._file)
        self._file = self._open()


def parse(content: bytes) -> list[Row]:
    """Return the rows of a file's content, oldest first; what is damaged is passed over."""
    return sorted(as_written(content), key=lambda row: row[AT])


def as_written(content: bytes) -> list[Row]:
    """Return the rows of `content` in the order they were written in, also by a clock set back."""
    decode = standard("json", sys.path[0]).loads  # of thousands it takes a third of `lean.loads`
    rows = []
    for line in content.split(b"\n"):
        with suppress(ValueError, TypeError, RecursionError):
            row = decode(line)
            if isinstance(row, dict) and math.isfinite(row.get(AT, math.nan)):
                rows.append(row)
    return rows


def thinned(rows: list[Row], most: int, recent: float = RECENT) -> list[bytes]:
    """Put older rows together, until all together have `most` bytes; return their lines.

    Parameters
    ----------
    rows
        Oldest first.
    recent
        Seconds whose rows stay as they are, as far as they fit into a half of `most`.
    """
    encode = standard("json", sys.path[0]).dumps
    lines = [f"{encode(row)}\n".encode() for row in rows]
    begin, size = len(rows), 0
    until = rows[-1][AT] - recent if rows else 0.0
    while begin and rows[begin - 1][AT] >= until:
        size += len(lines[begin - 1])
        if size > most // 2:
            size -= len(lines[begin - 1])
            break
        begin -= 1
    rows, old, fresh = rows[:begin], lines[:begin], lines[begin:]
    width = 2
    while sum(map(len, old)) > most - size and width < _WIDEST:
        rows = _merged(rows, width)
        old = [f"{encode(row)}\n".encode() for row in rows]
        width *= 2
    return [*old, *fresh]


def _merged(rows: Iterable[Row], width: int) -> list[Row]:
    """Put the rows of each `width` seconds together; of powers of two, so that they nest."""
    found: list[list[Row]] = []
    place = None
    for row in rows:
        if place != row[AT] // width:
            place = row[AT] // width
            found.append([])
        found[-1].append(row)
    return [one[0] if len(one) == 1 else together(one) for one in found]


def together(rows: Sequence[Row]) -> Row:
    """Make one row of several.

    Parameters
    ----------
    rows
        Oldest first, one at least.
    """
    weights = [max(1.0, spread(row.get(ROWS, 1))[1]) for row in rows]
    told: Row = {AT: rows[-1][AT], ROWS: round(sum(weights))}
    names = dict.fromkeys(name for row in rows for name in row if name not in told)
    for name in names:
        there = [
            (row[name], weight) for row, weight in zip(rows, weights, strict=True) if name in row
        ]
        numbers = [(spread(value), weight) for value, weight in there]
        finite = [(three, weight) for three, weight in numbers if math.isfinite(sum(three))]
        if not finite:
            told[name] = there[-1][0]
            continue
        least, most = min(one[0] for one, _ in finite), max(one[2] for one, _ in finite)
        mean = sum(one[1] * weight for one, weight in finite) / sum(weight for _, weight in finite)
        told[name] = least if least == most else [least, _short(mean), most]
    return told


def _short(value: float) -> float:
    return round(value) if abs(value) > 1000 else float(f"{value:.6g}")  # noqa: PLR2004 - bytes


def spread(value: object) -> tuple[float, float, float]:
    """Return least, mean and most of a row's value; NaN where it is none.

    Parameters
    ----------
    value
        As it stands in a row, by whoever wrote it.
    """
    try:
        if isinstance(value, list) and len(value) == _THREE:
            least, mean, most = map(float, value)
            return least, mean, most
        number = float(value)  # type: ignore[arg-type] # what is none raises
    except (TypeError, ValueError, OverflowError):
        return math.nan, math.nan, math.nan
    return number, number, number
