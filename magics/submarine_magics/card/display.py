"""The job card in a notebook: one mimebundle under one display id, kept up to date.

While the job runs the live widget is fed by its traits, and the display itself stays as it is: a
front end builds the whole view anew for each new display. At the end the display becomes the static
card, without the widget: that one is still there when the kernel is gone, where a front end would
otherwise say "model not found". Without anywidget the static card is updated all along.
"""

from __future__ import annotations

import contextvars
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

from IPython import get_ipython
from IPython.display import display, update_display
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Moment
from submarine_engine.lifecycle import JobStatus

from submarine_magics import frontend, pace
from submarine_magics.card.links import with_pages
from submarine_magics.card.mime import WIDGET_TYPE, static_bundle, wants_style
from submarine_magics.card.model import CardView, view
from submarine_magics.card.pages import cancel_url
from submarine_magics.card.record import read_record

if TYPE_CHECKING:
    from submarine_engine.future import Job

    from submarine_magics.card.widget import CardWidget

_LIVE_EVERY = 0.25
_STATIC_EVERY = 1.0
_LOOK_EVERY = 0.5
_AGAIN_AFTER = 4.0
"""Seconds: a server that dropped messages takes them again once its window of 3 s is over."""

_NO_WIDGET = "For a live card, install anywidget"
_told = threading.Event()


class JobCard:
    """The card of one job, in the cell that runs now.

    Does nothing outside IPython; in a terminal it only writes its text at the end.

    Parameters
    ----------
    title
        Instead of the job's name.
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
        title: str | None = None,
        origin: str = "",
        *,
        blocking: bool = False,
        text: bool = False,
    ) -> None:
        self._job = job
        self._record = read_record(job, title=title, origin=origin)
        self._blocking = blocking
        self._text = text
        self._display_id = ""
        self._widget: CardWidget | None = None
        self._note = ""
        self._styled = True
        self._shown: JobStatus | None = None
        self._status = JobStatus()
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
        if not self._display_id or self._status is self._shown or time.monotonic() < self._due:
            return
        card, now = self._view()
        if self._widget is not None:
            self._widget.show(card, now.wall, blocking=self._blocking)
        else:
            self._refresh(card)
        self._sent()

    def close(self, status: JobStatus) -> None:
        """Show the last word; the static card takes the live one's place."""
        self._status = status
        card, now = self._view()
        if not self._display_id:
            if get_ipython() is not None:
                _show_text(card)
            return
        self._blocking = False
        self._last(card, now)
        if pace.shared.tight():
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

    def _last(self, card: CardView, now: Moment) -> None:
        if self._widget is not None:
            # Pages that were reloaded since know the widget only, and not the display.
            self._widget.show(card, now.wall, blocking=False)
        if card.final:
            self._refresh(card)

    def _view(self) -> tuple[CardView, Moment]:
        now = Moment.now()
        return view(with_pages(self._record, self._job), self._status, now), now

    def _make_widget(self, card: CardView, now: Moment) -> CardWidget | None:
        if card.final or not frontend.current.widgets:
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
        pace.shared.take(len(bundle["text/html"]))
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
