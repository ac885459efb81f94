"""The trials of a sweep by REST: sorted, a page at a time, two beside each other, one with its log.

The answer is what the card draws in place of its own tables, for what its reader looks at.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError, SubmarineError, UnsupportedError
from submarine_engine.events import Moment
from submarine_engine.map_summary import CallRow, Calls, read_calls
from submarine_engine.pool.call_logs import CallLogs
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.sweeps.rows import RowsReader
from submarine_engine.sweeps.summary import Summary, read_summary

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import END, Number, Plugin, Route, Server

if TYPE_CHECKING:
    from submarine_engine.history import JobPaths
    from submarine_engine.sweeps.rows import TrialRow
    from submarine_magics.card.sweeps import Looking, Opened

PAGE = 50
"""Trials of a page."""
MOST_LOG = 32_000
"""Bytes of a trial's log, at most, of each stream."""

_POOL = "trials"
_MOST = 32
_PINS = r"[0-9]{1,9}(,[0-9]{1,9})?"
_ROUTE = Route(
    "get",
    "/jobs/{job_id}/trials",
    "A sweep's trials as its card shows them: all, sorted by a column; two pinned; one open (its "
    "number and 1)",
    numbers={
        "every": Number(0, 0, 1),
        "column": Number(0, 0, 40),
        "down": Number(1, 0, 1),
        "start": Number(0, 0, 1 << 31),
        "open": Number(0, 0, 1 << 31),
    },
    texts={"pins": {"type": "string", "pattern": f"^({_PINS})?{END}"}},
    reply={
        "type": "object",
        "required": ["total", "inside"],
        "properties": {
            "total": {"type": "integer", "minimum": 0},
            "inside": {"type": "array", "items": {}},
        },
    },
)


class Trials(Call):
    """``GET /submarine/api/jobs/<id>/trials``."""

    @may("read")
    async def get(self, **names: str) -> None:
        """Answer a question."""
        await self._answered("get", names)

    async def respond(self, **names: str) -> None:
        """Draw what is looked at, in a pool of its own: a log may be long."""
        numbers = self.numbers()
        pins = self.get_query_argument("pins", "")
        if pins and not re.fullmatch(_PINS, pins, re.ASCII):
            raise CommandError(
                "this is no list of two trials", where="?pins=", fix="send two numbers: ?pins=3,17"
            )
        asked = {**numbers, "pins": tuple(int(one) for one in pins.split(",") if one)}
        self.tell(await self.work.call(_POOL, trials, names["job_id"], asked))


