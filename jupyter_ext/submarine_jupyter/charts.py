"""What jobs used and reported over time, as charts: no more of it than a screen can show.

A line has its least and greatest numbers, however many were measured. Names come from the job: they
are text to whoever draws them.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from submarine_engine.difference import compare
from submarine_engine.errors import CommandError, JobNotFoundError
from submarine_engine.events import Moment
from submarine_engine.metrics import Curve, Row, curves, is_gpu, is_step, read_job, stamp_of
from submarine_engine.records import job_name

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import END, Number, Plugin, Route, Server

MOST_POINTS = 1000
"""Of a line."""
_POINTS_OF_ALL = 12_000
"""Of all lines of a chart: where they are many, each has fewer."""
_FEWEST = 60
_MOST_TASKS = 32
"""Tasks whose files are read, a megabyte each at most."""
_MOST_LINES = 64
_MOST_CHARTS = 40
_SLACK = 3600.0
"""Seconds: clocks of other machines may differ by this much."""

_POOL = "charts"
_KEPT = 32
_JOB = r"[0-9]{8}-[0-9]{6}-[0-9a-z]{1,16}"
_MOST_COMPARED = 8
MOST_SPARKS = 50

_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_OR_NULL = {"anyOf": [_NUMBER, {"type": "null"}]}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _jobs_text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "pattern": f"^{_JOB}(,{_JOB}){{0,{most - 1}}}{END}"}


_LINE = _object(
    task=_TEXT,
    label=_TEXT,
    at=_list(_NUMBER),
    mean=_list(_OR_NULL),
    low=_list(_OR_NULL),
    high=_list(_OR_NULL),
)
_CHART = _object(name=_TEXT, unit=_TEXT, reported={"type": "boolean"}, lines=_list(_LINE))
_CURVE = _object(
    name=_TEXT,
    last=_TEXT,
    points=_list(_list(_NUMBER)),
    least=_OR_NULL,
    most=_OR_NULL,
)
_METRICS = Route(
    "get",
    "/jobs/{job_id}/metrics",
    "What a job used and reported, as charts; from and to are milliseconds since the epoch, 0 for "
    "all",
    numbers={
        "points": Number(MOST_POINTS, 10, MOST_POINTS),
        "from": Number(0, 0, 1 << 53),
        "to": Number(0, 0, 1 << 53),
    },
    reply=_object(
        id=_TEXT,
        name=_TEXT,
        state=_TEXT,
        final={"type": "boolean"},
        began=_NUMBER,
        now=_NUMBER,
        tasks={"type": "integer"},
        shown={"type": "integer"},
        charts=_list(_CHART),
    ),
)
_SPARKS = Route(
    "get",
    "/sparklines",
    "A small curve of each job (?jobs=ID,ID): its GPUs, else what it reports, else its processors",
    texts={"jobs": _jobs_text(MOST_SPARKS)},
    reply=_object(
        jobs={"type": "object", "additionalProperties": {"anyOf": [_CURVE, {"type": "null"}]}}
    ),
)
_ROW = _object(name=_TEXT, values=_list({"type": ["string", "null"]}), same={"type": "boolean"})
_COUNT = {"type": "integer"}
_COMPARE = Route(
    "get",
    "/compare",
    "What differs between jobs (?jobs=ID,ID), as `submarine job diff --json` has it: code, values, "
    "options, versions, results, and what each reported last and held GPUs for",
    texts={"jobs": _jobs_text(_MOST_COMPARED)},
    reply=_object(
        jobs=_list(_object(id=_TEXT, name=_TEXT, state=_TEXT)),
        same={"type": "boolean"},
        code=_list(_object(id=_TEXT, lines=_list(_list(_TEXT)), left_out=_COUNT)),
        sections=_list(_object(title=_TEXT, rows=_list(_ROW), alike=_COUNT, left_out=_COUNT)),
        unknown=_list(_TEXT),
    ),
)


class Charts(Call):
    """``GET /submarine/api/jobs/<id>/metrics``, ``/sparklines`` and ``/compare``."""

    @may("read")
    async def get(self, **names: str) -> None:
        """Answer a question."""
        await self._answered("get", names)

    async def respond(self, **names: str) -> None:
        """Read what jobs have written, in a pool of its own: it may be much."""
        route = self.routes["get"]
        if route is _METRICS:
            self.tell(
                await self.work.call(_POOL, metrics, names["job_id"], **_window(self.numbers()))
            )
        elif route is _SPARKS:
            self.tell(await self.work.call(_POOL, sparklines, self._ids(MOST_SPARKS)))
        else:
            self.tell(await self.work.call(_POOL, compared, self._ids(_MOST_COMPARED)))

    def _ids(self, most: int) -> list[str]:
        ids = list(dict.fromkeys(self.get_query_argument("jobs", "", strip=False).split(",")))
        if len(ids) > most or not all(re.fullmatch(_JOB, one, re.ASCII) for one in ids):
            raise CommandError(
                f"this is no list of 1 to {most} jobs",
                where="?jobs=",
                fix="send the ids of jobs, with commas between",
            )
        return ids


def compared(ids: Sequence[str]) -> dict[str, Any]:
    """Return how jobs differ, as JSON.

    Parameters
    ----------
    ids
        Of two jobs at least: the code of each is compared with that of the first.

    Raises
    ------
    JobNotFoundError
        There is no such job.
    CommandError
        It is one job.
    """
    return compare(*map(jobs.paths_of, ids)).to_json()


def _window(numbers: Mapping[str, int]) -> dict[str, Any]:
    return {
        "points": numbers["points"],
        "since": numbers["from"] / 1000 or -math.inf,
        "until": numbers["to"] / 1000 or math.inf,
    }


# A job's charts.


class _AnswerCache:
    """Answers that were found last, as long as the files that they are made of are the same."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[object, tuple[object, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: object, stamp: object) -> Any:  # noqa: ANN401 - whatever was kept
        with self._lock:
            known, found = self._found.get(key, (None, None))
            return found if known == stamp else None

    def keep(self, key: object, stamp: object, found: object) -> None:
        with self._lock:
            self._found[key] = stamp, found
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)


