"""What a card shows of a sweep: bounded however many trials there are, and read without Optuna.

The sweep's controller writes it into its own task's folder, ``sweep.json``; front ends read it
there with the rest of the job. All trials that have ended are in a file beside it (`rows`).
"""

from __future__ import annotations

import heapq
import json
import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from submarine_engine.history import SPOILT, finite, foreign_text, read_foreign, write_json
from submarine_engine.holdings import Holdings, Point, parsed_points
from submarine_engine.sweeps.rows import (
    PARAMS,
    RowsWriter,
    TrialRow,
    parsed_row,
    row_of,
    thinned,
)

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.pool.pool import Pool
    from submarine_engine.sweeps.record import SweepRecord
    from submarine_engine.sweeps.study import Study, TrialResult

FILE = "sweep.json"
SHOWN = 10
"""How many of the best trials, and of the newest."""
OPEN = 32
"""How many of the trials that have not ended."""

STATES = ("running", "complete", "pruned", "failed", "paused", "waiting")
"""Of trials, in the order in which they are shown."""

_VERSION = 2
_LARGEST = 1 << 18
_LONGEST = 60
_CURVE = 24
"""Points of what a trial that goes on has reported."""
_DOTS = 100
_EVERY = 0.5  # seconds: a card shows its numbers twice in one; `_SHARE` makes it seldomer
_SHARE = 20
"""Writing takes no more than one part in so many of the controller's time."""
_WINDOW = 20
"""Trials whose ends say how long the others may take."""

_GROWN = 1.1
"""How many times as many values there are to be before importance is computed anew."""
_SELDOM = 100
"""Computing it takes no more than one part in so many of the controller's time."""
_TOLD_OF = 10
"""Values from which on it says something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a sweep has found by now, and what it holds.

    Parameters
    ----------
    objectives
        Name and direction of each.
    params
        The names of what is searched, the first ones.
    total
        How many trials there are to be.
    states
        How many trials are in which state.
    bests
        How many trials no other beats: one, where there is one objective.
    best, newest
        The best ones first, and those whose code began last.
    open
        Those that have not ended, the ones that began first, with what they reported.
    importance
        How much each parameter matters to the first objective, as Optuna has it: names and parts
        of 1, the largest first; none as long as too little is known.
    pool
        The id of the sweep's pool.
    history
        The first objective by number of the trial, thinned.
    improved
        The best value by then, at each trial that was better; none for several objectives.
    unit
        What is held: ``GPU``, or ``worker`` where trials have none.
    held, most
        How many are held now, and how many there may be.
    holding
        How many were held, from when on: pairs of seconds since `began` and a number.
    began
        When the sweep began, in seconds since the epoch.
    until
        When all trials will have ended, as it seems; None where nobody can say.
    paused
        Whether people have paused it.
    """

    objectives: tuple[tuple[str, str], ...]
    params: tuple[str, ...]
    total: int
    states: tuple[tuple[str, int], ...] = ()
    bests: int = 0
    best: tuple[TrialRow, ...] = ()
    newest: tuple[TrialRow, ...] = ()
    open: tuple[TrialRow, ...] = ()
    importance: tuple[tuple[str, float], ...] = ()
    pool: str = ""
    history: tuple[Point, ...] = ()
    improved: tuple[Point, ...] = ()
    unit: str = "GPU"
    held: int = 0
    most: int = 0
    holding: tuple[Point, ...] = ()
    began: float = 0.0
    until: float | None = None
    paused: bool = False

    def write(self, folder: Path) -> None:
        """Write it into a task's folder.

        Parameters
        ----------
        folder
            The task's.

        Raises
        ------
        OSError
            It cannot be written.
        """
        write_json(folder / FILE, {"version": _VERSION, **asdict(self)})


