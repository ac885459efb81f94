"""A job that a paragraph follows without its kernel: card on top, text below.

The kernel has submitted it, and brings home what it leaves behind when it is over; in between
nothing of it is needed, and other paragraphs run in it. What is shown here are the messages that
the kernel would have sent.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from submarine_engine.events import Display, Moment
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus
from submarine_engine.logs import FIRST, Renderer, follow
from submarine_magics import frontend
from submarine_magics.card.display import static_bundle
from submarine_magics.card.model import view
from submarine_magics.card.pages import log_page, with_pages
from submarine_magics.card.record import read_record
from submarine_magics.stream import HeldTraceback

from submarine_zeppelin.links import lead_elsewhere
from submarine_zeppelin.outputs import JOB_TYPE, LOG_TYPE

Take = Callable[[str, Mapping[str, Any]], None]
"""Takes type and content of a message, as of those that a kernel sends."""

_CARD_EVERY = 1.0  # seconds: each card is sent whole, with all else that the paragraph shows
_OURS = (JOB_TYPE, LOG_TYPE, "application/vnd.jupyter.widget-view+json")
"""What a job may not show as if we had said it."""


class LeftError(Exception):
    """Nobody follows the job here any longer; it goes on."""


def be_zeppelins() -> None:
    """Let cards of this process be those of Zeppelin's page."""
    frontend.current.widgets = False
    frontend.current.white = True
    lead_elsewhere()


class Follower(Renderer):
    """Shows a job to its end.

    Parameters
    ----------
    take
        Takes what is shown.
    look
        Called all the while; what it raises ends the following.
    origin
        Where the job was submitted, in words.
    which
        Whose log is shown, of several tasks, as `submarine_engine.logs.follow` has it; rank 0's
        unless given.
    """

    def __init__(
        self,
        job: Job,
        take: Take,
        look: Callable[[], None],
        origin: str = "",
        which: str = "",
    ) -> None:
        self._which = which or FIRST
        self._job = job
        self._take = take
        self._look = look
        self._record = read_record(job, origin=origin)
        self._card_id = f"submarine-{job.id}-{uuid.uuid4().hex[:8]}"
        self._status = job.status()
        self._shown: JobStatus | None = None
        self._due = 0.0
        self._held = HeldTraceback(_Text(self))
        self._last: list[Display] = []
        self._clear = False

    def run(self) -> JobStatus:
        """Follow; returns when the job is over.

        Raises
        ------
        LeftError
            What was to look said so.
        SubmarineError
            The job cannot be read any more.
        """
        be_zeppelins()
        self._show_card()
        where = log_page(self._job) or f"%submarine job logs {self._job.id}"
        self._take("display_data", {"data": {LOG_TYPE: {"job_id": self._job.id, "full": where}}})
        try:
            return follow(self._job, self, which=self._which)
        finally:
            self._held.release()

    def show_last(self) -> None:
        """Show the figures that the job left open: below its value, as in a notebook."""
        last, self._last = self._last, []
        for item in last:
            self.publish(item)

    # What `follow` calls

    def status(self, status: JobStatus) -> None:  # noqa: ARG002 - it may be the past
        """Bring the card up to date."""
        self._status = self._job.status()
        self.tick()

    def text(self, task: str, stream: str, text: str) -> None:
        """Write text below the card."""
        self._held.text(task, stream, text)

    def display(self, item: Display) -> None:
        """Show what the job shows below the card."""
        if item.last:
            self._last.append(item)
        else:
            self._held.display(item)

    def tick(self) -> None:
        """Do what is due."""
        self._look()
        self._held.tick()
        if self._status is not self._shown and time.monotonic() >= self._due:
            self._show_card()
        self._take("", {})

    def end(self, status: JobStatus) -> None:
        """Show the last of the text and the final state.

        How a job failed is told by what comes home, see `HeldTraceback`.
        """
        if status.state is JobState.FAILED:
            self._held.drop(status.reason)
        self._held.release()
        self._status = status
        self._show_card()

    # What is shown

    def write(self, stream: str, text: str) -> None:
        """Show `text` as it is, as that of `stream`: ``stdout`` or ``stderr``."""
        self._clear_if_waiting()
        self._take("stream", {"name": stream, "text": text})

    def publish(self, item: Display) -> None:
        """Show the display `item` as it is."""
        if item.kind == "clear":
            self._clear = True
            if not item.wait:
                self._clear_if_waiting()
            return
        if item.kind == "display":
            self._clear_if_waiting()
        data = {kind: shown for kind, shown in item.data.items() if kind not in _OURS}
        content: dict[str, Any] = {"data": data, "metadata": dict(item.metadata)}
        if item.display_id:
            content["transient"] = {"display_id": item.display_id}
        self._take(f"{'update_' if item.kind == 'update' else ''}display_data", content)

    def _clear_if_waiting(self) -> None:
        """Clear the output, as the job's code has: it means what it wrote, and not the card."""
        if self._clear:
            self._clear, self._shown = False, None
            self._take("clear_output", {"wait": False})
            self._show_card()

    def _show_card(self) -> None:
        kind = "display_data" if self._shown is None else "update_display_data"
        card = view(with_pages(self._record, self._job), self._status, Moment.now())
        self._shown, self._due = self._status, time.monotonic() + _CARD_EVERY
        transient = {"display_id": self._card_id}
        self._take(kind, {"data": static_bundle(card, text=True), "transient": transient})


class _Text(Renderer):
    """Where text goes that is not held back."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - told in the text
        self._follower.write(stream, text)

    def display(self, item: Display) -> None:
        self._follower.publish(item)
