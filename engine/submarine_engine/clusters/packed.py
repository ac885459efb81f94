"""A packed model from its container, unpacked while it comes; the word of a stranger."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from submarine_engine.errors import ClusterError

Read = Callable[[str, int, int], bytes]
"""Returns at most that many bytes of a file, from an offset on."""

_AT_ONCE = 4 << 20


def unpack(read: Read, pieces: Mapping[str, int], sha256: str, folder: Path) -> None:
    """Write the files of an archive into an empty folder.

    Parameters
    ----------
    read
        Reads from the container: a piece's name, the byte to begin at, and how many at most.
    pieces
        The bytes of each piece of the archive, in their order.
    sha256
        What the sum of all of them has to be.
    folder
        The empty folder.

    Raises
    ------
    ClusterError
        What came is not what was sent, or no archive of plain files.
    OSError
        The folder cannot be written.
    """
    coming = _Coming(read, pieces)
    try:
        with tarfile.open(fileobj=coming, mode="r|", bufsize=_AT_ONCE) as archive:  # type: ignore[call-overload] # it reads, which is all that is asked
            for member in archive:
                _write(archive, member, folder, coming.size)
        while coming.read(_AT_ONCE):
            pass
    except (tarfile.TarError, ValueError, EOFError) as error:  # headers hold what they like
        raise _broken(str(error)) from error
    if coming.sum.hexdigest() != sha256:
        raise _broken("its check sum is another one")


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, most: int) -> None:
    """Write a file of an archive that has `most` bytes in all."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise _broken(f"it holds {member.name!r:.100}")
    if member.issparse() or member.size > most:  # what is said to be holes would fill the disk
        raise _broken(f"{member.name!r:.100} is larger than all that came")
    to = folder.joinpath(*path.parts)
    if member.isdir():
        to.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and (source := archive.extractfile(member)) is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("xb") as file:
            shutil.copyfileobj(source, file, _AT_ONCE)


def _broken(why: str) -> ClusterError:
    return ClusterError(
        f"the saved model that came from the container is not whole: {why}", fix="ask once more"
    )


class _Coming:
    """All pieces as one file that is read from its beginning to its end."""

    def __init__(self, read: Read, pieces: Mapping[str, int]) -> None:
        self._read = read
        self._left = list(pieces.items())
        self.size = sum(pieces.values())
        self._offset = 0
        self.sum = hashlib.sha256()

    def read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size and self._left:
            name, length = self._left[0]
            data = self._read(name, self._offset, min(size - len(found), length - self._offset))
            if not data:
                raise _broken(f"{name} ends at byte {self._offset} of {length}")
            found += data
            self._offset += len(data)
            if self._offset == length:
                self._left.pop(0)
                self._offset = 0
        self.sum.update(found)
        return bytes(found)
