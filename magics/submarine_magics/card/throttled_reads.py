"""Keeps what a card has read of a growing file, and reads it again after a while only."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")

_SHARE = 0.02
"""Of the time goes into looking, at most: a job may have many tasks, and large files."""


class ThrottledReads(Generic[Found]):
    """Keeps what was read last, for the jobs that were asked for last.

    Parameters
    ----------
    every
        Seconds between two looks at the same job, at least.
    most
        Jobs of which it is kept.
    """

    def __init__(self, every: float, most: int) -> None:
        self._every = every
        self._most = most
        self._kept: OrderedDict[str, tuple[float, Found]] = OrderedDict()

    def find(self, key: str, look: Callable[[Found | None], Found], *, anew: bool = False) -> Found:
        """Return what a look finds, or has found a moment ago.

        Parameters
        ----------
        key
            What is looked at.
        look
            Does it; it is given what was found last. Where it raises, nothing is kept.
        anew
            Whether to look in any case.
        """
        kept = self._kept.get(key)
        began = time.monotonic()
        if kept is not None and began < kept[0] and not anew:
            return kept[1]
        found = look(kept[1] if kept else None)
        pause = max(self._every, (time.monotonic() - began) / _SHARE)
        self._kept[key] = began + pause, found
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found
