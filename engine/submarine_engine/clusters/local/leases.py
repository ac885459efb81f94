"""Who holds which GPU: a lease is a lock on a file, gone with the last process that has it.

`Leases` are those of one user. On a machine that is shared (`shared`) they are `SharedLeases`:
files of several users in one folder, which everybody sees and nobody can take from another.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.clusters import locks
from submarine_engine.clusters.local.gpus import used_by_others
from submarine_engine.clusters.machine import has_other_people, user_name_of
from submarine_engine.history import SPOILT, is_job_id, make_private

# Leases of one user: one locked file a GPU.
#
# A lease is the lock on the GPU's file. The descriptor is inherited by the job's supervisor and by
# the task, so the GPU falls free when the last of them is gone, killed with -9 or not. Nothing has
# to be cleaned up, and what the file says is only for people.
#
# Leases are taken and looked at under the queue's lock, which keeps two takers apart.


_LONGEST_LABEL = 200


class Holder(NamedTuple):
    """Who holds a GPU, as the lease's file tells; all empty where it cannot be read.

    Parameters
    ----------
    job_id, name
        The job; both empty where it is another user's.
    user
        Another user's name; empty for our own.
    """

    job_id: str
    name: str
    user: str = ""

    def __str__(self) -> str:
        if self.user:
            return self.user
        return f"{self.name!r} (…{self.job_id[-5:]})" if self.job_id else "another process"


class Leases:
    """The leases of one machine.

    Parameters
    ----------
    folder
        Where the files are; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(  # noqa: PLR0913 - what is wanted, each part by its name
        self,
        pool: Sequence[str],
        count: int,
        holder: Holder,
        is_over: Callable[[str], bool] = lambda _: True,
        *,
        more: int = 0,
        step: int = 1,
    ) -> dict[str, int] | None:
        """Take `count` GPUs of `pool`, all or none.

        Parameters
        ----------
        pool
            The ids of the GPUs that are considered.
        count
            How many.
        holder
            Who is to hold them.
        is_over
            Asked with the id of the job that held a GPU before: whether nothing of it is left that
            could still use that GPU. The lock alone does not tell, since a process may have closed
            its descriptors.
        more, step
            How many besides at most, where they are free: `step` or a multiple of it.

        Returns
        -------
        dict or None
            Locked descriptors by GPU id; None where too few are free.
        """
        make_private(self._folder)
        taken: dict[str, int] = {}
        # Nobody shares this machine by a queue: what others compute on is still the worst choice.
        # Only where there is a choice, and others: to ask NVML takes a while.
        if len(pool) > count and has_other_people() and (used := used_by_others(pool)):
            pool = sorted(pool, key=used.__contains__)
        with releasing_on_error(taken):
            for gpu in pool:
                if len(taken) == count + more:
                    break
                descriptor = locks.take(self._folder / gpu)
                if descriptor is None:
                    continue
                taken[gpu] = descriptor
                former = os.pread(descriptor, _LONGEST_LABEL, 0).decode(errors="replace")
                if former and not is_over(former.partition(" ")[0]):
                    locks.drop(taken.pop(gpu))
            if not _keep_whole(taken, count, step):
                return None
            label = f"{holder.job_id} {holder.name}"[:_LONGEST_LABEL].encode()
            for descriptor in taken.values():
                # A full disk costs the label, never the lease.
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, label, 0)
        return taken

    def holders(self, pool: Sequence[str]) -> dict[str, Holder | None]:
        """Return who holds each GPU of `pool`; None where it is free."""
        return {gpu: self._holder(self._folder / gpu) for gpu in pool}

    def _holder(self, path: Path) -> Holder | None:
        if locks.is_free(path):
            return None
        try:
            job_id, _, name = path.read_text(errors="replace").partition(" ")
        except OSError:
            return Holder("", "")
        return Holder(job_id, name)


def _keep_whole(taken: dict[str, int], count: int, step: int) -> bool:
    """Let go of what `count` and a multiple of `step` leave over; of all, and False, if too few."""
    if len(taken) < count:
        release_lease(taken)
        return False
    while (len(taken) - count) % step:
        locks.drop(taken.popitem()[1])
    return True


def release_lease(leases: dict[str, int]) -> None:
    """Close the descriptors in `leases`, by GPU, and empty it.

    The GPUs are free where no other process has inherited them.
    """
    while leases:
        locks.drop(leases.popitem()[1])


@contextmanager
def releasing_on_error(leases: dict[str, int]) -> Iterator[None]:
    """Release `leases` where what is done meanwhile fails.

    Nothing else would: a descriptor that is forgotten stays open, and its GPU held, for as long as
    this process lives.

    Parameters
    ----------
    leases
        Locked descriptors by GPU id, of which there may come more meanwhile.
    """
    try:
        yield
    except BaseException:
        release_lease(leases)
        raise