_charts = _AnswerCache(_KEPT)
_curves = _AnswerCache(1000)


def metrics(
    job_id: str, points: int = MOST_POINTS, since: float = -math.inf, until: float = math.inf
) -> dict[str, Any]:
    """Return what a job used and reported, as charts.

    Parameters
    ----------
    job_id
        Whose.
    points
        Of a line, at most.
    since, until
        Wall clock; what was before or after is left out.

    Raises
    ------
    JobNotFoundError
        There is no such job.
    """
    job = jobs.opened(job_id)
    paths = jobs.paths_of(job_id)
    status = job.status()
    tasks = [task.task for task in status.tasks]
    shown = tasks[:_MOST_TASKS]
    began = status.started or status.submitted or Moment.now()
    now = time.time()
    since = max(since, (status.submitted or began).wall - _SLACK)
    until = min(until, (status.finished.wall if status.finished else now) + _SLACK)
    # The bounds of all of it go with the clock: they are no part of what is kept.
    key = (job_id, points, since, until if until < now else None)
    stamp = stamp_of(paths, shown)
    found = _charts.get(key, stamp)
    if found is None:
        told = read_job(paths, shown)
        found = charts(told.reported, told.used, points, since, until)
        _charts.keep(key, stamp, found)
    return {
        "id": job_id,
        "name": job_name(job_id),
        "state": status.state.value,
        "final": status.state.final,
        "began": began.wall,
        "now": now,
        "tasks": len(tasks),
        "shown": len(shown),
        "charts": found,
    }


class _Kind(NamedTuple):
    """Which chart a number belongs to, and what it is called there."""

    chart: str
    unit: str
    part: str


_USED = {
    "cpu": _Kind("CPU", "cores", ""),
    "memory": _Kind("Memory", "B", ""),
    "read": _Kind("Disk", "B/s", "read"),
    "write": _Kind("Disk", "B/s", "written"),
    "received": _Kind("Network", "B/s", "in"),
    "sent": _Kind("Network", "B/s", "out"),
}
_ORDER = ("GPU use", "GPU memory", "CPU", "Memory", "Disk", "Network")


def _kind(name: str) -> _Kind | None:
    if is_gpu(name):
        return _Kind("GPU use", "%", f"GPU {name[3:]}")
    if name.endswith("_memory") and is_gpu(name.removesuffix("_memory")):
        return _Kind("GPU memory", "B", f"GPU {name[3:-7]}")
    return _USED.get(name)


