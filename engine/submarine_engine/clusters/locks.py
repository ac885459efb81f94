"""File locks that the kernel takes back by itself, however their holder ends.

A lock (``flock``) belongs to the open file: every process that inherits the descriptor holds it,
and it falls free when the last of them has closed it or is gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from _thread import RLock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.errors import ClusterError

_PATIENCE = 10.0
_LONGEST_NAP = 0.02


def take(path: Path, *, wait: float = 0.0) -> int | None:
    """Open `path` and lock it.

    Parameters
    ----------
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
    """Close a descriptor that `take` gave; the lock is free where no other process has it."""
    with _no_fork:
        _opened.discard(descriptor)
        os.close(descriptor)


def share(descriptor: int) -> None:
    """Let forks keep a descriptor that `take` gave: they hold the lock, too."""
    with _no_fork:
        _opened.discard(descriptor)


def unlock(descriptor: int) -> None:
    """Close an inherited descriptor, and free its lock for whoever else has it open, too."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


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
    """Return whether nobody holds the lock of `path`; so too where there is no such file."""
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