# Leases of a machine's users: a file of the holder's own for each time that a GPU was taken.
#
# ``GPU.N`` is the N-th lease of a GPU. Whose it is the file's owner says, nothing that it holds.
# The folder is sticky, so nobody else can remove or rename it. It is held as long as its owner's
# lock is on it (`locks.make_claimed`), which nobody else can put there, or keep there. To take a
# GPU that is free is to make the file with the next number, which one alone can do: no lock stands
# before that which anybody could keep for himself. A file that is no lease, with whatever it holds,
# is passed over.


PLACE = Path("/var/lib/submarine")
VARIABLE = "SUBMARINE_MACHINE_FOLDER"
"""Names another folder, for tests and for machines whose ``/var`` is lost at each start."""


def machine_folder() -> Path:
    """Return where the folder of a machine that users share is, whether there is one or not."""
    return Path(os.environ.get(VARIABLE) or PLACE)


def is_shared() -> bool:
    """Return whether there is such a folder; what is in it `shared.shared_machine` looks at."""
    return os.path.lexists(f"{os.environ.get(VARIABLE) or PLACE}/leases")


_SLOT = re.compile(r"([A-Za-z0-9_-]{1,80})\.([1-9][0-9]{0,15})")
_LARGEST = 4096
_STALE = 60.0
"""Seconds after which what a taker that was killed has left half made is removed."""


class Lease(NamedTuple):
    """A lease of a GPU by one of the machine's users.

    Parameters
    ----------
    gpu, number
        Which GPU, and for the how manyth time it was taken.
    uid
        The holder's, as the kernel has it.
    since
        When it was taken, on the wall clock.
    held
        Whether a process of the holder's still has it.
    path
        The file.
    """

    gpu: str
    number: int
    uid: int
    since: float
    held: bool
    path: Path

    def holder_notes(self) -> dict[str, Any]:
        """Return what its holder says of it; not more than that: `job` is an id, `home` a text."""
        with suppress(*SPOILT):
            descriptor = os.open(self.path, _FOREIGN)
            try:
                found = json.loads(os.read(descriptor, _LARGEST))
            finally:
                os.close(descriptor)
            if isinstance(found, dict) and is_job_id(str(found.get("job"))):
                return {"job": str(found["job"]), "home": str(found.get("home", ""))[:_LARGEST]}
        return {}


