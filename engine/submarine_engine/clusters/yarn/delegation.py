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
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from submarine_runtime.delegation import Reader, read_token

from submarine_engine.errors import ClusterError, KerberosError, SubmarineError

_BEHIND = 0.75  # of a token's life: the last quarter is for trying again while HDFS is away
_AGAIN = 5.0
"""Seconds until what failed is tried again by who does not wait: no ticket, or HDFS is away."""

_UNRENEWED = 86400.0
"""Seconds that a token counts which HDFS lets nobody renew: ``renew-interval`` as Hadoop comes."""


class _Held(NamedTuple):
    """A token, and on our clock when it is renewed, when replaced, and when it ends."""

    token: str = ""
    ahead: float = 0.0
    """What HDFS's clock is ahead of ours."""
    renew_at: float = 0.0
    replace_at: float = 0.0
    ends_at: float = 0.0
    life: float = 0.0
    """In which it can be renewed at all, from when it was given."""

    def counts(self, now: float) -> bool:
        return now < self.ends_at

    def is_due(self, now: float) -> bool:
        return now >= min(self.renew_at, self.replace_at)


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


class Delegation:
    """The token of one user for one HDFS; every job of a keeper asks for it, each in its thread.

    Of all that find it due one question goes to HDFS. Nobody waits for the answer while the token
    counts: a NameNode that is slow or silent keeps no job from what else it does.

    Parameters
    ----------
    call
        Asks HDFS: ``call("get")`` returns a new token as WebHDFS writes it,
        ``call("renew", token)`` until when it counts then, in milliseconds of HDFS's clock, and
        ``call("cancel", token)`` ends it.
    clock
        Seconds. By default those of this machine with its sleep, in which tokens grow old, too.
    begin
        Begins work beside the caller; by default in a thread of its own.
    """

    def __init__(
        self,
        call: Callable[..., object],
        clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        begin: Callable[[Callable[[], None]], object] = _in_a_thread,
    ) -> None:
        self._call = call
        self._clock = clock
        self._begin = begin
        self._lock = threading.Lock()
        self._held = _Held()
        self._asking: Future[None] | None = None  # done with the answer, whatever that is
        self._wrong: SubmarineError | None = None
        self._again_at = float("-inf")

    def current(self, *, wait: bool = True) -> str:
        """Return the token; where it is time for that, it is renewed or replaced meanwhile.

        Parameters
        ----------
        wait
            Whether to wait for HDFS where there is none that counts. Who does not asks again later.

        Raises
        ------
        SubmarineError
            There is none that counts, and none to be had; without `wait`, or none yet.
        """
        for _ in range(2):  # what one waits for may be forgotten meanwhile
            with self._lock:
                now = self._clock()
                waits = wait and not self._held.counts(now)
                # Who waits gets an answer of their own: there may be a ticket since the last one.
                mine = self._asking is None and (waits or now >= self._again_at)
                if mine := mine and self._held.is_due(now):
                    self._asking = Future()
                asking = self._asking
            if mine and asking is not None:
                try:
                    self._begin(partial(self._ask, asking))
                except RuntimeError:  # no more threads: the next one asks, and nobody waits for it
                    with self._lock:
                        self._asking = None
                    asking.set_result(None)
                    raise
            if waits and asking is not None:
                asking.result()
            with self._lock:
                if self._held.counts(self._clock()):
                    return self._held.token
                wrong = self._wrong
            if not waits or wrong is not None:
                break
        wrong = wrong or ClusterError("HDFS has not given a token yet", where="HDFS")
        raise wrong.with_traceback(None)

    def forget(self, token: str) -> None:
        """Have another one next where `token` is held: HDFS does not know it, or not any more."""
        with self._lock:
            if token == self._held.token:
                self._held = _Held(life=self._held.life)

    def give_back(self) -> None:
        """Tell HDFS that nobody has the token; no-op where there is none, or HDFS does not hear."""
        with self._lock:
            token, self._held = self._held.token, _Held(life=self._held.life)
        if token:
            with suppress(SubmarineError):
                self._call("cancel", token)

    @property
    def life(self) -> float:
        """Seconds in which a token can be renewed at all, from when it is given; 0 unless known."""
        with self._lock:
            return self._held.life

    def _ask(self, asking: Future[None]) -> None:
        """Renew the token or get another one, and tell who waits for it."""
        held = former = self._held
        wrong: SubmarineError | None = None
        try:
            now = self._clock()
            held = self._take(now) if now >= held.replace_at else self._renew(held, now)
        except SubmarineError as error:
            wrong = error
        except Exception as error:  # noqa: BLE001 - whoever waits must not wait for ever
            wrong = ClusterError(f"{type(error).__name__}: {error}", where="HDFS")
        with self._lock:
            if held.token != former.token or self._held is former:
                self._held = held  # else it was forgotten meanwhile
            self._wrong, self._asking = wrong, None
            if wrong is not None:
                self._again_at = self._clock() + _AGAIN
        asking.set_result(None)

    def _take(self, now: float) -> _Held:
        token = str(self._call("get"))
        issued, last = read_life(token)
        life = last - issued
        held = _Held(token, issued - now, replace_at=now + _BEHIND * life, life=life)
        try:
            # Until when it counts as it is, HDFS says to who renews it, and to nobody else.
            return self._counted(held, now)
        except KerberosError:
            raise
        except SubmarineError:
            ends_at = min(last, issued + _UNRENEWED) - held.ahead
            return held._replace(ends_at=ends_at, renew_at=ends_at)

    def _renew(self, held: _Held, now: float) -> _Held:
        try:
            return self._counted(held, now)
        except KerberosError:
            raise
        except SubmarineError:  # it has ended while this machine slept, or HDFS has forgotten it
            return self._take(now)

    def _counted(self, held: _Held, now: float) -> _Held:
        """Renew a token, and note until when it counts."""
        until = float(str(self._call("renew", held.token))) / 1000
        ends_at = until - held.ahead
        return held._replace(ends_at=ends_at, renew_at=now + _BEHIND * (ends_at - now))


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
