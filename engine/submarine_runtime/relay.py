"""Carries messages between a running YARN container and its application's master.

`eventpack` runs it in the process beside the task: questions, notices, and for a worker of a pool
its calls. The task itself would need a thread for that, and TLS among the modules of its code.
"""

from __future__ import annotations

import os
import time

from submarine_runtime import delegation, peer_failed
from submarine_runtime.call_frames import CALLS, TAKEN, take_in
from submarine_runtime.exchange import INSIDE, INSIDE_ASK, put
from submarine_runtime.lean import suppress
from submarine_runtime.notices import NOTICE
from submarine_runtime.sealing import KEY_FILE, unseal
from submarine_runtime.stacks import (
    ASK,
    ASK_MAIN,
    LARGEST,
    STACKS,
    forget_last,
    has_answered,
    used,
    with_use,
)

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from submarine_runtime.skein_store import Store

_EVERY = 0.4
"""Seconds between two looks, each one call of the application's master: whoever would go into a
task waits for the next one.
"""

_MANY = 80
"""Tasks of a job. Of more each looks less often: together they make 200 calls a second at most."""

_PATIENCE = 1.5
"""Seconds that a task has to write its stacks: less than the driver waits in all, since other
messages wait here meanwhile.
"""

_LOOK = 0.02  # seconds between two reads of the answer: it is whole once two of them are equal

_SOONEST, _LATEST, _LONGER = 0.02, 0.2, 1.2
"""How long a worker's calls are not asked for, each time a little longer while none come."""


class Relay:
    """Brings questions and notices from the application's master to a task, and its answers back.

    Parameters
    ----------
    job_id
        Whose task it is.
    folder
        The container's, where skein's credentials lie, too.
    task
        The task's process.
    environment
        What the task is given, which may be filled still.
    calls
        Whether it is a pool's worker, which is brought its calls.
    peers
        How many tasks the job has, which all ask one master.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        job_id: str,
        folder: str,
        task: int,
        environment: dict[str, str] | None = None,
        *,
        calls: bool = False,
        peers: int = 1,
    ) -> None:
        self._environment = environment or {}
        self._let_in = b""
        self._job_id, self._folder, self.task = job_id, folder, task
        self._store: Store | None = None
        self._calls = calls
        self._part: bytes | None = None
        self._rest = _SOONEST
        self._last: dict[str, bytes] = {}
        self._noticed = self._peer_failed = False
        self._token: bytes | None = None
        self._every = _EVERY * max(1.0, peers / _MANY)
        self._next = time.monotonic() + self._every  # the first line is not to wait for it

    def step(self) -> None:
        """Look whether somebody asks, where it is time for that."""
        if time.monotonic() < self._next:
            return
        with suppress(OSError, ValueError, KeyError):  # the master is away, or the disk is full
            self._poll()
        self._next = time.monotonic() + self._every

    def carry(self, otherwise: float) -> float:
        """Bring a worker its calls; return after how many seconds to look again.

        Parameters
        ----------
        otherwise
            The seconds for a task that is no worker.
        """
        if not self._calls:
            return otherwise
        self._rest = min(_LATEST, self._rest * _LONGER)
        with suppress(OSError, ValueError, KeyError):  # as above
            if self._part is None:
                self._part = self._opened().take(CALLS)
            if self._part is not None:
                # What the store has given out, it has no more: it is kept until it is written.
                size = take_in(f"{self._folder}/{CALLS}", self._part)
                self._part, self._rest = None, _SOONEST
                self._opened().say(TAKEN, b"%d" % size)
        return self._rest

    def _opened(self) -> Store:
        if self._store is None:
            from submarine_runtime.skein_store import Store  # noqa: PLC0415 - TLS takes 30 ms

            self._store = Store(self._job_id, self._folder)
        return self._store

    def _poll(self) -> None:
        carrier = self._opened()
        names = carrier.names()
        if NOTICE in names:
            self._bring_notice(carrier)
        if self._token is not None or delegation.TOKEN in names:
            self._bring_token(carrier)
        if peer_failed.ASK in names:
            self._bring_failure(carrier)
        if INSIDE_ASK in names:
            self._let_inside(carrier)
        for name in (ASK, ASK_MAIN):
            if name in names:
                self._bring_question(carrier, name)

    def _bring_notice(self, carrier: Store) -> None:
        if not self._noticed and (told := carrier.hear(NOTICE)):
            put(self._folder, NOTICE, told)
            self._noticed = True

    def _bring_token(self, carrier: Store) -> None:
        """Have the container ask HDFS by another token; what comes out of the store is kept."""
        self._token = carrier.take(delegation.TOKEN) or self._token
        if self._token is not None:
            tokens = self._environment.get(delegation.FILE, "")
            with suppress(ValueError, KeyError, TypeError):  # it is none
                # Sealed, as the first one came: the master shows on a page what its store has.
                with open(f"{self._folder}/{KEY_FILE}", "rb") as file:  # noqa: PTH123 - as above
                    told = unseal(self._token, file.read())
                delegation.accept(told, self._folder, tokens)
            self._token = None

    def _bring_failure(self, carrier: Store) -> None:
        """Have the task keep its frames where another one has failed, see `peer_failed`."""
        can = not self._peer_failed and os.path.isdir(f"{self._folder}/{peer_failed.ASKED}")  # noqa: PTH112 - pathlib is slow
        if can and (told := carrier.hear(peer_failed.ASK)):
            put(f"{self._folder}/{peer_failed.ASKED}", "frames", told)
            self._peer_failed = True

    def _let_inside(self, carrier: Store) -> None:
        asked = carrier.hear(INSIDE_ASK)
        if not asked or asked == self._let_in:
            return
        from submarine_runtime import inside  # noqa: PLC0415 - few jobs are gone into

        logs = self._environment["SUBMARINE_TASK_DIR"]
        task = inside.Task(logs, self.task, inside.with_gpus(self._environment, logs))
        # Its connection is no other process's; here it is kept, since another one takes a while.
        told = inside.begin_beside(task, self._folder, asked, carrier.close)
        carrier.say(INSIDE, told)
        self._let_in = asked

    def _bring_question(self, carrier: Store, name: str) -> None:
        asked = carrier.hear(name)
        place = f"{self._folder}/{name}".rpartition("/")[0]
        if not asked or asked == self._last.get(name) or not os.path.isdir(place):  # noqa: PTH112 - as above
            return
        carrier.say(STACKS, self._ask(asked, name, place))
        self._last[name] = asked

    def _ask(self, asked: bytes, name: str, place: str) -> bytes:
        if name == ASK:
            forget_last(self._folder)
        if not has_answered(self._folder):
            put(place, "stacks", asked)
        until, before = time.monotonic() + _PATIENCE, b""
        while time.monotonic() < until:
            time.sleep(_LOOK)
            with open(f"{self._folder}/{STACKS}", "rb") as file:  # noqa: PTH123 - as above
                told = file.read(LARGEST)
            if told and told == before:  # it is written in pieces
                break
            before = told
        return with_use(*used([self.task])[0], before)
