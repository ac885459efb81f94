"""Brings a task's events to HDFS while they grow, for a TensorBoard that reads them there."""

from __future__ import annotations

import os
import time

from submarine_runtime.lean import suppress
from submarine_runtime.webwrite import WebFolder

_PIECE = 8 << 20
_BETWEEN = 0.5
_OVER = "@over"

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class EventShip:
    """Brings what is new of the files below a folder.

    Parameters
    ----------
    folder
        The task's log directory.
    urls, below
        Where to, as of `WebFolder`.
    files
        Gives the names of the files below a folder.
    """

    def __init__(
        self, folder: str, urls: str, below: str, files: Callable[[str], Iterable[str]]
    ) -> None:
        self._files = files
        self._folder = folder
        self._there = WebFolder(urls, below)
        self._sent: dict[str, int] = {}

    def step(self) -> bool:
        """Bring what is new; return whether that was all of it.

        Raises
        ------
        OSError
            HDFS does not take it; the next step goes on.
        """
        more = [self._bring(name) for name in self._files(self._folder)]
        return not any(more)

    def finish(self, seconds: float) -> None:
        """Bring the rest of a task that is over, and say so; give up after a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(OSError):
                if self.step():
                    self._there.create(_OVER, b"")
                    return
            time.sleep(_BETWEEN)

    def _bring(self, name: str) -> bool:
        """Bring the next bytes of a file; return whether there are more of them."""
        sent = self._sent.get(name, 0)
        with open(f"{self._folder}/{name}", "rb") as file:  # noqa: PTH123 - pathlib is slow
            size = os.fstat(file.fileno()).st_size
            if size == sent:
                return False
            sent = sent if size > sent else 0
            file.seek(sent)
            data = file.read(_PIECE)
        # Where it is not certain whether bytes were appended, the file is brought anew.
        self._sent.pop(name, None)
        if sent:
            self._there.append(name, data)
        else:
            self._there.create(name, data)
        self._sent[name] = sent + len(data)
        return sent + len(data) < size
