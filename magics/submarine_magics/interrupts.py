"""What an interrupt means while a cell follows its job: the first cancels, the second leaves."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from IPython import get_ipython

_SETTLES = 1.0
"""Seconds: a server that ends a kernel interrupts it first, and asks it to end right after."""


class KernelEnds(KeyboardInterrupt):
    """The interrupt was not for the cell: the kernel is about to end, and its job is to go on."""


class Interrupt:
    """Whether the user interrupted the cell."""

    def __init__(self) -> None:
        self.pending = False
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

    def settle(self) -> None:
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
                    time.sleep(0.02)
            except KernelEnds:
                raise
            except KeyboardInterrupt:
                continue
            return

    def on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's
        """Remember the first SIGINT, raise KeyboardInterrupt at the second."""
        self._at = time.monotonic()
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
