"""The card in a notebook: one mimebundle under one display id, kept up to date.

Each front end takes the form that it knows best. Several jobs are shown in one table.
"""

from __future__ import annotations

import contextvars
import json
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display, update_display
from submarine_engine.amounts import count, percent
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Moment
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus

from submarine_magics import frontend
from submarine_magics.card.model import CardView, view
from submarine_magics.card.nodes import Node, node, serialise
from submarine_magics.card.pages import cancel_url, with_pages
from submarine_magics.card.record import Record, read_curves, read_record, sweep_stamp
from submarine_magics.card.served import served_tree
from submarine_magics.card.startup import read_started
from submarine_magics.card.tree import style, to_html, to_text
from submarine_magics.card.words import visible

if TYPE_CHECKING:
    from submarine_magics.card.widget import CardWidget


# The card as a mimebundle: each front end takes the form that it knows best.


JOB_TYPE = "application/vnd.submarine.job+json"
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


_styled: list[str | None] = []
"""The cell whose card has the style: the only element, once there is one."""


def static_bundle(
    card: CardView, note: str = "", *, text: bool = False, styled: bool = True
) -> dict[str, Any]:
    """Return the card for front ends without widgets: JSON for ours, HTML, plain text.

    Parameters
    ----------
    note
        For the reader of the HTML.
    text
        Whether the cell writes the job's text below the card: then a front end that follows the job
        by itself need not show it as well.
    styled
        As for `to_html`.
    """
    if frontend.current.widgets:  # Jupyter's: it is saved with the notebook
        card = without_own_pages(card)
    # A page that our server feeds says it beside the button that runs the cell again.
    sentence = "" if card.remembered else card.sentence
    tree = served_tree(replace(card, script=None, sentence=sentence)).to_json()
    return {
        JOB_TYPE: {
            "version": 3,
            "job_id": card.job_id,
            "cluster": card.cluster,
            "name": card.title,
            "state": card.state,
            "progress": card.progress,
            "log_url": card.log_url,
            "log_label": card.log_label,
            "as_of": card.as_of,
            "text": text,
            **({"remembered": card.remembered} if card.remembered else {}),
            # All that is drawn at once, as one line of a notebook's file; the script is in the
            # HTML, and the server has it.
            "tree": json.dumps(tree, ensure_ascii=False, separators=(",", ":")),
        },
        "text/html": to_html(card, note, styled=styled),
        "text/plain": to_text(card),
    }


def without_own_pages(card: CardView) -> CardView:
    """Return `card` without addresses of this machine: they hold keys, and end with the kernel."""
    tasks = tuple(
        replace(task, log_url=None) if _is_own(task.log_url) else task for task in card.tasks
    )
    links = tuple((label, url) for label, url in card.links if not _is_own(url))
    log_url = None if _is_own(card.log_url) else card.log_url
    return replace(card, tasks=tasks, links=links, log_url=log_url)


def _is_own(url: str | None) -> bool:
    host = urlsplit(url).hostname if url else None
    try:
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:  # a name
        return False


def wants_style() -> bool:
    """Return whether a card that is displayed now has to bring the style.

    The first one of a kernel does, and does again where its cell is run again. Where each output
    is a page of its own (Colab), all do.
    """
    if not in_kernel() or "google.colab" in sys.modules or not frontend.current.widgets:
        return True
    cell = _request().get("cellId")
    if not _styled:
        _styled.append(cell)
        return True
    return cell is not None and _styled == [cell]


def _request() -> dict[str, Any]:
    """Return the metadata that came with the cell which runs now."""
    kernel = getattr(get_ipython(), "kernel", None)
    parent: dict[str, Any] = (kernel and kernel.get_parent("shell")) or {}
    return parent.get("metadata") or {}


def mimebundle(job: Job) -> dict[str, Any]:
    """Return the static card of `job`, as ``Job``'s own display in a notebook."""
    record = with_pages(read_record(job), job)
    card = view(record, job.status(), Moment.now())
    return static_bundle(card, styled=wants_style())


# The job card in a notebook: one mimebundle under one display id, kept up to date.
#
# While the job runs the live widget is fed by its traits, and the display itself stays as it is: a
# front end builds the whole view anew for each new display. At the end the display becomes the
# static card, without the widget: that one is still there when the kernel is gone, where a front
# end would otherwise say "model not found". Without anywidget the static card is updated all along.


