"""A cell that follows its job: card on top, text below; an interrupt cancels."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from types import FrameType

from IPython import get_ipython
from IPython.display import display
from submarine_engine.asking import Asker
from submarine_engine.config import load_config
from submarine_engine.errors import JobCancelledError, SubmarineError
from submarine_engine.events import Display, Question
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus
from submarine_engine.logs import ALL, FIRST, Renderer, check_task, follow
from submarine_engine.outcome import read_outcome

from submarine_magics import frontend
from submarine_magics.card import JobCard
from submarine_magics.card.pages import log_page
from submarine_magics.reading import read
from submarine_magics.show import say
from submarine_magics.stream import CellOutput, HeldTraceback, has_colour, in_notebook

# What an interrupt means while a cell follows its job: the first cancels, the second leaves.


_SETTLES = 1.0
"""Seconds: a server that ends a kernel interrupts it first, and asks it to end right after."""

_LOOK = 0.02  # seconds until it is seen that the kernel is to end: a small part of `_SETTLES`


class KernelEnds(KeyboardInterrupt):
    """The interrupt was not for the cell: the kernel is about to end, and its job is to go on."""


class Interrupt(Interrupts):
    """Whether the user interrupted the cell."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0

    def meant(self) -> bool:
        """Return whether the user wants the cell to stop.

        An interrupt says so only once it is clear that the kernel is not just about to end.

        Raises
        ------
        KernelEnds
            It is: a job outlives its kernel.
        """
        if self.pending and getattr(get_ipython(), "exit_now", False) is True:
            raise KernelEnds
        return self.pending and time.monotonic() >= self._at + _SETTLES

    def wait_until_meant(self) -> None:
        """Wait until it is clear that the kernel is not just about to end.

        Who ends it may have interrupted it more than once; further interrupts say nothing new.

        Raises
        ------
        KernelEnds
            It is.
        """
        while True:
            try:
                while not self.meant():
                    time.sleep(_LOOK)
            except KernelEnds:
                raise
            except KeyboardInterrupt:
                continue
            return

    def note(self, number: int, frame: FrameType | None) -> None:
        """Remember when it came; the second raises KeyboardInterrupt."""
        self._at = time.monotonic()
        super().note(number, frame)


# A cell that watches its job: card on top, text below, an interrupt cancels.


_SOON = 1.5
"""Seconds in which an interrupted job ends without that anybody has to be told to wait."""


class CellView(Renderer):
    """Shows a job in the cell that runs now: its card, and its text below.

    Parameters
    ----------
    interrupt
        Asked at every tick: the first interrupt of the cell cancels the job. None leaves interrupts
        alone.
    origin
        Where the job was submitted, in words: ``In [3]``.
    """

    def __init__(self, job: Job, interrupt: Interrupt | None = None, origin: str = "") -> None:
        self._job = job
        self._interrupt = interrupt
        self.cancelled = False
        """Whether the job was asked to end."""
        self._tell_at = 0.0
        self._card = JobCard(job, origin=origin, blocking=interrupt is not None, text=True)
        self._output = cell_output(job)
        self._output.cleared = self._again
        self._output.below_value = interrupt is not None
        self._held = HeldTraceback(self._output)
        self._asker = Asker(job, read) if interrupt is not None else None
        self._card.display()

    def _again(self) -> None:
        """Show the card again: the job's code cleared the output, and means what it wrote."""
        self._card.again()

    def status(self, status: JobStatus) -> None:
        """Bring the card up to date."""
        # Who attaches is told the job's past first: the card shows it as it is now.
        self._card.update(self._job.status() if self._interrupt is None else status)

    def text(self, task: str, stream: str, text: str) -> None:
        """Write text below the card."""
        self._held.text(task, stream, text)

    def display(self, item: Display) -> None:
        """Show what the job shows below the card."""
        self._held.display(item)

    def question(self, item: Question) -> str | None:
        """Ask the person at this cell."""
        if self._asker is None:
            return None
        self._held.release()
        self._output.flush()
        return self._asker.take(item)

    def close(self) -> None:
        """Let no question of the job's wait for this cell."""
        if self._asker is not None:
            self._asker.close()

    def tick(self) -> None:
        """Do what is due, and cancel the job once the cell was interrupted."""
        self._card.tick()
        self._held.tick()
        self._output.tick()
        if self._interrupt and not self.cancelled and self._interrupt.meant() and self.cancel():
            self._tell_at = time.monotonic() + _SOON
        if self._tell_at and time.monotonic() > self._tell_at:
            self._tell_at = 0.0
            say(f"cancelling job {self._job.id} … (interrupt again to leave at once)")

    def cancel(self) -> bool:
        """Ask the job to end; return whether it was not over yet."""
        asked = self._job.cancel("the cell was interrupted")
        self.cancelled = True  # not before: an interrupt in between has it asked again
        return asked

    def _notes(self) -> tuple[str, ...]:
        """Return what was added to the error that the job ended by: its traceback tells it, too."""
        with suppress(SubmarineError, OSError, ValueError):
            outcome = read_outcome(self._job.cluster.results(self._job.id))
            return outcome.error.notes if outcome and outcome.error else ()
        return ()

    def end(self, status: JobStatus) -> None:
        """Show the last of the text and the final state.

        The cell's own error tells how a job failed, see `HeldTraceback`.
        """
        if status.state is JobState.FAILED:
            self._held.drop(status.reason, self._notes())
        self._held.release()
        self._output.flush()
        self._card.close(status)

    def leave(self) -> None:
        """Show the last of the text that came; the job may go on."""
        self._held.release()
        self._output.flush()
        self._card.leave()


