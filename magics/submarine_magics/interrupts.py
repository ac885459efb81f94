"""What an interrupt means while a cell follows its job: the first cancels, the second leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user interrupted the cell."""

    def __init__(self) -> None:
        self.pending = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        """Remember the first SIGINT, raise KeyboardInterrupt at the second."""
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True


@contextmanager
def held_interrupts() -> Iterator[Interrupt]:
    """Hold back the first SIGINT: it is only remembered; the second raises KeyboardInterrupt.

    An exception in the middle of anything would lose a job between its submission and the moment
    that we know its id, or text between the log and the cell. In a thread that is not the main one
    (a subshell of the kernel) signals do not arrive, and nothing is held.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    former = signal.signal(signal.SIGINT, interrupt.on_signal)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, former)