_FOREIGN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SharedLeases(Leases):
    """The leases of a machine that several users share.

    Parameters
    ----------
    folder
        That of all users' leases.
    own
        Of the leases that this user had before the machine was shared: jobs that still run have
        some.
    home
        Where this user's jobs are kept.
    """

    def __init__(self, folder: Path, own: Path, home: Path) -> None:
        super().__init__(own)
        self._shared = folder
        self._home = home
        self._void: set[tuple[str, int]] = set()

    def look(self) -> list[Lease]:
        """Return all leases, those that are over, too."""
        found = []
        known = set()
        # Who is no member of the group sees nothing, and is refused where he asks for GPUs.
        with suppress(PermissionError), os.scandir(self._shared) as entries:
            for entry in entries:
                if lease := self._lease(entry):
                    found.append(lease)
                    known.add((entry.name, entry.inode()))
        self._void &= known
        return found

    def _lease(self, entry: os.DirEntry[str]) -> Lease | None:
        """Return what a file is; None for what is no lease, or is gone."""
        named = _SLOT.fullmatch(entry.name)
        if named is None:
            return None
        try:
            seen = entry.stat(follow_symlinks=False)
            number = int(named[2])
            # One more each time: no honest number is beyond the microseconds since 1970, and so
            # nobody can use all numbers up.
            if not stat.S_ISREG(seen.st_mode) or number > seen.st_ctime_ns // 1000:
                return None
            held = self._is_held(Path(entry.path), (entry.name, seen.st_ino))
        except OSError:
            return None
        return Lease(named[1], number, seen.st_uid, seen.st_ctime, held, Path(entry.path))

    def _is_held(self, path: Path, known: tuple[str, int]) -> bool:
        """Return whether the owner holds the file; once it was let go, it stays so."""
        if known in self._void:
            return False
        try:
            descriptor = os.open(path, _FOREIGN)
        except PermissionError:  # nobody can tell that it is held: then it is not
            return False
        try:
            held = locks.is_claimed(descriptor)
        finally:
            os.close(descriptor)
        if not held:
            self._void.add(known)
        return held

    def take(  # noqa: PLR0913 - as there
        self,
        pool: Sequence[str],
        count: int,
        holder: Holder,
        is_over: Callable[[str], bool] = lambda _: True,
        *,
        more: int = 0,
        step: int = 1,
    ) -> dict[str, int] | None:
        """Take `count` GPUs of `pool`, all or none, see `Leases.take`."""
        seen: dict[str, list[Lease]] = {}
        for lease in self.look():
            seen.setdefault(lease.gpu, []).append(lease)
        elsewhere = used_by_others(pool)
        taken: dict[str, int] = {}
        with releasing_on_error(taken):
            for gpu in pool:
                if len(taken) == count + more:
                    break
                if gpu in elsewhere or not locks.is_free(self._folder / gpu):
                    continue
                descriptor = self._take(gpu, seen.get(gpu, ()), holder, is_over)
                if descriptor is not None:
                    taken[gpu] = descriptor
            if not _keep_whole(taken, count, step):
                return None
            self._tidy(seen)
        return taken

    def _take(
        self,
        gpu: str,
        seen: Iterable[Lease],
        holder: Holder,
        is_over: Callable[[str], bool],
    ) -> int | None:
        last = 0
        for lease in seen:
            if lease.held:
                return None
            last = max(last, lease.number)
            if lease.uid == os.geteuid():
                former = lease.holder_notes().get("job")
                if former and not is_over(former):
                    return None
        aside = self._shared / f".{os.getpid()}.{os.urandom(8).hex()}"
        descriptor = locks.make_claimed(aside)
        try:
            told = {"job": holder.job_id, "home": str(self._home)}
            with suppress(OSError):  # a full disk costs what is told, never the lease
                os.pwrite(descriptor, json.dumps(told).encode()[:_LARGEST], 0)
            os.fchmod(descriptor, 0o640)  # the group's, as the folder's setgid bit says
            is_ours = self._link(aside, gpu, last + 1)
            aside.unlink(missing_ok=True)
        except BaseException:
            locks.drop(descriptor)
            aside.unlink(missing_ok=True)
            raise
        if not is_ours:
            locks.drop(descriptor)
            return None
        return descriptor

    def _link(self, aside: Path, gpu: str, number: int) -> bool:
        """Make a file the GPU's lease of a number, or the next; False where somebody was sooner."""
        while True:
            place = self._shared / f"{gpu}.{number}"
            try:
                os.link(aside, place)
                break
            except FileExistsError:
                if not self._is_passed_over(place):
                    return False
                number += 1
        # One who looked long ago may come to a number that was used, and removed, meanwhile.
        if any(lease.number > number for lease in self.look() if lease.gpu == gpu):
            place.unlink(missing_ok=True)
            return False
        return True

    def _is_passed_over(self, place: Path) -> bool:
        """Return whether what has the next number is no lease: somebody would keep others out."""
        try:
            seen = place.lstat()
        except OSError:
            return False
        return not stat.S_ISREG(seen.st_mode) or int(place.suffix[1:]) > seen.st_ctime_ns // 1000

    def _tidy(self, seen: Mapping[str, Sequence[Lease]]) -> None:
        """Remove this user's leases that are over, but for the newest of each GPU."""
        for leases in seen.values():
            newest = max(lease.number for lease in leases)
            for lease in leases:
                if lease.uid == os.geteuid() and not lease.held and lease.number < newest:
                    with suppress(OSError):
                        lease.path.unlink()
        with suppress(OSError), os.scandir(self._shared) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    continue
                with suppress(OSError):
                    made = entry.stat(follow_symlinks=False)
                    if made.st_uid == os.geteuid() and time.time() - made.st_mtime > _STALE:
                        os.unlink(entry.path)  # noqa: PTH108 - an entry's

    def holders(self, pool: Sequence[str]) -> dict[str, Holder | None]:
        """Return who holds each GPU of `pool`; None where it is free."""
        found: dict[str, Holder | None] = super().holders(pool)
        for gpu, uid in used_by_others(pool).items():
            found[gpu] = Holder("", "", user_name_of(uid))
        for lease in self.look():
            if not lease.held or lease.gpu not in found:
                continue
            if lease.uid == os.geteuid():
                found[lease.gpu] = self._own(lease)
            else:
                found[lease.gpu] = Holder("", "", user_name_of(lease.uid))
        return found

    def _own(self, lease: Lease) -> Holder:
        job_id = lease.holder_notes().get("job", "")
        name = ""
        if job_id:
            from submarine_engine.history import JobPaths, read_json  # noqa: PLC0415 - for people

            with suppress(OSError, ValueError):
                name = str((read_json(JobPaths(self._home, job_id).status) or {}).get("name", ""))
        return Holder(job_id, name)
