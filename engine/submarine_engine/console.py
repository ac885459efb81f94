"""A job on the console of a plain program."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from submarine_engine.logs import PlainDisplays, Renderer

if TYPE_CHECKING:
    from types import FrameType

    from submarine_engine.events import Display
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus


class Console(Renderer):
    """Writes a job's text to the program's own streams, and to stderr what it waits for."""

    def __init__(self) -> None:
        self.interrupted = False
        self._cancel_asked = False
        self._waiting = ""
        self.job: Job | None = None
        self._displays = PlainDisplays()

    def status(self, status: JobStatus) -> None:
        """Say what the job waits for, when that changes."""
        if (words := waiting_words(status)) not in ("", self._waiting):
            self.note(f"waiting: {words}")
            self._waiting = words

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - told in the text
        """Write text of the job to the stream of the same name."""
        first, own = (sys.stdout, sys.stderr) if stream == "stderr" else (sys.stderr, sys.stdout)
        first.flush()
        own.write(text)
        own.flush()

    def display(self, item: Display) -> None:
        """Write what the job showed, as text."""
        if text := self._displays.text(item):
            self.text(item.task, "stdout", text)

    def tick(self) -> None:
        """Cancel the job once the program was interrupted."""
        if self.interrupted and self.cancel():
            self.note("cancelling … (interrupt again to leave at once)")

    def cancel(self) -> bool:
        """Ask the job to end, once; return whether it was asked now."""
        if self._cancel_asked or not self.job:
            return False
        self.job.cancel("interrupted")
        self._cancel_asked = True  # not before: an interrupt in between has it asked again
        return True

    def note(self, text: str) -> None:
        """Say something beside the job's own text."""
        job = f"job {self.job.id}: " if self.job else ""
        sys.stdout.flush()
        sys.stderr.write(f"submarine: {job}{text}\n")
        sys.stderr.flush()


def waiting_words(status: JobStatus) -> str:
    """Return what a job waits for: the cluster's words, else its place; empty where it does not."""
    if status.ahead is None or status.state.final:
        return ""
    return status.waiting_reason or f"{status.ahead} ahead in the queue"


@contextmanager
def cancelling_on_interrupt(job: Job, console: Console) -> Iterator[None]:
    """Let the first interrupt cancel `job` and the second one leave.

    Raises
    ------
    KeyboardInterrupt
        There was one; on leaving the block.
    """
    console.job = job

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if console.interrupted:
            raise KeyboardInterrupt
        console.interrupted = True

    if threading.current_thread() is not threading.main_thread():  # no interrupt comes here
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        console.cancel()  # the second interrupt may come before the first was taken up
        raise
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if console.interrupted:
        raise KeyboardInterrupt(f"job {job.id} was cancelled")