def read_summary(folder: Path) -> Summary | None:
    """Return what a task's folder has of a sweep; None where it has nothing that can be read.

    Parameters
    ----------
    folder
        The task's, where the job's code may have written whatever it likes.
    """
    try:
        data = json.loads(read_foreign(folder / FILE, _LARGEST))
        if data["version"] != _VERSION:
            return None
        objectives = tuple((_text(name), _text(way)) for name, way in data["objectives"])
        params = _texts(data["params"])
        columns = len(objectives), len(params)
        if not 0 < len(objectives) <= PARAMS:
            return None
        return Summary(
            objectives=objectives,
            params=params,
            total=int(data["total"]),
            states=tuple((_text(state), int(number)) for state, number in data["states"][:10]),
            bests=int(data["bests"]),
            best=_rows(data["best"], columns),
            newest=_rows(data["newest"], columns),
            open=_rows(data["open"], columns, OPEN),
            importance=tuple(
                (_text(name), finite(part)) for name, part in data["importance"][:PARAMS]
            ),
            pool=_text(data["pool"]),
            history=_points(data["history"]),
            improved=_points(data["improved"]),
            unit="GPU" if data["unit"] == "GPU" else "worker",
            held=int(data["held"]),
            most=int(data["most"]),
            holding=parsed_points(data["holding"]),
            began=finite(data["began"]),
            until=None if data["until"] is None else finite(data["until"]),
            paused=data["paused"] is True,
        )
    except SPOILT:
        return None


def _text(value: object) -> str:
    return foreign_text(value, _LONGEST)


def _texts(values: Any) -> tuple[str, ...]:  # noqa: ANN401 - of a file
    return tuple(_text(value) for value in values[:PARAMS])


def _points(pairs: Any) -> tuple[Point, ...]:  # noqa: ANN401 - of a file
    return tuple((finite(x), finite(y)) for x, y in pairs[: 3 * _DOTS])


def _rows(
    rows: Any,  # noqa: ANN401 - of a file
    columns: tuple[int, int],
    most: int = SHOWN,
) -> tuple[TrialRow, ...]:
    found = tuple(map(parsed_row, rows[:most]))
    if any((len(row.values), len(row.params)) != columns for row in found):
        raise ValueError
    return found


