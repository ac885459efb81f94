"""Files at an address, which machines share without a common folder: HDFS, or what fsspec knows.

`addresses` opens one. What several processes agree by is `Storage.create`: of all that make a file,
one has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stored:
    """What lies in a folder of a storage.

    Parameters
    ----------
    name
        The last part of its path.
    folder
        Whether it is a folder.
    """

    name: str
    folder: bool


class Storage(ABC):
    """Files and folders by their absolute paths, ``/user/ana/nightly.flow``.

    Every method raises `SubmarineError` where the storage does not answer or refuses. Folders are
    there as soon as a file is in them.
    """

    @abstractmethod
    def uri(self, path: str) -> str:
        """Return the address of a path, the same on all machines.

        Parameters
        ----------
        path
            Within the storage.
        """

    @abstractmethod
    def again(self) -> Storage:
        """Return the same storage by connections of its own, for another thread."""

    @abstractmethod
    def entry(self, path: str) -> Stored | None:
        """Return what lies at a path; None where there is nothing.

        Parameters
        ----------
        path
            Within the storage.
        """

    @abstractmethod
    def list(self, folder: str) -> list[Stored]:
        """Return what lies in a folder, by name; nothing where it is not there.

        Parameters
        ----------
        folder
            Its path within the storage.
        """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return what a file holds.

        Parameters
        ----------
        path
            Within the storage.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        """

    @abstractmethod
    def get(self, path: str, to: Path) -> None:
        """Bring a file to this machine, whole or not at all; errors as of `read`.

        Parameters
        ----------
        path
            Within the storage.
        to
            The file on this machine.
        """

    @abstractmethod
    def write(self, path: str, source: bytes | Path) -> None:
        """Write a file whole, in place of what is there.

        Parameters
        ----------
        path
            Within the storage.
        source
            What it is to hold, or a file of this machine with that.
        """

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Write a file where none is; return whether it was this call that made it.

        Parameters
        ----------
        path
            Within the storage.
        data
            What it is to hold.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, or a folder with what is in it; no-op where there is nothing.

        Parameters
        ----------
        path
            Within the storage.
        """