_LIVE_EVERY = 0.25  # seconds: a widget takes what has changed
_STATIC_EVERY = 1.0  # seconds: the front end builds the whole card anew, and may flicker
_LOOK_EVERY = 0.5  # seconds: where no cell follows the job, each look reads its status anew
_AGAIN_AFTER = 4.0
"""Seconds: a server that dropped messages takes them again once its window of 3 s is over."""

_NO_WIDGET = "For a live card, install anywidget"
_told = threading.Event()


class JobCard:
    """The card of one job, in the cell that runs now.

    Does nothing outside IPython; in a terminal it only writes its text at the end.

    Parameters
    ----------
    origin
        Where the job was submitted, in words: ``In [3]``.
    blocking
        Whether the cell waits for the job: then "Cancel" may interrupt the kernel.
    text
        Whether the cell writes the job's text below the card.
    """

    def __init__(
        self,
        job: Job,
        origin: str = "",
        *,
        blocking: bool = False,
        text: bool = False,
    ) -> None:
        self._job = job
        self._record = read_record(job, origin=origin)
        self._blocking = blocking
        self._text = text
        self._display_id = ""
        self._widget: CardWidget | None = None
        self._note = ""
        self._styled = True
        self._shown: JobStatus | None = None
        self._status = JobStatus()
        self._found: object = (None, (), None)
        self._due = 0.0

    def display(self, status: JobStatus | None = None) -> None:
        """Put the card into the cell's output; asks for the job's status where it is not given."""
        self._status = status or self._job.status()
        if not in_kernel():
            return
        card, now = self._view()
        self._widget = self._make_widget(card, now)
        self._styled = wants_style()
        self._display_id = f"submarine-{self._record.job_id}-{uuid.uuid4().hex[:8]}"
        _raw(display, self._bundle(card), self._display_id)
        self._sent()

    def again(self) -> None:
        """Put the card into the output once more, which was cleared."""
        if self._display_id:
            card, _ = self._view()
            _raw(display, self._bundle(card), self._display_id)

    def update(self, status: JobStatus) -> None:
        """Show `status`: at once, or soon where much is going on (see `tick`)."""
        self._status = status
        self.tick()

    def tick(self) -> None:
        """Send what was held back, if its time has come; call this all the while."""
        if not self._display_id or time.monotonic() < self._due or not self._has_news():
            return
        card, now = self._view()
        if self._widget is not None:
            self._widget.show(card, now.wall, blocking=self._blocking)
        else:
            self._refresh(card)
        self._sent()

    def close(self, status: JobStatus) -> None:
        """Show `status`, the last one; the static card takes the live one's place."""
        self._status = status
        card, now = self._view()
        if not self._display_id:
            if get_ipython() is not None:
                _show_text(card)
            return
        self._blocking = False
        self._last(card, now)
        if frontend.shared.tight():
            # Another thread, so that the cell need not wait; in this cell's context, so that the
            # front end knows whose display it is.
            again = contextvars.copy_context().run
            timer = threading.Timer(_AGAIN_AFTER, again, (self._last, card, now))
            timer.daemon = True
            timer.start()

    def leave(self) -> None:
        """Stop following a job that goes on: the card shows how it was when it was left."""
        if not self._display_id or self._status.state.final:
            return
        self._blocking = self._text = False
        card, now = self._view()
        if self._widget is not None:
            self._widget.show(card, now.wall, blocking=False)
        self._widget = None
        self._note = f"No longer followed here; to follow it: %submarine job attach {card.job_id}"
        self._refresh(card)

    def follow(self) -> None:
        """Keep the card up to date from a thread of its own until the job is over; returns at once.

        For a job that no cell waits for. The thread works in this cell's context, so that the card
        stays in this cell.
        """
        if self._display_id and not self._status.state.final:
            work = contextvars.copy_context().run
            name = f"submarine-card-{self._record.job_id}"
            threading.Thread(target=work, args=(self._follow,), name=name, daemon=True).start()

    def _follow(self) -> None:
        try:
            while not (status := self._job.status()).state.final:
                self.update(status)
                time.sleep(_LOOK_EVERY)
        except SubmarineError:
            self.leave()
        else:
            self.close(status)

    def _has_news(self) -> bool:
        """Return whether the job is another than it is shown: what it has found, or uses.

        Curves and phases of its start alone are worth an update of a widget, and no new display.
        """
        job, spec, is_drawn = self._job, self._record.spec, self._widget is not None
        curves = read_curves(job, spec) if is_drawn else ()
        found = sweep_stamp(job, spec), curves, read_started(job, spec) if is_drawn else None
        if self._status is self._shown and found == self._found:
            return False
        self._found = found
        return True

    def _last(self, card: CardView, now: Moment) -> None:
        if self._widget is not None:
            # Pages that were reloaded since know the widget only, and not the display. What it held
            # last is saved with the notebook where the front end does that.
            shown = without_own_pages(card) if card.final else card
            self._widget.show(shown, now.wall, blocking=False)
        if card.final:
            self._refresh(card)

    def _view(self) -> tuple[CardView, Moment]:
        now = Moment.now()
        record = with_pages(self._record, self._job, final=self._status.state.final)
        return view(record, self._status, now), now

    def _make_widget(self, card: CardView, now: Moment) -> CardWidget | None:
        if card.final or not frontend.shows_widgets(_request()):
            return None
        try:
            from submarine_magics.card.widget import CardWidget  # noqa: PLC0415 - optional
        except ImportError:
            self._note = "" if _told.is_set() else _NO_WIDGET
            _told.set()
            return None
        return CardWidget(
            card,
            now.wall,
            blocking=self._blocking,
            cancel_url=cancel_url(self._job),
            on_cancel=self._cancel,
        )

    def _cancel(self) -> None:
        try:
            self._job.cancel("cancelled on its card")
        except SubmarineError:
            return  # the card goes on showing what the job does

    def _bundle(self, card: CardView) -> dict[str, Any]:
        bundle = static_bundle(card, self._note, text=self._text, styled=self._styled)
        if self._widget is not None and not card.final:
            bundle[WIDGET_TYPE] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self._widget.model_id,
            }
        return bundle

    def _refresh(self, card: CardView) -> None:
        bundle = self._bundle(card)
        frontend.shared.take(len(bundle["text/html"]))
        _raw(update_display, bundle, self._display_id)

    def _sent(self) -> None:
        self._shown = self._status
        every = _STATIC_EVERY if self._widget is None else _LIVE_EVERY
        self._due = time.monotonic() + every


