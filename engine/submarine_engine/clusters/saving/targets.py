"""Where a model is brought to: written aside, and there whole or not at all."""

from __future__ import annotations

import errno
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from submarine_engine.errors import SaveError


class Target(Protocol):
    """A folder that a model is brought to."""

    @property
    def name(self) -> str:
        """The folder, as the user calls it."""

    def begin(self) -> Path:
        """Return an empty folder of this machine to write the files into.

        Raises
        ------
        SaveError
            There is something at the path already.
        OSError, ClusterError, SubmissionError
            It cannot be written.
        """

    def commit(self) -> None:
        """Put the files into their place; raises as `begin` does."""

    def discard(self) -> None:
        """Remove what `begin` made, where it is there yet."""


class FolderTarget:
    """A folder of this machine.

    Parameters
    ----------
    path
        Absolute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside: Path | None = None

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self._path)

    def begin(self) -> Path:
        """Make a folder beside the one that is meant."""
        if self._path.is_symlink() or (self._path.exists() and not _is_empty(self._path)):
            raise occupied(self.name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_name(f".{self._path.name[:100]}.{secrets.token_hex(4)}.part")
        aside.mkdir(mode=0o700)
        self._aside = aside
        return aside

    def commit(self) -> None:
        """Rename it; an empty folder gives way."""
        if self._aside is not None:
            try:
                self._aside.rename(self._path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise occupied(self.name) from error
                raise
            self._aside = None
            with suppress(OSError):  # the mode that any new folder of the user's would have
                self._path.chmod(0o777 & ~_umask())

    def discard(self) -> None:
        """Remove the folder beside it."""
        if self._aside is not None:
            shutil.rmtree(self._aside, ignore_errors=True)
            self._aside = None


def _umask() -> int:
    """Return the process's umask, see proc(5): to ask by `os.umask` changes it for other threads.

    Raises
    ------
    OSError
        There is no ``/proc``.
    """
    found = re.search(r"^Umask:\s*(\d+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else 0o077


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def occupied(name: str) -> SaveError:
    """Return the error of a path where something lies already."""
    return SaveError(
        f"{name} exists",
        fix="choose another folder",
    )
