"""A task's progress: what it says itself, else what its log shows."""

from __future__ import annotations

import os
import time
from pathlib import Path

from submarine_engine.events import Progressed
from submarine_engine.history import TaskPaths, read_json

_MOST = 65536
_OVERLAP = 512
_SHORTEST = 0.5
_SHARE = 1000
_LONGEST_MESSAGE = 200


class Progress:
    """Looks at a task now and then, and tells what is new.

    The longer a job runs the rarer: a thousandth of its age apart, so that a week of progress is
    some thousand events.

    Parameters
    ----------
    task
        The task's files.
    """

    def __init__(self, task: TaskPaths) -> None:
        self._task = task
        self._began = self._told_at = time.monotonic()
        self._seen: dict[Path, tuple[int, int]] = {}
        self._told: tuple[float, str] | None = None
        self._epochs: dict[Path, tuple[int, int] | None] = {}
        self._explicit = False

    def look(self, *, last: bool = False) -> Progressed | None:
        """Return the task's progress where it is new and time to tell it; it is for the `last`."""
        now = time.monotonic()
        if not last and now - self._told_at < max(_SHORTEST, (now - self._began) / _SHARE):
            return None
        found = self._said() or (None if self._explicit else self._shown())
        if found is None or found == self._told:
            return None
        self._told, self._told_at = found, now
        fraction, message = found
        return Progressed(task=self._task.root.name, fraction=fraction, message=message)

    def _said(self) -> tuple[float, str] | None:
        if not self._changed(self._task.progress):
            return None
        try:
            data = read_json(self._task.progress) or {}
            fraction, message = float(data["fraction"]), str(data.get("message") or "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if not 0 <= fraction <= 1:  # NaN too
            return None
        self._explicit = True
        return fraction, message[:_LONGEST_MESSAGE]

    def _shown(self) -> tuple[float, str] | None:
        # imported late: few jobs come here before they are over
        from submarine_runtime.recognise import last_epoch, recognise  # noqa: PLC0415

        for log in (self._task.stderr, self._task.stdout):
            read_to = self._seen.get(log, (0, 0))[1]
            if not self._changed(log):
                continue
            text = _since(log, read_to - _OVERLAP)
            self._epochs[log] = last_epoch(text) or self._epochs.get(log)
            if found := recognise(text, self._epochs[log]):
                return found[0], found[1][:_LONGEST_MESSAGE]
        return None

    def _changed(self, path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        version = (status.st_mtime_ns, status.st_size)
        if self._seen.get(path) == version:
            return False
        self._seen[path] = version
        return True


def _since(path: Path, offset: int) -> str:
    """Return what a log holds from `offset`, the last part where that is much."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, offset, size - _MOST))
            return file.read(_MOST).decode(errors="replace")
    except OSError:
        return ""
