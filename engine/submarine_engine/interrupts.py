"""Interrupts of whoever follows a job: the first is only noted, the second is an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar


class Interrupts:
    """Whether there was one, for a loop that looks between two items of a stream."""

    def __init__(self) -> None:
        self.pending = False

    def note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signal calls
        """Take one; the second is a `KeyboardInterrupt` like any other.

        Parameters
        ----------
        number, frame
            As `signal.signal` calls a handler; neither is looked at.
        """
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True


T = TypeVar("T", bound=Interrupts)


@contextmanager
def noted(interrupts: T) -> Iterator[T]:
    """Let SIGINT be noted by `interrupts`, instead of raised in the middle of anything.

    There, an exception would lose a job between its submission and the moment that its id is known,
    or text between the log and the screen. Signals come to the main thread alone: in another one
    nothing is noted.

    Parameters
    ----------
    interrupts
        What takes them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    former = signal.signal(signal.SIGINT, interrupts.note)
    try:
        yield interrupts
    finally:
        # None where the former one was not Python's: it cannot be set again.
        signal.signal(signal.SIGINT, signal.SIG_DFL if former is None else former)
