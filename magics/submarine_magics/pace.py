"""Keeps what the kernel sends below the rates at which a Jupyter server drops messages.

A server that sees more than 1 MB/s of output over 3 s (``iopub_data_rate_limit``) drops *every*
message for a while, the final state too. 600 kB/s with a burst of 1 MB stays below it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

RATE = 600_000
BURST = 1_000_000


class Pace:
    """A budget of bytes that refills at `rate` up to `burst`.

    Parameters
    ----------
    rate
        Bytes per second.
    burst
        Bytes that may go at once after a pause.
    clock, sleep
        Of `time`; a test brings its own.
    """

    def __init__(
        self,
        rate: float = RATE,
        burst: float = BURST,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._left = burst
        self._at = clock()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may go; more than a burst at once leaves a debt."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - size
        self._at = now
        if self._left < 0:
            self._sleep(-self._left / self._rate)

    def tight(self) -> bool:
        """Return whether so much went lately that a server might have dropped messages."""
        return self._left + (self._clock() - self._at) * self._rate < self._burst / 2


shared = Pace()
"""One budget for the whole kernel: the server counts all of its cells together."""
