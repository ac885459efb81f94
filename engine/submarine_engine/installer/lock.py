"""One process at a time works on a cluster; the lock's file is gone with the cluster."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.errors import ClusterError

PATIENCE = 900.0

_NAP = 0.1


@contextmanager
def alone(path: Path, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock `path` for the time of a ``with``; whoever holds it may remove its file.

    Parameters
    ----------
    patience
        Seconds to wait for another holder, who may be fetching jars.

    Raises
    ------
    ClusterError
        Another still holds it.
    OSError
        The folder of `path` cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    end = time.monotonic() + patience
    while (descriptor := _take(path)) is None:
        if time.monotonic() > end:
            raise ClusterError(
                f"another process has worked on this cluster for {patience:g} s",
                where=str(path),
                fix=f"see who: `fuser {path}`",
            )
        time.sleep(_NAP)
    try:
        yield
    finally:
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """Return a descriptor that holds the lock; None where another has it or has just removed it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the last cluster of the home is going down
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
