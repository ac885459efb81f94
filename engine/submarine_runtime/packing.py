"""Writes a folder as a tar archive in pieces, where only files can be fetched and no folders.

`saving` packs a model by it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

PIECE = 64 << 20
"""Bytes of a piece: what brings them to HDFS has a piece in memory at once."""

_BLOCK = 1 << 20


def pack(source: str, stem: str, mode: int) -> dict[str, Any]:
    """Write the files below `source` as ``STEM.0000``, ``STEM.0001``, ….

    Links are followed to files; what is neither file nor folder is left out.

    Parameters
    ----------
    source
        The folder.
    stem
        The path of each piece without its number.
    mode
        Of the pieces.

    Returns
    -------
    dict
        ``pieces``, the size of each in bytes, and ``sha256`` of all of them together.

    Raises
    ------
    OSError
        The disk is full, or a file cannot be read.
    """
    import tarfile  # noqa: PLC0415 - where a model is saved

    pieces = _Pieces(stem, mode)
    try:
        with tarfile.open(
            fileobj=pieces,  # type: ignore[call-overload] # it writes, which is all that is asked
            mode="w|",
            bufsize=_BLOCK,
            format=tarfile.PAX_FORMAT,
            dereference=True,
        ) as archive:
            for folder, folders, files in os.walk(source):
                folders.sort()
                for name in [*folders, *sorted(files)]:
                    path = f"{folder}/{name}"
                    if os.path.isdir(path) or os.path.isfile(path):  # noqa: PTH112, PTH113 - as above
                        archive.add(path, path[len(source) + 1 :], recursive=False)
    finally:
        pieces.close()
    return {"pieces": pieces.sizes, "sha256": pieces.sum.hexdigest()}


class _Pieces:
    """Takes bytes one after the other, as a file does."""

    def __init__(self, stem: str, mode: int) -> None:
        import hashlib  # noqa: PLC0415 - as above

        self.sizes: list[int] = []
        self.sum = hashlib.sha256()
        self._stem = stem
        self._mode = mode
        self._descriptor = -1

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        left = memoryview(data)
        while left:
            if not self.sizes or self.sizes[-1] == PIECE:
                self._next()
            done = os.write(self._descriptor, left[: PIECE - self.sizes[-1]])
            self.sizes[-1] += done
            left = left[done:]
        return len(data)

    def _next(self) -> None:
        self.close()
        path = f"{self._stem}.{len(self.sizes):04d}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, self._mode)
        self.sizes.append(0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
