"""A file that tells how much of it was read."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path


class CountedFile(FileIO):
    """A file that is read to be sent, as `requests` takes one.

    Parameters
    ----------
    went
        Called with the number of bytes of each piece that was read.
    """

    def __init__(self, path: Path, went: Callable[[int], object] | None) -> None:
        super().__init__(str(path), "rb")
        self._went = went

    def read(self, size: int | None = -1) -> bytes:
        """Read a piece, and tell of it."""
        data = super().read(-1 if size is None else size)
        if self._went is not None and data:
            self._went(len(data))
        return data or b""


def private(path: str, flags: int) -> int:
    """Open a new file for its owner alone, as `open` wants it."""
    return os.open(path, flags, 0o600)
