"""The token by which the containers of a keeper ask HDFS: renewed, and replaced by another in time.

HDFS knows two times of a token: until when it counts unless it is renewed (a day, as Hadoop comes),
and until when it can be renewed at all (seven). With three quarters of the first behind it, it is
renewed, with three quarters of the second, there is another one: whoever has the old one has the
last quarter to hear of it. How the new one comes to a container, `submarine_runtime.delegation`
says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from submarine_runtime.delegation import Reader, read_token

from submarine_engine.errors import ClusterError, KerberosError, SubmarineError

_BEHIND = 0.75
_AGAIN = 5.0
"""Seconds until what failed is tried again: no ticket, or HDFS is away."""

_UNRENEWED = 86400.0
"""Seconds that a token counts which HDFS lets nobody renew: ``renew-interval`` as Hadoop comes."""


class Delegation:
    """The token of one user for one HDFS; several threads may ask for it.

    Parameters
    ----------
    call
        Asks HDFS: ``call("get")`` returns a new token as WebHDFS writes it,
        ``call("renew", token)`` until when it counts then, in milliseconds of HDFS's clock, and
        ``call("cancel", token)`` ends it.
    clock
        Seconds. By default those of this machine with its sleep, in which tokens grow old, too.
    """

    def __init__(
        self,
        call: Callable[..., object],
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._call = call
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._ahead = 0.0  # HDFS's clock, of ours
        self._renew_at = self._replace_at = self._ends_at = self._life = 0.0

    def current(self) -> str:
        """Return the token, renewed or another one where it is time for that.

        Raises
        ------
        SubmarineError
            There is none that counts, and none to be had.
        """
        with self._lock:
            now = self._clock()
            try:
                if not self._token or now >= self._replace_at:
                    self._take(now)
                elif now >= self._renew_at:
                    self._renew(now)
            except SubmarineError:
                if not self._token or now >= self._ends_at:
                    raise
                self._renew_at = max(self._renew_at, now + _AGAIN)
                self._replace_at = max(self._replace_at, now + _AGAIN)
            return self._token

    def forget(self, token: str) -> None:
        """Have another one next: HDFS does not know this one, or not any more."""
        with self._lock:
            if token == self._token:
                self._token = ""

    def give_back(self) -> None:
        """Tell HDFS that nobody has the token; no-op where there is none, or HDFS does not hear."""
        with self._lock:
            if self._token:
                with suppress(SubmarineError):
                    self._call("cancel", self._token)
                self._token = ""

    @property
    def life(self) -> float:
        """Seconds in which a token can be renewed at all, from when it is given; 0 unless known."""
        with self._lock:
            return self._life

    def _take(self, now: float) -> None:
        token = str(self._call("get"))
        issued, last = read_life(token)
        self._token, self._ahead, self._life = token, issued - now, last - issued
        try:
            # Until when it counts as it is, HDFS says to who renews it, and to nobody else.
            self._count(now)
        except KerberosError:
            raise
        except SubmarineError:
            last = min(last, issued + _UNRENEWED)
            self._ends_at = self._renew_at = last - self._ahead
        self._replace_at = now + _BEHIND * (last - issued)

    def _renew(self, now: float) -> None:
        try:
            self._count(now)
        except KerberosError:
            raise
        except SubmarineError:  # it has ended while this machine slept, or HDFS has forgotten it
            self._take(now)

    def _count(self, now: float) -> None:
        """Renew the token, and note until when it counts."""
        until = float(str(self._call("renew", self._token))) / 1000
        self._ends_at = until - self._ahead
        self._renew_at = now + _BEHIND * (self._ends_at - now)


def read_life(token: str) -> tuple[float, float]:
    """Return when a token was given, and when its last renewal ends: seconds of HDFS's clock.

    Raises
    ------
    ClusterError
        It is no token of HDFS, as its ``DelegationTokenIdentifier`` writes them.
    """
    try:
        reader = Reader(read_token(token).identifier)
        reader.take(1)  # the version of what follows
        for _ in range(3):  # whose it is, who renews it, and on whose behalf
            reader.text()
        return reader.number() / 1000, reader.number() / 1000
    except ValueError as error:
        raise ClusterError(
            "HDFS's delegation token cannot be read",
            where="HDFS",
            fix="see whether a Hadoop 3 answers there (submarine doctor --cluster yarn)",
        ) from error
