"""File locks that the kernel takes back by itself, however their holder ends.

A lock (``flock``) belongs to the open file: every process that inherits the descriptor holds it,
and it falls free when the last of them has closed it or is gone.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from _thread import RLock
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from submarine_engine.errors import ClusterError

_PATIENCE = 10.0  # seconds: locks are held for writing a file; longer is a process that is stopped
_LONGEST_NAP = 0.02  # seconds: fifty tries in one cost nothing, and the first ones come sooner


def take(path: Path, *, wait: float = 0.0) -> int | None:
    """Open `path` and lock it.

    Parameters
    ----------
    path
        The file; it is made where it is not there.
    wait
        Seconds to wait for the present holder.

    Returns
    -------
    int or None
        The descriptor that holds the lock; None where somebody else still holds it.

    Raises
    ------
    OSError
        `path` cannot be opened.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    limit = time.monotonic() + wait
    nap = 0.001
    try:
        while not _lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= limit:
                drop(descriptor)
                return None
            time.sleep(nap)
            nap = min(_LONGEST_NAP, nap * 2)
    except BaseException:
        drop(descriptor)
        raise
    return descriptor


def drop(descriptor: int) -> None:
    """Close a descriptor that `take` gave; the lock is free where no other process has it.

    Parameters
    ----------
    descriptor
        As `take` returned it.
    """
    with _no_fork:
        _opened.discard(descriptor)
        os.close(descriptor)


def share(descriptor: int) -> None:
    """Let forks keep a descriptor that `take` gave: they hold the lock, too.

    Parameters
    ----------
    descriptor
        As `take` returned it.
    """
    with _no_fork:
        _opened.discard(descriptor)


def unlock(descriptor: int) -> None:
    """Close an inherited descriptor, and free its lock for whoever else has it open, too.

    Parameters
    ----------
    descriptor
        As who took it had it.
    """
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):  # a file system without such locks has none to free
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _record(fcntl.F_UNLCK))
    os.close(descriptor)


# Locks that other users can see and cannot take. Whoever may read a file may ``flock`` it; a write
# lock of fcntl(2) needs a descriptor that may write. So one on a file of alice's that others may
# only read is alice's: nobody can make it look held, or keep it from falling free.

_RECORD = "hhqqi"  # struct flock: type, whence, start, length (0: all of it), pid


def _record(kind: int) -> bytes:
    return struct.pack(_RECORD, kind, os.SEEK_SET, 0, 0, 0)


def make_claimed(path: Path) -> int:
    """Make a file of this user's and lock it before anybody else can open it.

    The lock is as that of `take`: of the open file, and gone with its last descriptor.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    int
        The descriptor that holds the lock, see `drop` and `share`. The file is 0600.

    Raises
    ------
    OSError
        There is such a file already, or it cannot be made.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _record(fcntl.F_WRLCK))
    except BaseException:
        drop(descriptor)
        raise
    return descriptor


def is_claimed(descriptor: int) -> bool:
    """Return whether somebody who may write a file holds the lock of `make_claimed` on it.

    Parameters
    ----------
    descriptor
        The file, open to be read. What others have locked who may only read it does not count.
    """
    told = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _record(fcntl.F_RDLCK))
    return bool(struct.unpack(_RECORD, told)[0] == fcntl.F_WRLCK)


def _open(path: Path, flags: int) -> int:
    with _no_fork:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        _opened.add(descriptor)
    return descriptor


def _drop_in_fork() -> None:
    for descriptor in _opened:
        os.close(descriptor)
    _opened.clear()
    _no_fork.release()


# Another thread may fork (a worker of multiprocessing, a DataLoader) at any instruction here, and
# the fork has what is open at that moment: it would hold the lock for as long as it lives, also one
# that is only taken afterwards. So all that is open is noted, and no fork comes between the two.
_opened: set[int] = set()
_no_fork = RLock()  # one that the forking thread may hold: a signal's handler may fork, too
os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_drop_in_fork
)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock of `path` for the time of a ``with``.

    Parameters
    ----------
    path
        The file; it is made where it is not there.

    Raises
    ------
    ClusterError
        Somebody has held it for ten seconds: a process that is stopped, most likely.
    """
    descriptor = take(path, wait=_PATIENCE)
    if descriptor is None:
        raise ClusterError(
            f"another process has held the lock {path} for {_PATIENCE:g} s",
            fix=f"see who: `fuser {path}`; a stopped process (Ctrl-Z) goes on by `fg`",
        )
    try:
        yield
    finally:
        drop(descriptor)


def is_free(path: Path) -> bool:
    """Return whether nobody holds the lock of `path`; so too where there is no such file.

    Parameters
    ----------
    path
        The file.
    """
    try:
        descriptor = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor, fcntl.LOCK_SH)
    finally:
        drop(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