def charts(
    reported: Mapping[str, Sequence[Row]],
    used: Mapping[str, Sequence[Row]],
    points: int,
    since: float,
    until: float,
) -> list[dict[str, Any]]:
    """Return charts of rows by task: what code reports before what its tasks use.

    Parameters
    ----------
    reported, used
        By task, oldest first.
    points
        Of a line, at most.
    since, until
        Rows before and after are left out.
    """
    told = [_cut(rows, since, until) for rows in (reported, used)]
    times = [row.at for rows in told for series in rows.values() for row in series]
    span = (min(times, default=0.0), max(times, default=0.0))
    found: dict[tuple[bool, str], list[tuple[str, _Kind, str]]] = {}
    for is_reported, rows in zip((True, False), told, strict=True):
        for task, series in rows.items():
            for name in dict.fromkeys(name for row in series for name in row.numbers):
                kind = (
                    (None if is_step(name) else _Kind(name, "", "")) if is_reported else _kind(name)
                )
                if kind:
                    found.setdefault((is_reported, kind.chart), []).append((task, kind, name))
    keys = sorted(found, key=lambda key: (not key[0], 0 if key[0] else _ORDER.index(key[1])))
    answer = []
    for key in keys[:_MOST_CHARTS]:
        lines = found[key][:_MOST_LINES]
        several = (
            len({task for task, *_ in lines}) > 1,
            len({kind.part for _, kind, _ in lines}) > 1,
        )
        most = min(points, max(_FEWEST, _POINTS_OF_ALL // len(lines)))
        answer.append({
            "name": key[1],
            "unit": lines[0][1].unit,
            "reported": key[0],
            "lines": [
                {
                    "task": task,
                    "label": _label(task, kind.part, several),
                    **_thin(told[not key[0]][task], name, span, most),
                }
                for task, kind, name in lines
            ],
        })  # fmt: skip
    return answer


def _label(task: str, part: str, several: tuple[bool, bool]) -> str:
    tasks, parts = several
    return " ".join([*([task] if tasks or not parts else []), *([part] if parts else [])])


def _cut(rows: Mapping[str, Sequence[Row]], since: float, until: float) -> dict[str, list[Row]]:
    return {
        task: [row for row in series if since <= row.at <= until] for task, series in rows.items()
    }


def _thin(rows: Sequence[Row], name: str, span: tuple[float, float], most: int) -> dict[str, Any]:
    """Return a number over time: at most so many means, with the least and greatest of each.

    Of rows that are put together, all lines of a job have the same times.
    """
    there = [(row.at, row.rows, row.numbers[name]) for row in rows if name in row.numbers]
    at: list[float] = []
    three: list[tuple[float | None, ...]] = []
    if len(there) <= most:
        for moment, _, value in there:
            at.append(round(moment, 3))
            three.append(_finite(value))
    else:
        begin, end = span
        width = (end - begin) / most
        parts: dict[int, list[tuple[int, tuple[float, float, float]]]] = {}
        for moment, weight, value in there:
            place = min(most - 1, int((moment - begin) / width))
            parts.setdefault(place, []).append((weight, value))
        for place, part in sorted(parts.items()):
            at.append(round(begin + (place + 0.5) * width, 3))
            three.append(_together(part))
    low, mean, high = ([one[which] for one in three] for which in range(3))
    plain = low == mean == high
    return {"at": at, "mean": mean, "low": [] if plain else low, "high": [] if plain else high}


def _finite(value: tuple[float, float, float]) -> tuple[float | None, ...]:
    low, mean, high = value
    if not math.isfinite(low + mean + high):
        return (None,) * 3
    if low == mean == high:
        return (_short(mean),) * 3
    return _short(low), _short(mean), _short(high)


def _together(part: Sequence[tuple[int, tuple[float, float, float]]]) -> tuple[float | None, ...]:
    least, most, total, weights = math.inf, -math.inf, 0.0, 0
    for weight, (low, mean, high) in part:
        if math.isfinite(low + mean + high):
            least, most = min(least, low), max(most, high)
            total += weight * mean
            weights += weight
    return _finite((least, total / weights, most)) if weights else (None,) * 3


def _short(value: float) -> float:
    return float(f"{value:.6g}")


# Small curves of many jobs.


_SPARK_TASKS = 4


def sparklines(ids: Sequence[str]) -> dict[str, Any]:
    """Return a small curve of each job; None where there is nothing to draw, or no such job.

    Parameters
    ----------
    ids
        The jobs.
    """
    return {"jobs": {one: _spark(one) for one in ids}}


def _spark(job_id: str) -> dict[str, Any] | None:
    from submarine_magics.card.record import stored_spec  # noqa: PLC0415 - brings IPython

    try:
        paths = jobs.paths_of(job_id)
    except JobNotFoundError:
        return None
    tasks = stored_spec(paths).tasks[:_SPARK_TASKS]
    stamp = stamp_of(paths, tasks)
    if not any(stamp):
        return None
    known = _curves.get(job_id, stamp)
    if known is None:
        curve = _one_of(curves(read_job(paths, tasks)))
        known = (
            {
                "name": curve.name,
                "last": curve.last,
                "points": curve.points,
                "least": curve.least,
                "most": curve.most,
            }
            if curve
            else {}
        )
        _curves.keep(job_id, stamp, known)
    return known or None


def _one_of(found: Sequence[Curve]) -> Curve | None:
    used = ("GPU", "CPU", "GPU memory", "memory")
    named = {curve.name: curve for curve in found}
    reported = [curve for curve in found if curve.name not in used]
    reported.sort(key=lambda curve: "loss" not in curve.name.lower())
    return named.get("GPU") or next(iter(reported), None) or named.get("CPU")


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    return [
        (route.pattern, Charts, {"work": app.work, "routes": {"get": route}}) for route in _ROUTES
    ]


_ROUTES = (_METRICS, _SPARKS, _COMPARE)
PLUGIN = Plugin(routes=_ROUTES, handlers=_handlers)
