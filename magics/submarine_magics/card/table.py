"""Several jobs in one table, kept up to date: how a list of what `submit` gave shows itself."""

from __future__ import annotations

import contextvars
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display, update_display
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Moment
from submarine_engine.future import Job
from submarine_engine.job import JobState

from submarine_magics import pace
from submarine_magics.card.display import in_kernel
from submarine_magics.card.html import serialise, style
from submarine_magics.card.mime import wants_style
from submarine_magics.card.model import view
from submarine_magics.card.record import Record, read_record
from submarine_magics.card.text import percent
from submarine_magics.card.tree import Node, node
from submarine_magics.card.words import count, visible

if TYPE_CHECKING:
    from submarine_engine.lifecycle import JobStatus

_EVERY = 1.0
_SHOWN = 200
_HEAD = ("Job", "State", "Time", "Progress", "")
_TYPES: tuple[type, ...] = (list, tuple, dict)


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    state: str
    final: bool


def register(shell: InteractiveShell) -> None:
    """Let lists, tuples and dicts of jobs show themselves as a table; others are as they were."""
    for kind in _TYPES:
        _formatter(shell).for_type(kind, show_jobs)


def unregister(shell: InteractiveShell) -> None:
    """Take back what `register` did."""
    for kind in _TYPES:
        _formatter(shell).pop(kind, None)


def _formatter(shell: InteractiveShell) -> Any:  # noqa: ANN401 - IPython's, not typed
    assert shell.display_formatter is not None  # noqa: S101 - for the type checker
    return shell.display_formatter.ipython_display_formatter


def show_jobs(found: Sequence[object] | Mapping[object, object]) -> None:
    """Show jobs as a table that follows them until the last one is over.

    Raises
    ------
    NotImplementedError
        They are not all jobs: IPython then shows `found` as it ever did.
    """
    values = list(found.values() if isinstance(found, Mapping) else found)
    jobs = [job for job in values if isinstance(job, Job)]
    if not jobs or len(jobs) < len(values):
        raise NotImplementedError
    names = [visible(key, 60) for key in found] if isinstance(found, Mapping) else []
    _Table(jobs, names).show()


class _Table:
    def __init__(self, jobs: Sequence[Job], names: Sequence[str]) -> None:
        self._jobs = jobs[:_SHOWN]
        self._left = len(jobs) - len(self._jobs)
        self._records = [read_record(job, machine=False) for job in self._jobs]
        self._names = names
        self._over: dict[int, _Row] = {}
        self._styled = wants_style()
        self._id = f"submarine-jobs-{uuid.uuid4().hex[:8]}"

    def show(self) -> None:
        """Display the table, and follow the jobs where the front end can show that."""
        rows = self._rows()
        bundle = self._bundle(rows)
        if not in_kernel():
            display({"text/plain": bundle["text/plain"]}, raw=True)
            return
        display(bundle, raw=True, display_id=self._id)
        if not all(row.final for row in rows):
            # In this cell's context, so that the front end knows whose display it is.
            work = contextvars.copy_context().run
            threading.Thread(target=work, args=(self._follow,), name=self._id, daemon=True).start()

    def _follow(self) -> None:
        shown: list[_Row] = []
        while True:
            rows = self._rows()
            if rows != shown:
                bundle = self._bundle(rows)
                pace.shared.take(len(bundle["text/html"]))
                update_display(bundle, raw=True, display_id=self._id)
                shown = rows
            if all(row.final for row in rows):
                return
            time.sleep(_EVERY)

    def _rows(self) -> list[_Row]:
        now = Moment.now()
        for at, job in enumerate(self._jobs):
            row = self._over.get(at)
            if row is None or not row.final:
                self._over[at] = self._row(at, job, now)
        return [self._over[at] for at in range(len(self._jobs))]

    def _row(self, at: int, job: Job, now: Moment) -> _Row:
        record = self._records[at]
        name = self._names[at] if self._names else visible(record.title or job.id, 60)
        try:
            status = job.status()
        except SubmarineError as error:  # its folder was deleted
            return _Row((name, "unknown", "", "", visible(error.what, 200)), "lost", final=True)
        return _of(name, record, status, now)

    def _bundle(self, rows: Sequence[_Row]) -> dict[str, Any]:
        words = _words(rows)
        more = f"… {self._left:,} more" if self._left else None
        head = node("tr", "", *(node("th", "", title, scope="col") for title in _HEAD))
        body = [
            node("tr", "", *(node("td", "", cell) for cell in row.cells), data_state=row.state)
            for row in rows
        ]
        table = node("table", "table", node("thead", "", head), node("tbody", "", *body))
        left = node("div", "quiet", more) if more else None
        tree = Node(
            "div",
            {"class": "submarine-card tex2jax_ignore", "role": "group", "aria-label": "Jobs"},
            (node("div", "facts", words), node("div", "scroll", table), left),
        )
        lines = ["  ".join(filter(None, row.cells)) for row in rows]
        return {
            "text/html": (f"<style>{style()}</style>" if self._styled else "") + serialise(tree),
            "text/plain": "\n".join(filter(None, (words, *lines, more))),
        }


def _of(name: str, record: Record, status: JobStatus, now: Moment) -> _Row:
    card = view(record, status, now)
    done = "" if card.progress is None else percent(card.progress)
    told = card.sentence or card.message
    cells = (name, f"{card.glyph} {card.word}", card.elapsed_text, done, told)
    return _Row(cells, card.state, card.final)


def _words(rows: Sequence[_Row]) -> str:
    queued = sum(row.state == JobState.QUEUED.value for row in rows)
    running = sum(not row.final for row in rows) - queued
    waiting = f"{queued} queued · " if queued else ""
    return f"{running} running · {waiting}{count(len(rows), 'job')}"
