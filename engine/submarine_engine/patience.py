"""A time limit for foreign code that runs in this process: what loads a pickle, or is a ``repr``.

It is the alarm signal, since foreign code that waits or goes round in circles can be left in no
other way. Code that holds Python's lock in C for ever ends by nothing but the process.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_AGAIN = 0.5  # seconds: code may pass over one alarm by a bare `except`
_SOON = 0.001  # zero would be no alarm at all


class TookTooLongError(BaseException):
    """Raised in the midst of code that takes longer than it may.

    No `Exception`: that is what such code often passes over.
    """


class Patience:
    """Ends the code of a ``with`` block that takes too long; outside the main thread, never.

    Its alarm takes the place of another one meanwhile, which comes afterwards where it was due.

    Parameters
    ----------
    seconds
        How long it may take.

    Raises
    ------
    TookTooLongError
        It has taken longer.

    Examples
    --------
    >>> with Patience(5.0) as patience:
    ...     text = repr(value)
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.over = False
        """Whether the time was over, whatever the code has made of that."""
        self._rings = False
        self._former: Any = None
        self._left = (0.0, 0.0)
        self._began = 0.0

    def __enter__(self) -> Patience:
        """Begin to count."""
        if threading.current_thread() is threading.main_thread():
            self._began = time.monotonic()
            self._former = signal.signal(signal.SIGALRM, self._ring)
            self._rings = True
            self._left = signal.setitimer(signal.ITIMER_REAL, self.seconds, _AGAIN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count no more."""
        try:
            self._rings = False
        finally:  # where an alarm comes right here, the next one is far behind it
            if self._former is not None:
                self._put_back()

    def _put_back(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._rings = False
        former, self._former = self._former, None
        signal.signal(signal.SIGALRM, former)
        left, every = self._left
        if left:
            left = max(_SOON, left - (time.monotonic() - self._began))
            signal.setitimer(signal.ITIMER_REAL, left, every)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not count what is done meanwhile, and let the rest begin anew."""
        if not self._rings:
            yield
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, self.seconds, _AGAIN)

    def _ring(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signals have it
        if self._rings:
            self.over = True
            raise TookTooLongError(f"it did not end within {self.seconds:g} s")
