"""What is made once for all clusters of a user, and kept in the cache: jars, programs."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.errors import ClusterError


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of all that is kept.

    Parameters
    ----------
    environment
        Says where caches are; that of this process unless given.
    """
    environment = os.environ if environment is None else environment
    cache = Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()
    return cache / "submarine"


def find_maker(name: str, environment: Mapping[str, str], what: str, fix: str) -> str:
    """Return the path of the program that makes something.

    Parameters
    ----------
    name
        The program.
    environment
        Has the PATH to look on.
    what
        Says in the error which program that is, and what it is for.
    fix
        What to do where it is missing.

    Raises
    ------
    ClusterError
        It is missing.
    """
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        raise ClusterError(what, where="PATH", fix=fix)
    return found


def make_once(folder: Path, make: Callable[[Path], Path]) -> None:
    """Have a folder be there, whole: made aside, by one process, unless another has made it.

    What an interrupted one has left is removed. Whoever comes meanwhile waits however long that
    takes.

    Parameters
    ----------
    folder
        What is made.
    make
        Makes it in the empty folder that it is given, and returns which folder of that it is.

    Raises
    ------
    OSError
        The cache cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        if folder.is_dir():
            return
        for left in folder.parent.glob("making-*"):
            shutil.rmtree(left)
        aside = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
        try:
            make(aside).rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder however long another has it: a fetch may take minutes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


__all__ = ["cache_folder", "find_maker", "make_once"]
