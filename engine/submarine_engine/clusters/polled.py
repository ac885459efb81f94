"""What a cluster says of all its jobs or nodes, asked once for all threads that want to know."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

EVERY = 0.5
"""Seconds that an answer holds for those who are in no hurry."""

WORK = 20
"""Times what an answer took: the server works for us a twentieth of its time at most."""


class Polled(Generic[T]):
    """A question to a cluster, and its newest answer.

    Parameters
    ----------
    ask
        Asks it.
    holds
        Seconds that an answer holds at least, unless there is a hurry.
    soon
        Returns the seconds that it holds for those who are in a hurry, by the answer and the
        seconds that it took. No hurry is known unless it is given.
    work
        Times what an answer took that it holds besides; 0 for a question that costs little.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        *,
        holds: float = EVERY,
        soon: Callable[[T, float], float] | None = None,
        work: int = WORK,
    ) -> None:
        self._ask = ask
        self._holds, self._soon, self._work = holds, soon, work
        self._lock = threading.Lock()
        self._newest: tuple[float, float, T] | None = None  # when asked, what it took, the answer
        self._renews = False  # the next answer is on its way
        self._answers = True  # the last question had an answer

    def answer(self, *, since: float = -math.inf, hurry: bool = False) -> T:
        """Return the newest answer, or a newer one; raises what asking raises.

        While somebody asks, the answer before that holds for those who are in no hurry: hundreds
        who look after a job each would all wait, for what they need not know to the second. Not
        after a question that has failed: then all hear of it.

        Parameters
        ----------
        since
            Seconds of the monotonic clock; an answer to a question from before is none.
        hurry
            Whether it is worth a question now: somebody waits for the next step of a job.
        """
        newest = self._newest
        if newest is not None and self._renews and not hurry and newest[0] >= since:
            return newest[2]
        with self._lock:  # all jobs that wait look at once: one of them asks
            if self._newest is not None:
                asked_at, took, answer = self._newest
                pause = max(took * self._work, self._holds)
                if hurry and self._soon is not None:
                    pause = self._soon(answer, took)
                if asked_at >= since and time.monotonic() - asked_at <= pause:
                    return answer
            began = time.monotonic()
            self._renews = self._answers
            self._answers = False
            try:
                answer = self._ask()
                self._newest = began, time.monotonic() - began, answer
                self._answers = True
            finally:
                self._renews = False
            return answer


__all__ = ["EVERY", "WORK", "Polled"]
