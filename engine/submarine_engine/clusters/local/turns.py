"""Whose turn it is where several users wait for one machine's GPUs.

Each user's jobs wait in a queue of their own (`scheduler`), whose keeper tells the machine what the
first of them waits for: a file of that user's, held as a lease is. So what a user who is gone has
told is void. Of those who wait, the one comes first who holds the least for his share, and among
these who had the least so far: round robin, by shares. Nobody is let past who could not have had
his GPUs otherwise, and nobody is waited for who does not take what is free.

What a user tells of himself is not trusted further than that: who tells lies is served no sooner
than by holding nothing, and is passed over where he does not take his turn.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.clusters import locks
from submarine_engine.clusters.local.leases import Lease
from submarine_engine.clusters.local.policy import Policy
from submarine_engine.clusters.machine import user_name_of
from submarine_engine.history import SPOILT, read_foreign, write_aside

_PATIENCE = 10.0
"""Seconds for which what is free is kept for who is before us: his keeper looks five times in one.
A process that is stopped keeps it no longer than that."""

_LOOK = 1.0
"""Of two looks that are further apart than that, no more time counts: we may have been stopped."""

_LARGEST = 64 * 1024
_MOST_GPUS = 1024


class Waiter(NamedTuple):
    """A user's queue, as its keeper tells of it.

    Parameters
    ----------
    uid
        Whose it is, as the kernel has it.
    gpus, pool
        What the first job of it waits for.
    jobs
        How many wait.
    served
        How many GPUs that user was given so far, by share: no whole number.
    since
        Since when the first waits, on the wall clock.
    home
        Where that user's jobs are kept, as told.
    """

    uid: int
    gpus: int
    pool: tuple[str, ...]
    jobs: int
    served: float
    since: float
    home: str = ""


class Turn(NamedTuple):
    """What stands between a job and its GPUs.

    Parameters
    ----------
    users
        Who comes before it, in order.
    room
        How many GPUs it may have besides those that it needs; less than 0 where it has to wait.
    at_most
        Whether its user holds as many GPUs as one may.
    """

    users: tuple[int, ...]
    room: int
    at_most: bool = False


class Turns:
    """Who waits on a machine.

    Parameters
    ----------
    folder
        Where keepers tell what their users wait for.
    note
        This user's file that says how much he was given so far.
    policy
        The machine's.
    home
        Where this user's jobs are kept.
    """

    def __init__(self, folder: Path, note: Path, policy: Policy, home: Path) -> None:
        self._home = str(home)
        self._folder, self._note, self.policy = folder, note, policy
        # A user may have more than one queue: homes are told apart by this.
        self._mark = f"{os.geteuid()}-{sha256(os.fsencode(note)).hexdigest()[:12]}-"
        self._path: Path | None = None
        self._descriptor: int | None = None
        self._told, self._length = b"", 0
        self._waits = False  # whether a keeper has told of this queue
        self._kept: Counter[int] = Counter()  # milliseconds that somebody could have taken his turn
        self._leases: dict[int, frozenset[str]] = {}
        self._last: dict[int, float] = {}  # when each user was given a GPU last
        self._looked = time.monotonic()
        self.place = 0
        """How many users were before this one at the last look."""

    def tell(self, gpus: int, pool: Sequence[str], jobs: int, since: float) -> None:
        """Tell what this user's first job waits for, for as long as this process lives.

        Parameters
        ----------
        gpus
            How many it needs.
        pool
            The ids of those that would do.
        jobs
            How many of this user's jobs wait.
        since
            Since when the first one waits, on the wall clock.

        Raises
        ------
        OSError
            The folder cannot be written.
        """
        if self._descriptor is None:
            self._tidy()
            self._keep_served(self._served(self.others()))
            self._path = self._folder / f"{self._mark}{os.urandom(6).hex()}"
            self._descriptor = locks.make_claimed(self._path)
            os.fchmod(self._descriptor, 0o640)
        told = {"gpus": gpus, "pool": list(pool), "jobs": jobs, "since": since, "home": self._home}
        content = json.dumps({**told, "served": self._own_served()}).encode()
        if content != self._told:
            # At once, with blanks over what was longer: nobody reads half of it.
            self._length = max(self._length, len(content))
            os.pwrite(self._descriptor, content.ljust(self._length), 0)
            self._told = content

    def withdraw(self) -> None:
        """Wait no more."""
        if self._descriptor is not None and self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            locks.drop(self._descriptor)
        self._descriptor, self._told, self._length = None, b"", 0

    def _tidy(self) -> None:
        """Remove what keepers of this queue have told that were killed."""
        for path in self._folder.glob(f"{self._mark}*"):
            with suppress(OSError):
                if path.lstat().st_uid == os.geteuid() and not _is_held(path):
                    path.unlink()

    def others(self) -> list[Waiter]:
        """Return who else waits."""
        found, waits = [], False
        with suppress(PermissionError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(*SPOILT):  # whatever another user has told, it stops nobody
                    waiter = _waiter(Path(entry.path))
                    ours = entry.name.startswith(self._mark)
                    if waiter and ours and waiter.uid == os.geteuid():
                        waits = True
                    elif waiter:
                        found.append(waiter)
        self._waits = waits
        return found

    def look(
        self, gpus: int, pool: Sequence[str], since: float, leases: Iterable[Lease], taken: set[str]
    ) -> Turn:
        """Return whether it is this user's turn.

        Parameters
        ----------
        gpus, pool, since
            What his first job needs, and since when.
        leases
            All of the machine.
        taken
            Which GPUs are not free, for whatever reason.
        """
        leases = list(leases)
        self._last = {}
        for lease in leases:
            self._last[lease.uid] = max(lease.since, self._last.get(lease.uid, 0.0))
        held = [lease for lease in leases if lease.held]
        count = Counter(lease.uid for lease in held)
        others = self.others()
        mine = Waiter(os.geteuid(), gpus, tuple(pool), 1, self._served(others), since)
        most = self.policy.most_gpus or _MOST_GPUS
        if count[mine.uid] + gpus > most:
            return Turn((), -1, at_most=True)
        self._forgive(held)
        free = [gpu for gpu in pool if gpu not in taken]
        kept, before = 0, []
        passed = time.monotonic() - self._looked
        self._looked = time.monotonic()
        for other in sorted(others, key=lambda one: self._order(one, count)):
            shared = set(other.pool) & set(pool)
            if self._order(other, count) >= self._order(mine, count) or not shared:
                continue
            if count[other.uid] + other.gpus > min(most, len(other.pool)):
                continue  # he waits for what he holds himself, or for more than there is
            if self._kept[other.uid] > _PATIENCE * 1000:
                continue
            before.append(other.uid)
            kept += other.gpus
            if sum(gpu not in taken for gpu in other.pool) >= kept:
                self._kept[other.uid] += int(min(passed, _LOOK) * 1000)
        self.place = len(before)
        room = len(free) - kept - gpus
        return Turn(tuple(before), min(room, most - count[mine.uid] - gpus))

    def _order(self, one: Waiter, held: Counter[int]) -> tuple[float, ...]:
        share = self.policy.share_of(user_name_of(one.uid))
        last = self._last.get(one.uid, 0.0)
        return (held[one.uid] / share, one.served, last, one.since, one.uid)

    def _forgive(self, held: Iterable[Lease]) -> None:
        """Wait again for users who have taken something since."""
        leases: dict[int, set[str]] = {}
        for lease in held:
            leases.setdefault(lease.uid, set()).add(lease.path.name)
        for uid, names in leases.items():
            if names - self._leases.get(uid, frozenset()):
                self._kept.pop(uid, None)
            self._leases[uid] = frozenset(names)

    def took(self, gpus: int) -> None:
        """Note that this user was given so many `gpus` now, which counts by the user's share."""
        share = self.policy.share_of(user_name_of(os.geteuid()))
        self._keep_served(self._served(self.others()) + gpus / share)

    def _keep_served(self, served: float) -> None:
        with suppress(OSError):  # a full disk costs an entry of the account
            write_aside(self._note, json.dumps(served).encode())

    def _own_served(self) -> float:
        with suppress(*SPOILT):
            return _number(json.loads(read_foreign(self._note, 100)))
        return 0.0

    def _served(self, others: Sequence[Waiter]) -> float:
        """Return what counts as given to this user.

        Who comes anew has no claim on what others had while he did not wait.
        """
        own = self._own_served()
        return own if self._waits else max(own, min([one.served for one in others], default=0.0))


def _is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return locks.is_claimed(descriptor)
    finally:
        os.close(descriptor)


def _waiter(path: Path) -> Waiter | None:
    """Return who waits by a file; None where its owner is gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or not locks.is_claimed(descriptor):
            return None
        told: Any = json.loads(os.read(descriptor, _LARGEST))
    finally:
        os.close(descriptor)
    gpus, pool = int(told["gpus"]), tuple(dict.fromkeys(map(str, told["pool"][:_MOST_GPUS])))
    jobs, served, since = int(told["jobs"]), _number(told["served"]), _number(told["since"])
    if not 0 < gpus <= len(pool) or jobs < 1:
        return None
    home = str(told.get("home", ""))
    return Waiter(seen.st_uid, gpus, pool, jobs, served, min(since, time.time()), home)


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]  # what is no number is refused here
    if not math.isfinite(number):
        raise ValueError("it is no number")
    return number
