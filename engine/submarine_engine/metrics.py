"""What a job's tasks use and report, over time: read from the files that tasks leave.

`submarine_runtime.metrics` says what is in them. They are the job's own, so every field is checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.reported import STEP
from submarine_runtime.series import AT, MOST, ROWS, parse, spread

from submarine_engine.history import JobPaths, TaskPaths, read_foreign

if TYPE_CHECKING:
    from pathlib import Path

_MOST_NAMES = 200
_LONGEST_NAME = 100


class Row(NamedTuple):
    """What was measured or reported at a time.

    Parameters
    ----------
    at
        Wall clock, in seconds.
    rows
        Of how many measurements it is made: the older, the more.
    values
        Least, mean and most of each, by name; NaN where it was no number.
    """

    at: float
    rows: int
    values: Mapping[str, tuple[float, float, float]]


class JobMetrics(NamedTuple):
    """What the tasks of a job have used, and what their code has reported; each by task."""

    used: Mapping[str, list[Row]]
    reported: Mapping[str, list[Row]]


def read_job(paths: JobPaths, tasks: Iterable[str]) -> JobMetrics:
    """Return what is there of a job's tasks.

    Parameters
    ----------
    paths, tasks
        Whose.
    """
    found = {task: paths.task(task) for task in tasks}
    return JobMetrics(
        {task: rows for task, files in found.items() if (rows := read_used(files))},
        {task: rows for task, files in found.items() if (rows := read_reported(files))},
    )


def read_used(task: TaskPaths) -> list[Row]:
    """Return what a task has used, oldest first; none where nothing was written."""
    return _read(task.metrics)


def read_reported(task: TaskPaths) -> list[Row]:
    """Return what a task's code has reported, oldest first, with its ``step``."""
    return _read(task.reported)


def _read(path: Path) -> list[Row]:
    try:
        content = read_foreign(path, 2 * MOST)
    except OSError:
        return []
    return [_row(row) for row in parse(content)]


def _row(told: Mapping[str, Any]) -> Row:
    count = spread(told.get(ROWS, 1))[1]
    rows = int(count) if math.isfinite(count) else 1
    found = [(n, spread(v)) for n, v in told.items() if n not in (AT, ROWS) and _is_name(n)]
    return Row(float(told[AT]), max(1, rows), dict(found[:_MOST_NAMES]))


def _is_name(name: str) -> bool:
    return name.isprintable() and len(name) <= _LONGEST_NAME + 1


def as_dicts(rows: Mapping[str, Iterable[Row]]) -> list[dict[str, Any]]:
    """Return rows of tasks as plain dicts, in the order of their times.

    Parameters
    ----------
    rows
        By task.

    Returns
    -------
    list of dict
        ``task``, ``at`` and each number by its name; where a row is made of several, the mean,
        with ``NAME_min`` and ``NAME_max`` beside it. Of a step it is the last.
    """
    told = [_as_dict(task, row) for task, series in rows.items() for row in series]
    told.sort(key=lambda one: one["at"])
    return told


def _as_dict(task: str, row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"task": task, "at": row.at}
    for name, (least, mean, most) in row.values.items():
        if name == STEP:
            told[name] = int(most) if math.isfinite(most) else most
            continue
        told[name] = mean
        if row.rows > 1:
            told[f"{name}_min"], told[f"{name}_max"] = least, most
    return told


def as_table(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - pandas may not be there
    """Return a `pandas.DataFrame` of rows, ``at`` as a time of UTC; the rows without pandas."""
    try:
        import pandas as pd  # noqa: PLC0415 - not a requirement
    except ImportError:
        return rows
    table = pd.DataFrame(rows, columns=None if rows else ["task", "at"])
    table["at"] = pd.to_datetime(table["at"], unit="s", utc=True)
    return table