def cell_output(job: Job) -> CellOutput:
    """Make the output of a job for the cell that runs now."""
    limit = int(load_config().value("cell_output_limit"))
    where = job.cluster.log_url(job.id) or f"%submarine job logs {job.id}"
    if kind := frontend.current.log_type:
        where = log_page(job) or where
        display({kind: {"job_id": job.id, "full": where}}, raw=True)
    return CellOutput(where, limit if in_notebook() else None)


class LogView(Renderer):
    """Shows a job's text alone.

    Parameters
    ----------
    streams
        Only these.
    """

    def __init__(self, job: Job, streams: Collection[str]) -> None:
        self._output = cell_output(job)
        self._streams = streams

    def text(self, task: str, stream: str, text: str) -> None:
        """Write text that was asked for."""
        if stream in self._streams:
            self._output.text(task, stream, text)

    def display(self, item: Display) -> None:
        """Show what the job showed; where one asked for a stream, this stream's text alone."""
        if len(self._streams) > 1:
            self._output.display(item)

    def tick(self) -> None:
        """Do what is due."""
        self._output.tick()

    def leave(self) -> None:
        """Show the last of the text."""
        self._output.flush()


def show_log(
    job: Job, *, task: str | None, streams: Collection[str], offset: int, wait: bool
) -> None:
    """Show a job's text from byte `offset` on: what is there now, or with `wait` to its end.

    Parameters
    ----------
    job
        Over or not.
    task
        Whose text; None for that of all tasks.
    streams
        Those that are shown: ``stdout``, ``stderr``, or both.

    Raises
    ------
    CommandError
        The job has no such task.
    """
    check_task(task, job.status().logged, "--task")
    view = LogView(job, streams)
    try:
        which, colour = task or ALL, has_colour()
        follow(job, view, offset=offset, wait=wait, which=which, colour=colour)
    except KeyboardInterrupt:
        say(f"no longer following; job {job.id} goes on")
    finally:
        view.leave()


def follow_job(job: Job, interrupt: Interrupt, origin: str = "", which: str = FIRST) -> None:
    """Follow `job` in this cell until it is over; the cell's first interrupt cancels it.

    Parameters
    ----------
    origin
        Where the job was submitted, in words: ``In [3]``; empty where nobody knows.
    which
        Whose log is shown, of several tasks: as `submarine_engine.logs.follow` has it.

    Raises
    ------
    JobCancelledError
        The cell was interrupted twice: the job's end goes on by itself.
    SubmarineError
        The kernel is about to end: the job goes on without it.
    """
    view = CellView(job, interrupt, origin)
    try:
        left = _leaves(job, view, interrupt, which)
    except KernelEnds:
        view.leave()
        raise SubmarineError(
            "the kernel is shutting down; the job goes on",
            where=f"job {job.id}",
            fix=f"%submarine job attach {job.id} follows it again",
        ) from None
    finally:
        view.close()
    if left:
        view.leave()
        raise JobCancelledError(
            "the cell stopped waiting; the job is being cancelled",
            job_id=job.id,
            fix=f"%submarine job attach {job.id} shows how it ends",
        )


def _leaves(job: Job, view: CellView, interrupt: Interrupt, which: str) -> bool:
    """Follow `job`; return whether a second interrupt came before its end."""
    try:
        follow(job, view, which=which, colour=has_colour())
    except KernelEnds:
        raise
    except KeyboardInterrupt:
        if not view.cancelled:  # the second came before the first was taken up
            interrupt.wait_until_meant()
            view.cancel()
        return True
    return False


def attach(job: Job, offset: int = 0, which: str = FIRST) -> bool:
    """Follow `job` in this cell from byte `offset`; an interrupt leaves, and the job goes on.

    Parameters
    ----------
    which
        As for `follow_job`.

    Returns
    -------
    bool
        Whether the job is over.
    """
    view = CellView(job)
    try:
        follow(job, view, offset=offset, which=which, colour=has_colour())
    except KeyboardInterrupt:
        view.leave()
        say(f"no longer following; job {job.id} goes on")
        return False
    return True