class Summarizer:
    """Keeps the summary of a sweep on disk, for the controller that runs it.

    Parameters
    ----------
    folder
        Of the controller's task; None where there is none, and nothing is written.
    study
        The sweep's.
    """

    def __init__(self, folder: Path | None, study: Study) -> None:
        self._folder = folder
        self._study = study
        self._ended: Counter[str] = Counter()
        self._values: dict[int, float] = {}
        self._ends: deque[float] = deque(maxlen=_WINDOW + 1)
        self._next = 0.0
        self._written: Summary | None = None
        self._rows = RowsWriter(folder) if folder else None
        self._ended_since: list[int] = []
        self._importance: tuple[tuple[str, float], ...] = ()
        self._told_of = 0
        self._weigh_next = 0.0
        # Of an attempt before this one, whose process was killed.
        before = read_summary(folder) if folder else None
        self._holdings = Holdings(before.began, before.holding) if before else Holdings()

    def ended(self, told: TrialResult, *, before: bool = False) -> None:
        """Hear of a trial that has ended.

        Parameters
        ----------
        told
            The trial.
        before
            Whether another controller has seen it end.
        """
        self._ended[told.state] += 1
        self._ended_since.append(told.number)
        if told.value is not None and math.isfinite(told.value):
            self._values[told.number] = told.value
        if not before:
            self._ends.append(time.time())

    def update(
        self, record: SweepRecord, pool: Pool, goes_on: Mapping[int, str], *, now: bool = False
    ) -> None:
        """Write what has changed, a few times a second.

        Parameters
        ----------
        record
            What is asked of the sweep.
        pool
            That runs it.
        goes_on
            The state of each trial that has begun and not ended.
        now
            Whether to write at once: there is no later.
        """
        if self._folder is None:
            return
        held = pool.holding * max(1, record.plan.gpus_each)
        # Each time: a quick sweep's workers are over before the next write.
        self._holdings.note(held)
        if time.monotonic() < self._next and not now:
            return
        self._weigh(record, last=now)
        begins = time.monotonic()
        made = self._make(record, pool, goes_on, held)
        self._write_rows(record)
        with suppress(OSError):  # a full disk is no reason to end a sweep
            if made != self._written:
                made.write(self._folder)
                self._written = made
        self._next = time.monotonic() + max(_EVERY, _SHARE * (time.monotonic() - begins))

    def _make(
        self, record: SweepRecord, pool: Pool, goes_on: Mapping[int, str], held: int
    ) -> Summary:
        plan = record.plan
        total = plan.total(record.space) + self._study.retries()
        each = plan.gpus_each
        states = self._ended + Counter(goes_on.values())
        states["waiting"] += self._study.waiting()
        begun = self._study.begun()
        bests = self._study.best() if plan.several else ()
        best = [told.number for told in bests[:SHOWN]] if plan.several else self._best(record)
        # Those that only wait for a worker say nothing yet.
        ran = (one for one in range(begun - 1, -1, -1) if goes_on.get(one) != "waiting")
        newest = list(islice(ran, SHOWN))
        goes = sorted(goes_on, key=lambda one: (goes_on[one] == "waiting", one))[:OPEN]
        rows = self._rows_of([*best, *newest, *goes], record, goes_on)
        plain = {number: replace(row, curve=()) for number, row in rows.items()}
        return Summary(
            objectives=plan.objectives[:PARAMS],
            params=record.space.names[:PARAMS],
            total=total,
            states=tuple((state, states[state]) for state in STATES if states[state]),
            bests=len(bests) if plan.several else min(1, len(best)),
            best=tuple(plain[number] for number in best),
            newest=tuple(plain[number] for number in newest if number in plain),
            open=tuple(
                replace(rows[number], curve=thinned(rows[number].curve, _CURVE))
                for number in goes
                if number in rows
            ),
            importance=self._importance,
            pool=record.folder.name,
            history=thinned(sorted(self._values.items()), _DOTS),
            improved=() if plan.several else self._improved(record),
            unit="GPU" if each else "worker",
            held=held,
            most=pool.most * max(1, each),
            holding=self._holdings.points,
            began=self._holdings.began,
            until=self._until(total - sum(self._ended.values()), record),
            paused=record.paused,
        )

    def _rows_of(
        self, numbers: Sequence[int], record: SweepRecord, goes_on: Mapping[int, str]
    ) -> dict[int, TrialRow]:
        objectives, names = len(record.plan.objectives), record.space.names
        return {
            told.number: row_of(told, names, objectives, goes_on.get(told.number))
            for told in self._study.some(numbers)
        }

    def _write_rows(self, record: SweepRecord) -> None:
        """Write the rows of what has ended since the last time."""
        if self._rows is None:
            return
        rows = self._rows_of(self._ended_since, record, {})
        for number in self._ended_since:
            self._rows.add(rows[number])
        self._ended_since.clear()
        self._rows.write()

    def _weigh(self, record: SweepRecord, *, last: bool) -> None:
        """Have Optuna say how much each parameter matters, where there is enough that is new."""
        known, began = len(self._values), time.monotonic()
        grown = known > self._told_of if last else known >= _GROWN * self._told_of
        patience = _SELDOM if last else 0.0  # a second, for the last word
        if known < _TOLD_OF or not grown or began < self._weigh_next - patience:
            return
        self._told_of = known
        self._importance = tuple(
            (name, round(part, 4))
            for name, part in self._study.importance()
            if name in record.space.names
        )[:PARAMS]
        self._weigh_next = began + _SELDOM * (time.monotonic() - began)

    def _best(self, record: SweepRecord) -> list[int]:
        sign = _sign(record)
        found = heapq.nsmallest(
            SHOWN, self._values.items(), key=lambda item: (sign * item[1], item[0])
        )
        return [number for number, _ in found]

    def _improved(self, record: SweepRecord) -> tuple[Point, ...]:
        sign, found = _sign(record), list[Point]()
        for number, value in sorted(self._values.items()):
            if not found or sign * value < sign * found[-1][1]:
                found.append((number, value))
        return thinned(found, _DOTS)

    def _until(self, left: int, record: SweepRecord) -> float | None:
        if left <= 0 or record.paused or len(self._ends) < 2:  # noqa: PLR2004 - one says nothing
            return None
        each = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        return round(self._ends[-1] + left * each, 1)


def _sign(record: SweepRecord) -> int:
    from submarine_engine.sweeps.plan import MAXIMIZE  # noqa: PLC0415 - only the writer needs it

    return -1 if record.plan.objectives[0][1] == MAXIMIZE else 1