def show_job(job: Job) -> None:
    """Show a card that follows `job` by itself; in a terminal, its text as it stands."""
    card = JobCard(job)
    if in_kernel():
        card.display()
        card.follow()
    else:
        card.close(job.status())


def in_kernel() -> bool:
    """Return whether displays go to a front end by a kernel."""
    return getattr(get_ipython(), "kernel", None) is not None


def preload() -> None:
    """Import the widget's packages in the background: the first card need not wait for them."""
    threading.Thread(target=_import_widget, name="submarine-card-import", daemon=True).start()


def _import_widget() -> None:
    try:
        import submarine_magics.card.widget  # noqa: F401, PLC0415 - optional
    except ImportError:
        return


def _show_text(card: CardView) -> None:
    _raw(display, {"text/plain": static_bundle(card)["text/plain"]}, uuid.uuid4().hex)


def _raw(show: Any, bundle: dict[str, Any], display_id: str) -> None:  # noqa: ANN401 - IPython's
    show(bundle, raw=True, display_id=display_id)


# Several jobs in one table, kept up to date: how a list of what `submit` gave shows itself.


_EVERY = 1.0  # seconds: each look reads the status of all jobs that are not over
_SHOWN = 200
_HEAD = ("Job", "State", "Time", "Progress", "")
_TYPES: tuple[type, ...] = (list, tuple, dict)


@dataclass(frozen=True, slots=True)
class _Row:
    cells: tuple[str, ...]
    state: str
    final: bool


def register_table(shell: InteractiveShell) -> None:
    """Let lists, tuples and dicts of jobs show as a table in `shell`; others are as they were."""
    for kind in _TYPES:
        _formatter(shell).for_type(kind, show_jobs)


def unregister_table(shell: InteractiveShell) -> None:
    """Take back what `register_table` did in `shell`."""
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
                frontend.shared.take(len(bundle["text/html"]))
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
        name = self._names[at] if self._names else visible(record.spec.name, 60)
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
