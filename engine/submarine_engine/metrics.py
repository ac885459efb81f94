"""What a job's tasks use and report, over time: read from the files that tasks leave.

`submarine_runtime.metrics` says what is in them. They are the job's own, so every field is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.reported import STEP
from submarine_runtime.series import AT, MOST, ROWS, parse, spread

from submarine_engine.amounts import UNKNOWN, size
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
    numbers
        Least, mean and most of each, by name; NaN where it was no number.
    """

    at: float
    rows: int
    numbers: Mapping[str, tuple[float, float, float]]


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
    for name, (least, mean, most) in row.numbers.items():
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


# As people see it in a line.


_BLOCKS = "▁▂▃▄▅▆▇█"
_SHOWN = 120.0
"""Seconds that a line shows of a running job."""

HEADINGS = (
    "task",
    "cpu",
    "memory",
    "gpu",
    "gpu memory",
    "read/s",
    "write/s",
    "net in/s",
    "net out/s",
)


def is_step(name: str) -> bool:
    """Return whether the number `name` that code reports says at which step it did."""
    return name == STEP


def is_gpu(name: str) -> bool:
    """Return whether the number `name` is how busy a GPU is: ``gpu0``."""
    return name.startswith("gpu") and name[3:].isdecimal()


def is_gpu_memory(name: str) -> bool:
    """Return whether the number `name` is how many bytes of a GPU's memory are in use."""
    return name.endswith("_memory") and is_gpu(name.removesuffix("_memory"))


def stamp_of(paths: JobPaths, tasks: Sequence[str]) -> list[object]:
    """Return what differs once a job's tasks have used or reported more.

    Parameters
    ----------
    paths
        The job's files.
    tasks
        Those whose files count.
    """
    files = [paths.task(task) for task in tasks]
    return [_stamp(file) for one in files for file in (one.metrics, one.reported)]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def last_of(rows: Iterable[Row]) -> dict[str, float]:
    """Return the last of each number: not each row has each; means, and of a step the last.

    Parameters
    ----------
    rows
        Oldest first.
    """
    last: dict[str, float] = {}
    for row in rows:
        for name, (_, mean, most) in row.numbers.items():
            last[name] = most if name == STEP else mean
    return last


def busy_gpus(row: Row) -> float:
    """Return how busy the GPUs of `row` were on average, in percent; NaN where none tells."""
    told = [three[1] for name, three in row.numbers.items() if is_gpu(name)]
    return sum(told) / len(told) if told else math.nan


