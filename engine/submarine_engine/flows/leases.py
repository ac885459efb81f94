"""Who sees a node or a run through, and nobody else meanwhile.

In a folder of this machine the kernel has a lock (`clusters.locks`), which falls free when its
holder ends. A storage has none, so there a lock is a folder of numbered files, its turns: whoever
makes the next number has it, and of all who try one does. The holder writes its turn anew every few
seconds, and says at its end that it is free. A holder is dead where its process is gone from this
very machine, or where its turn stays as it is for `EXPIRES` seconds by the clock of who waits: no
two clocks are compared. One that was only stopped for so long finds the next number when it goes
on, and does nothing more.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submarine_engine.clusters import locks
from submarine_engine.clusters.machine import boot_id, host, pid_namespace, process_stat
from submarine_engine.errors import JobError, SubmarineError
from submarine_engine.flows.folder import Place, RemotePath

EXPIRES = 30.0
"""Seconds without a sign of its holder after which a lock in a storage is free."""

_BEAT = 5.0  # six signs within that time: a NameNode that restarts may cost some of them
_NAP = 0.5  # seconds: a tenth of `_BEAT`; each look is a question to a storage
_WIDTH = 8
_LONGEST = 18  # digits of a number that no honest one comes to


class Lock:
    """A lock that this process has.

    Parameters
    ----------
    descriptor
        As of `locks.take`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def check(self) -> None:
        """Raise where somebody else has taken it meanwhile."""

    def drop(self) -> None:
        """Let it fall free."""
        locks.drop(self._descriptor)


def take(place: Place, *, wait: float = 0.0) -> Lock | None:
    """Take a lock.

    Parameters
    ----------
    place
        Its file; of a storage, its folder.
    wait
        Seconds to wait for the present holder; infinite for as long as it takes.

    Returns
    -------
    Lock or None
        None where somebody else still has it.

    Raises
    ------
    OSError, SubmarineError
        It cannot be made there.
    """
    if isinstance(place, RemotePath):
        return _Turns(place).take(wait)
    descriptor = locks.take(place, wait=wait)
    return None if descriptor is None else Lock(descriptor)


def take_left(place: Place) -> Lock | None:
    """Take a lock unless somebody seems to have it.

    One that was left by a holder that died elsewhere is waited for, until that is certain.

    Parameters
    ----------
    place
        As of `take`.
    """
    return take(place, wait=0.0 if is_held(place) else 2 * EXPIRES)


def is_held(place: Place) -> bool:
    """Return whether somebody has a lock, as far as is seen at once.

    Parameters
    ----------
    place
        As of `take`. In a storage, a holder elsewhere counts that has given a sign lately, by the
        clocks of both machines.
    """
    if isinstance(place, RemotePath):
        return _Turns(place).looks_held()
    return not locks.is_free(place)


def holder_of(place: Place) -> str:
    """Return in words who has a lock of a storage: ``, on worker-3``; empty where it is unsaid.

    Parameters
    ----------
    place
        The lock, as of `take`; of one on this machine nothing is said.
    """
    if isinstance(place, Path):
        return ""
    turns = _Turns(place)
    where = turns.read(turns.last()).get("host")
    return f", on {where:.80}" if isinstance(where, str) and where.isprintable() else ""


class LeaseLostError(JobError):
    """Another process has taken over what this one had stopped to see through."""


@dataclass(slots=True)
class _Lease(Lock):
    """A turn of this process, and the thread that gives its signs."""

    turns: _Turns
    number: int
    said: dict[str, Any]
    stop: threading.Event = field(default_factory=threading.Event)
    lost: bool = False
    thread: threading.Thread | None = None

    def start(self) -> _Lease:
        self.thread = threading.Thread(target=self._beat, name="flow lease", daemon=True)
        self.thread.start()
        return self

    def _beat(self) -> None:
        turns: _Turns | None = None
        heard = time.monotonic()
        while not self.stop.wait(_BEAT):
            with suppress(SubmarineError, OSError):  # the next one may come through
                # A thread talks by connections of its own.
                turns = turns or self.turns.again()
                if turns.last() > self.number:
                    self.lost = True
                    return
                self.said = {**self.said, "beat": self.said["beat"] + 1, "at": time.time()}
                turns.write(self.number, self.said)
                heard = time.monotonic()
            # The others count from the last sign that they saw, which is an older one.
            self.lost = time.monotonic() - heard > EXPIRES

    def check(self) -> None:
        """Raise where somebody else has taken it meanwhile."""
        if self.lost or self.turns.last() > self.number:
            raise LeaseLostError(
                "this process gave no sign for too long, and another one has taken over",
                where=str(self.turns.place),
                fix="see how far it is: submarine flow status FOLDER",
            )

    def drop(self) -> None:
        """Say that it is free."""
        self.stop.set()
        if self.thread is not None:
            self.thread.join()  # else its last sign might come after what is said here
        with suppress(SubmarineError, OSError):  # then it expires
            if not self.lost and self.turns.last() == self.number:
                self.turns.write(self.number, {"free": True})