def trials(job_id: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return how many trials a sweep has by now, and the elements that show some of them.

    Parameters
    ----------
    job_id
        The job that runs the sweep.
    asked
        The query: ``every``, ``column``, ``down``, ``start``, ``open``, ``pins``.

    Raises
    ------
    SubmarineError
        There is no such job, or it runs no sweep.
    """
    from submarine_magics.card.rows import view_sweep  # noqa: PLC0415 - brings IPython
    from submarine_magics.card.sweeps import Looking, trials_nodes  # noqa: PLC0415 - likewise

    job = jobs.opened(job_id)
    status = job.status()
    known = _reader_of(jobs.paths_of(job_id))
    final = status.state.final
    if (calls := known.calls()) is not None:
        return _calls(known, calls, status.finished or Moment.now(), asked, final=final)
    found, rows = known.read()
    sweep = view_sweep(found, status.finished or Moment.now(), job_id=job_id, final=final)
    column = asked["column"] if asked["column"] < len(sweep.columns) else 0
    looking = Looking(
        every=bool(asked["every"]),
        column=column if sweep.sorts[column] is not None else 0,
        down=bool(asked["down"]),
        start=min(asked["start"], max(0, len(rows) - 1) // PAGE * PAGE),
        pins=tuple(dict.fromkeys(asked["pins"])),
        trial=asked["open"] - 1 if asked["open"] else None,
    )
    page = _page(found, rows, looking, final=final) if looking.every else None
    wanted = dict.fromkeys((*looking.pins, *(() if looking.trial is None else (looking.trial,))))
    shown = [
        known.opened(found, rows[number], final=final, log=number == looking.trial)
        for number in wanted
        if number in rows
    ]
    inside = trials_nodes(sweep, looking, page, shown)
    return {"total": len(rows), "inside": [one.to_json() if one else "" for one in inside]}


def _calls(
    known: _SweepReader, found: Calls, end: Moment, asked: dict[str, Any], *, final: bool
) -> dict[str, Any]:
    """Return the elements that show a map's calls, and the one that is open."""
    from submarine_magics.card.calls import call_node, calls_nodes  # noqa: PLC0415 - brings IPython
    from submarine_magics.card.rows import call_view, view_calls  # noqa: PLC0415 - likewise
    from submarine_magics.card.sweeps import Looking  # noqa: PLC0415 - likewise

    index = asked["open"] - 1 if asked["open"] else None
    rows = {row.index: row for row in (*found.newest, *found.failures)}
    shown = None
    if index is not None:
        row = call_view(rows.get(index) or CallRow(index=index, state="done"), final=final)
        told = known.log(found.pool, index=index)
        shown = call_node(row, told.get("log", ""), told.get("left_out", 0), told.get("worker", ""))
    view = view_calls(found, end, final=final)
    inside = calls_nodes(view, Looking(trial=index), shown)
    return {
        "total": found.total,
        "inside": [one.to_json() if one else "" for one in inside],
    }


def _page(found: Summary, rows: dict[int, TrialRow], looking: Looking, *, final: bool) -> Any:  # noqa: ANN401 - a `Page`, whose module brings IPython
    from submarine_magics.card.rows import sort_key, trial_view  # noqa: PLC0415 - likewise
    from submarine_magics.card.sweeps import Page  # noqa: PLC0415 - likewise

    keys = {number: sort_key(found, row, looking.column) for number, row in rows.items()}
    # Numbers before texts; where nothing stands, at the end either way.
    there = sorted(number for number in rows if keys[number] != "")
    there.sort(key=lambda one: _comparable(keys[one]), reverse=looking.down)
    ordered = [*there, *sorted(number for number in rows if keys[number] == "")]
    shown = ordered[looking.start : looking.start + PAGE]
    return Page(
        rows=tuple(trial_view(found, rows[number], final=final) for number in shown),
        total=len(rows),
        size=PAGE,
    )


def _comparable(key: float | str) -> tuple[bool, float, str]:
    return (True, 0.0, key) if isinstance(key, str) else (False, float(key), "")


class _SweepReader:
    """What was read of a sweep, for the next question."""

    def __init__(self, paths: JobPaths) -> None:
        from submarine_magics.card.record import stored_spec  # noqa: PLC0415 - brings IPython

        self._folder = paths.task(stored_spec(paths).tasks[0]).root
        self._home = paths.root.parents[1]
        self._rows = RowsReader(self._folder)
        self._logs: CallLogs | None = None
        self.turn = threading.Lock()

    def calls(self) -> Calls | None:
        """Return how far the calls of a map are; None where the job runs none."""
        return read_calls(self._folder)

    def read(self) -> tuple[Summary, dict[int, TrialRow]]:
        """Return the summary, and all trials by number.

        Raises
        ------
        UnsupportedError
            The job runs no sweep.
        """
        with self.turn:
            found = read_summary(self._folder)
            if found is None:
                raise UnsupportedError(
                    "the job runs no sweep and no map", fix="ask for one that does"
                )
            columns = len(found.objectives), len(found.params)
            rows = {
                number: row
                for number, row in self._rows.read().items()
                if (len(row.values), len(row.params)) == columns
            }
            # What the summary has is newer; a trial that is tried again later is another one.
            return found, {**{row.number: row for row in (*found.newest, *found.open)}, **rows}

    def opened(self, found: Summary, row: TrialRow, *, final: bool, log: bool) -> Opened:
        """Return what there is to see of a trial.

        Parameters
        ----------
        log
            Whether its log is looked at.
        """
        from submarine_magics.card.rows import trial_value, trial_view  # noqa: PLC0415 - brings IPython
        from submarine_magics.card.sweeps import Opened  # noqa: PLC0415 - likewise
        from submarine_magics.card.words import visible  # noqa: PLC0415 - brings IPython

        told: dict[str, Any] = self.log(found.pool, trial=row.number) if log else {}
        return Opened(
            row=trial_view(found, row, final=final),
            params=tuple(
                (visible(name, 40), trial_value(value))
                for name, value in zip(found.params, row.params, strict=True)
            ),
            curve=row.curve,
            **told,
        )

    def log(
        self, pool: str, *, trial: int | None = None, index: int | None = None
    ) -> dict[str, Any]:
        """Return what a trial or a call has written, and where: the end of it.

        Parameters
        ----------
        pool
            The pool's id, as the job's task has it.
        trial, index
            Of a sweep a trial's number; of a map a call's.
        """
        from submarine_magics.card.words import visible_lines  # noqa: PLC0415 - brings IPython

        with self.turn, suppress(SubmarineError, OSError, ValueError, KeyError, TypeError):
            if self._logs is None:
                self._logs = CallLogs(PoolFolder.of(self._home, pool))
            logs = self._logs
            calls = logs.labelled(f"trial {trial}") if index is None else (index,)
            runs = [run for one in calls for run in logs.runs(one)]
            if runs:
                texts = [logs.text(run, MOST_LOG) for run in runs[-_RUNS:]]
                events = logs.files(runs[-1]).logdir / f"trial-{trial}"
                return {
                    "log": visible_lines("".join(one.text for one in texts), 4 * MOST_LOG),
                    "left_out": texts[0].left_out,
                    "worker": runs[-1].worker,
                    "logdir": str(events) if events.is_dir() and any(events.iterdir()) else "",
                }
        return {}


_RUNS = 4
"""Runs of a trial that was paused whose logs are shown, the last ones."""

_readers: OrderedDict[str, _SweepReader] = OrderedDict()
_finding = threading.Lock()


def _reader_of(paths: JobPaths) -> _SweepReader:
    with _finding:
        key = str(paths.root)
        one = _readers.get(key) or _readers.setdefault(key, _SweepReader(paths))
        _readers.move_to_end(key)
        while len(_readers) > _MOST:
            _readers.popitem(last=False)
        return one


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    return [(_ROUTE.pattern, Trials, {"work": app.work, "routes": {"get": _ROUTE}})]


PLUGIN = Plugin(routes=(_ROUTE,), handlers=_handlers)