def blocks(values: Sequence[float], *, most: float | None = None, width: int = 24) -> str:
    """Return numbers over time as a line of blocks, the newest last.

    Parameters
    ----------
    values
        NaN leaves a gap.
    most
        What a whole block stands for, from 0 on; from the least to the greatest unless given.
    width
        Characters at most. Of several numbers in one the greatest is shown.
    """
    each = max(1, -(-len(values) // width))
    parts = [values[at : at + each] for at in range(0, len(values), each)]
    tops = [max(filter(math.isfinite, part), default=math.nan) for part in parts]
    there = [top for top in tops if math.isfinite(top)]
    low, high = (0.0, most) if most else (min(there, default=0.0), max(there, default=0.0))
    span = (high - low) or 1.0
    return "".join(
        _BLOCKS[min(7, max(0, int((top - low) / span * 8)))] if math.isfinite(top) else " "
        for top in tops
    )


def usage_rows(used: Mapping[str, Sequence[Row]]) -> list[tuple[str, ...]]:
    """Return a row of words for each task, below `HEADINGS`: what it used last."""
    return [_usage(task, rows) for task, rows in used.items() if rows]


def _usage(task: str, rows: Sequence[Row]) -> tuple[str, ...]:
    last = rows[-1].numbers
    late = [row for row in rows if row.at >= rows[-1].at - _SHOWN]
    gpu = ", ".join(f"{three[1]:.0f} %" for name, three in last.items() if is_gpu(name))
    held = [t[1] for n, t in last.items() if is_gpu_memory(n)]
    cpu = last.get("cpu")
    history = blocks([busy_gpus(row) for row in late], most=100) if gpu else ""
    return (
        task,
        f"{cpu[1]:.2f}" if cpu else UNKNOWN,
        _size(last.get("memory")),
        f"{gpu} {history}".strip() or UNKNOWN,
        ", ".join(_size((0, one, 0)) for one in held) or UNKNOWN,
        *(_size(last.get(name)) for name in ("read", "write", "received", "sent")),
    )


def _size(three: tuple[float, float, float] | None) -> str:
    return size(int(three[1])) if three and math.isfinite(three[1]) else UNKNOWN


def reported_lines(reported: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return a line for each number in `reported`, by task: its name, its way, and the last."""
    lines = []
    for task, rows in reported.items():
        names = dict.fromkeys(name for row in rows for name in row.numbers if name != STEP)
        for name in names:
            there = [row for row in rows if name in row.numbers]
            way = blocks([row.numbers[name][1] for row in there])
            step = there[-1].numbers.get(STEP)
            at = f" (step {step[2]:.0f})" if step and math.isfinite(step[2]) else ""
            of = f" of {task}" if len(reported) > 1 else ""
            lines.append(f"{name}{of}  {way}  {there[-1].numbers[name][1]:.6g}{at}")
    return lines


# As small pictures: curves of few points.


_POINTS = 60
_MOST_REPORTED = 4
"""Curves of what code reports that a card has room for."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A number over time, of all tasks of a job.

    Parameters
    ----------
    name
        What it is of: ``GPU``, ``loss``.
    points
        Seconds or steps, and numbers: two at least, all finite.
    last
        The last, in words.
    least, most
        What the picture reaches from and to; None for as far as the points do.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    last: str
    least: float | None = None
    most: float | None = None

    def blocks(self, width: int = 12) -> str:
        """Return the curve as a row of characters, `width` at most."""
        values = [y for _, y in self.points]
        top = self.most if self.least is None or self.most else max(values)
        return blocks(values, most=top or None, width=width)


def curves(found: JobMetrics) -> tuple[Curve, ...]:
    """Return the curves of what was `found`: GPUs or processors, memory, and what code reports."""
    used = [row for rows in found.used.values() for row in rows]
    busy = [(row.at, busy_gpus(row)) for row in used]
    shown = []
    if any(math.isfinite(value) for _, value in busy):
        shown.append(_curve("GPU", _mean, busy, lambda value: f"{value:.0f} %", 0.0, 100.0))
        held = [(row.at, _gpu_memory(row)) for row in used]
        shown.append(_curve("GPU memory", max, held, lambda value: size(int(value)), 0.0))
    else:
        cores = [(row.at, row.numbers["cpu"][1]) for row in used if "cpu" in row.numbers]
        shown.append(_curve("CPU", _mean, cores, lambda value: f"{value:.1f} cores", 0.0))
    memory = [(row.at, row.numbers["memory"][2]) for row in used if "memory" in row.numbers]
    shown.append(_curve("memory", max, memory, lambda value: size(int(value)), 0.0))
    reported = next(iter(found.reported.values()), [])  # of several tasks the first
    names = dict.fromkeys(name for row in reported for name in row.numbers if name != STEP)
    for name in list(names)[:_MOST_REPORTED]:
        steps = [
            (row.numbers.get(STEP, (0.0, 0.0, row.at))[2], row.numbers[name][1])
            for row in reported
            if name in row.numbers
        ]
        shown.append(_curve(name, _mean, steps, lambda value: f"{value:.6g}"))
    return tuple(curve for curve in shown if curve is not None)


def _gpu_memory(row: Row) -> float:
    return sum(three[2] for name, three in row.numbers.items() if is_gpu_memory(name))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _curve(  # noqa: PLR0913, PLR0917 - what a curve is made of
    name: str,
    join: Callable[[Sequence[float]], float],
    pairs: Sequence[tuple[float, float]],
    words: Callable[[float], str],
    least: float | None = None,
    most: float | None = None,
) -> Curve | None:
    """Make a curve of few points; None where there are not two."""
    there = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    if not there:
        return None
    first, last = min(x for x, _ in there), max(x for x, _ in there)
    wide = (last - first) or 1.0
    parts: dict[int, list[float]] = {}
    for x, y in there:
        parts.setdefault(int((x - first) / wide * (_POINTS - 1)), []).append(y)
    points = tuple(
        (round(part / (_POINTS - 1) * wide, 3), join(parts[part])) for part in sorted(parts)
    )
    if len(points) < 2 or not all(math.isfinite(y) for _, y in points):  # noqa: PLR2004 - a line
        return None
    newest = pairs[-1][1]
    return Curve(name, points, words(newest) if math.isfinite(newest) else "NaN", least, most)


# As a program reads it: OpenMetrics.


_TYPES = (
    ("cpu", "submarine_task_cpu_cores", "Cores that the task's processes keep busy."),
    ("memory", "submarine_task_memory_bytes", "Memory of the task's processes."),
    ("processes", "submarine_task_processes", "Processes of the task."),
    ("read", "submarine_task_disk_read_bytes_per_second", "Read from disks."),
    ("write", "submarine_task_disk_write_bytes_per_second", "Written to disks."),
    (
        "received",
        "submarine_task_network_received_bytes_per_second",
        "Of its machine or container.",
    ),
    ("sent", "submarine_task_network_sent_bytes_per_second", "Of its machine or container."),
)


class _Family:
    def __init__(self, name: str, words: str) -> None:
        self.lines = [f"# TYPE {name} gauge", f"# HELP {name} {words}"]
        self._name = name

    def add(self, value: float, **labels: str) -> None:
        told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        number = repr(float(value)).replace("inf", "Inf").replace("nan", "NaN")
        self.lines.append(f"{self._name}{{{told}}} {number}")


def open_metrics(jobs: Iterable[tuple[str, str, JobMetrics]]) -> str:
    """Return what jobs use and report now in the text format of OpenMetrics.

    Parameters
    ----------
    jobs
        Id, name, and what is known of each.
    """
    told = {name: _Family(family, words) for name, family, words in _TYPES}
    busy = _Family("submarine_task_gpu_busy_ratio", "How busy the GPU is.")
    held = _Family("submarine_task_gpu_memory_bytes", "Memory of the GPU in use.")
    reported = _Family("submarine_reported", "What the code of the job reports.")
    steps = _Family("submarine_reported_step", "The step that it was reported at.")
    for job, name, found in jobs:
        for task, rows in found.used.items():
            of = {"job": job, "name": name, "task": task}
            for key, (_, value, _) in rows[-1].numbers.items():
                if key in told:
                    told[key].add(value, **of)
                elif is_gpu(key):
                    busy.add(value / 100, **of, gpu=key[3:])
                elif is_gpu_memory(key):
                    held.add(value, **of, gpu=key[3:-7])
        for task, rows in found.reported.items():
            of = {"job": job, "name": name, "task": task}
            for key, value in last_of(rows).items():
                if key == STEP:
                    steps.add(value, **of)
                else:
                    reported.add(value, **of, metric=key)
    families = [*told.values(), busy, held, reported, steps]
    return "\n".join([*(line for one in families for line in one.lines), "# EOF", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