@dataclass(frozen=True, slots=True)
class _Turns:
    """A lock in a storage.

    Parameters
    ----------
    place
        The folder of its turns.
    """

    place: RemotePath

    def again(self) -> _Turns:
        return _Turns(RemotePath(self.place.storage.again(), self.place.path))

    def last(self) -> int:
        names = (one.name for one in self.place.storage.list(self.place.path))
        return max((int(name) for name in names if _is_turn(name)), default=0)

    def read(self, number: int) -> dict[str, Any]:
        """Return what a turn says; nothing of one that is just being written."""
        try:
            data = json.loads((self.place / _named(number)).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    def write(self, number: int, said: dict[str, Any]) -> None:
        self.place.storage.write((self.place / _named(number)).path, json.dumps(said).encode())

    def take(self, wait: float) -> Lock | None:
        limit = time.monotonic() + wait
        seen: tuple[int, dict[str, Any]] | None = None
        since = 0.0
        while True:
            looked = time.monotonic()  # what is read now is no older: a waiter may be stopped, too
            number = self.last()
            said = self.read(number) if number else {"free": True}
            if (number, said) != seen:
                seen, since = (number, said), time.monotonic()
            expired = looked - since > EXPIRES
            if said.get("free") is True or _is_gone(said) or expired:
                lease = self._next(number)
                if lease is not None:
                    return lease
            if looked >= limit:
                return None
            time.sleep(_NAP)

    def _next(self, number: int) -> Lock | None:
        """Return the turn after one; None where somebody else was quicker."""
        mine, said = number + 1, _me()
        place = self.place / _named(mine)
        if not place.storage.create(place.path, json.dumps(said).encode()):
            return None
        if self.last() > mine:
            # It was had, and let go, since we looked: the file of an old turn is made once more.
            place.unlink()
            return None
        for one in self.place.storage.list(self.place.path):
            if _is_turn(one.name) and int(one.name) < mine:
                (self.place / one.name).unlink()
        return _Lease(self, mine, said).start()

    def looks_held(self) -> bool:
        number = self.last()
        said = self.read(number) if number else {"free": True}
        if said.get("free") is True or _is_gone(said):
            return False
        at = said.get("at")
        return not isinstance(at, (int, float)) or time.time() - at < EXPIRES


def _is_turn(name: str) -> bool:
    """Return whether that is the name of a turn; no honest one has come to more digits."""
    return name.isascii() and name.isdigit() and len(name) <= _LONGEST


def _named(number: int) -> str:
    return f"{number:0{_WIDTH}}"


def _me() -> dict[str, Any]:
    stat = process_stat(os.getpid())
    return {
        "owner": secrets.token_hex(8),  # of two processes that look alike, a waiter tells them
        "host": host(),
        "processes": _processes(),
        "pid": os.getpid(),
        "start": stat.start if stat else 0,
        "beat": 0,
        "at": time.time(),
    }


def _processes() -> str:
    """Return which table of processes this one is in: of a boot, and of a container."""
    namespace = pid_namespace()
    return f"{boot_id()}/{namespace}" if namespace else ""


def _is_gone(said: dict[str, Any]) -> bool:
    """Return whether a holder was a process of this machine, and is no more."""
    mine, pid = _processes(), said.get("pid")
    if not mine or said.get("processes") != mine or not isinstance(pid, int):
        return False
    found = process_stat(pid)
    return found is None or found.state == "Z" or found.start != said.get("start")
