"""All trials of a sweep that have ended, a line each in a file: for front ends, without Optuna.

The sweep's controller appends to ``trials.jsonl`` in its own task's folder; who reads it remembers
what it has read, so that a look costs what is new.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from submarine_engine.history import finite, foreign_text, write_aside
from submarine_engine.holdings import Point
from submarine_engine.outcome import clean

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.sweeps.study import TrialResult

FILE = "trials.jsonl"
PARAMS = 12
"""Names that are kept, of what is searched and of objectives."""
CURVE = 60
"""Points of what a trial reported."""

_LONGEST = 60
_SHORT = 100
_ERROR = 200
_PIECE = 1 << 22
_LINE = 1 << 16

Value = float | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial.

    Parameters
    ----------
    number
        Its number in the study.
    state
        ``complete``, ``pruned``, ``failed``, ``running``, ``paused`` or ``waiting``.
    values
        Of each objective; of the first one the last report where the trial has come to no value.
    params
        In the order of the space: numbers, or text.
    seconds
        How long its code ran; None where it has not ended.
    error
        What it failed with, in a line.
    curve
        What it reported of the first objective by step, thinned.
    """

    number: int
    state: str
    values: tuple[Value, ...]
    params: tuple[Value, ...]
    seconds: float | None = None
    error: str = ""
    curve: tuple[Point, ...] = ()


def row_of(
    told: TrialResult, names: Sequence[str], objectives: int, state: str | None = None
) -> TrialRow:
    """Return the row of a trial.

    Parameters
    ----------
    told
        The trial.
    names
        Of what is searched.
    objectives
        How many there are.
    state
        Which state it is in, where the study does not know.
    """
    reports = sorted((told.reports or {}).items())
    return TrialRow(
        number=told.number,
        state=state or told.state,
        values=tuple(_plain(told.value_of(place)) for place in range(min(objectives, PARAMS))),
        params=tuple(_plain(told.params.get(name, "")) for name in names[:PARAMS]),
        seconds=told.seconds,
        error=told.error.partition("\n")[0][:_ERROR],
        curve=thinned([(float(at), value) for at, value in reports if math.isfinite(value)], CURVE),
    )


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """Return some of many points, the first and the last among them.

    Parameters
    ----------
    points
        All of them.
    most
        How many to keep.
    """
    if len(points) <= most:
        return tuple(points)
    step = (len(points) - 1) / (most - 1)
    return tuple(points[round(at * step)] for at in range(most))


def _plain(value: object) -> Value:
    """Return a value as JSON can hold it: what is no number becomes text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return short(value)[:_LONGEST]
    return value if abs(value) < 1 << 53 else short(value)


def parsed_row(data: Any) -> TrialRow:  # noqa: ANN401 - of a file
    """Return the row that was written; what it holds is checked.

    Parameters
    ----------
    data
        As JSON has it.

    Raises
    ------
    ValueError, TypeError, KeyError
        It is none.
    """
    seconds = data["seconds"]
    return TrialRow(
        number=int(data["number"]),
        state=foreign_text(data["state"], _LONGEST),
        values=tuple(_value(value) for value in data["values"][:PARAMS]),
        params=tuple(_value(value) for value in data["params"][:PARAMS]),
        seconds=None if seconds is None else finite(seconds),
        error=foreign_text(data["error"], _ERROR),
        curve=tuple((finite(x), finite(y)) for x, y in data["curve"][:CURVE]),
    )


def _value(value: object) -> Value:
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    if not abs(value) <= sys.float_info.max:  # nor NaN, nor an int that no float can hold
        raise ValueError
    return value


class RowsWriter:
    """Writes the file of a sweep's rows: anew at its first word, then it appends.

    Parameters
    ----------
    folder
        The task's.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._due: list[TrialRow] = []
        self._begun = False
        self._torn = False

    def add(self, row: TrialRow) -> None:
        """Have a row written with the next words."""
        self._due.append(row)

    def write(self) -> None:
        """Write the rows that are due; a full disk keeps them for the next time."""
        if self._begun and not self._due:
            return
        lines = [json.dumps(asdict(row), separators=(",", ":")) for row in self._due]
        data = "".join(f"{line}\n" for line in lines).encode()
        with suppress(OSError):
            if not self._begun:  # an attempt before this one has written the same rows
                write_aside(self._path, data)
                self._begun = True
            else:
                with self._path.open("ab") as file:
                    # Half a line may stand there, of a word that found no room.
                    torn, self._torn = self._torn, True
                    file.write(b"\n" * torn + data)
                self._torn = False
            self._due.clear()


class RowsReader:
    """Reads the file of a sweep's rows as it grows.

    Parameters
    ----------
    folder
        The task's, where the job's code may have written whatever it likes.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._rows: dict[int, TrialRow] = {}
        self._inode = 0
        self._at = 0

    def read(self) -> Mapping[int, TrialRow]:
        """Return the rows that are there by now, by the numbers of their trials."""
        try:
            descriptor = os.open(
                self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return self._rows
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return self._rows
            if found.st_ino != self._inode or found.st_size < self._at:
                self._rows, self._inode, self._at = {}, found.st_ino, 0
            while data := os.pread(descriptor, _PIECE, self._at):
                whole = data.rfind(b"\n") + 1
                if not whole:
                    break
                self._take(data[:whole].splitlines())
                self._at += whole
        finally:
            os.close(descriptor)
        return self._rows

    def _take(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            with suppress(ValueError, TypeError, KeyError, RecursionError, OverflowError):
                row = parsed_row(json.loads(line[:_LINE]))
                self._rows[row.number] = row


def short(value: object) -> str:
    """Return a value as one short line.

    Parameters
    ----------
    value
        A number to four digits, or anything.
    """
    told = f"{value:.4g}" if isinstance(value, float) else clean(_text_of(value))
    text = " ".join(told.split())
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the user's own, or a number of too many digits
        return f"<{type(value).__name__}: {type(error).__name__}>"
