"""File locks that the kernel takes back by itself, however their holder ends.

A lock (``flock``) belongs to the open file: every process that inherits the descriptor holds it,
and it falls free when the last of them has closed it or is gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.errors import ClusterError

_PATIENCE = 10.0
_LONGEST_NAP = 0.02
_taken: set[int] = set()


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
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    limit = time.monotonic() + wait
    nap = 0.001
    try:
        while not _lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() >= limit:
                os.close(descriptor)
                return None
            time.sleep(nap)
            nap = min(_LONGEST_NAP, nap * 2)
    except BaseException:
        os.close(descriptor)
        raise
    _taken.add(descriptor)
    return descriptor


def drop(descriptor: int) -> None:
    """Close a descriptor that `take` gave; the lock is free where no other process has it."""
    _taken.discard(descriptor)
    os.close(descriptor)


def _drop_in_fork() -> None:
    # Another thread may fork (a worker of multiprocessing) just while a lock is held here: the
    # fork would hold it for as long as it lives.
    for descriptor in _taken:
        os.close(descriptor)
    _taken.clear()


os.register_at_fork(after_in_child=_drop_in_fork)


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
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
