"""Writes what the code reports of its training into a file of rows over time (see `series`).

`reports` calls it outside of sweeps. A row of `FILE` has the ``step`` and the numbers by name. A
loop may report each of its steps: what comes fast is put together. The last one always arrives.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from _thread import allocate_lock, start_new_thread

from submarine_runtime import progress_file
from submarine_runtime.lean import suppress
from submarine_runtime.leave import note_file
from submarine_runtime.series import AT, ROWS, Series, together

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping

    from submarine_runtime.series import Row

FILE = "reported"
STEP = "step"
_EVERY = 0.5  # seconds between two writes: a loop may report thousands of steps meanwhile
_APART = 5
"""Rows of one write that stay as they are; of more, all but the last are put together."""

_MOST_WAITING = 500


def note(step: int, values: Mapping[str, float]) -> None:
    """Note what the code has reported; does nothing outside a job.

    Of several processes of one task, the first that reports is heard.

    Parameters
    ----------
    step, values
        As `reports.report` has checked them.
    """
    progress_file.note_step()
    if folder := os.environ.get("SUBMARINE_TASK_DIR"):
        row: Row = {AT: round(time.time(), 3), STEP: step}
        for name, value in values.items():
            # JSON has no word for what is no number.
            told = value if math.isfinite(value) else str(value)
            row[f"{name}_" if name in (AT, STEP, ROWS) else name] = told
        _reporter.add(folder, row)


def flush() -> None:
    """Write what still waits to be written."""
    _reporter.flush()


class _ReportWriter:
    """Writes what it is told, twice a second at most."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._series: Series | None = None
        self._opened = ""
        self._waiting: list[Row] = []
        self._is_late = False
        self._owner = os.getpid()
        self._due = 0.0

    def add(self, folder: str, row: Row) -> None:
        if self._owner != os.getpid():  # a fork: the file is its parent's, and so is the thread
            self.__init__()  # type: ignore[misc]
        with self._lock:
            if self._opened != folder:
                self._opened = folder
                self._open(folder)
            if self._series is None:
                return
            self._waiting.append(row)
            if len(self._waiting) >= _MOST_WAITING:
                self._waiting = [together(self._waiting[:-1]), row]
            delay = self._due - time.monotonic()
            if delay <= 0:
                self._write()
            elif not self._is_late:
                self._is_late = True
                start_new_thread(self._write_late, (delay,))

    def _open(self, folder: str) -> None:
        with suppress(OSError):  # another process has it, or there is no room: then none is kept
            lock = os.open(f"{folder}/.{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            note_file(lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._series = Series(f"{folder}/{FILE}")

    def _write_late(self, delay: float) -> None:
        time.sleep(delay)
        with self._lock:
            self._is_late = False
            self._write()

    def _write(self) -> None:
        self._due = time.monotonic() + _EVERY
        rows, self._waiting = self._waiting, []
        if len(rows) > _APART:
            rows = [together(rows[:-1]), rows[-1]]
        with suppress(OSError):  # a full disk is no reason to end a training
            for row in rows:
                if self._series is not None:
                    self._series.add(row)

    def flush(self) -> None:
        """Write what still waits."""
        with self._lock:
            if self._owner == os.getpid():
                self._write()


_reporter = _ReportWriter()
