"""Whether a job's GPUs do nothing, and the end of one whose GPUs do nothing for too long.

By the rows that are written of each task (`submarine_runtime.metrics`), so on every cluster alike.
A task is idle while its GPUs compute nothing and its memory on them stays as it is: a copy is no
computation to NVML. A job is idle while all of its tasks are that have GPUs.

Time is counted from row to row, by the clock of the task's own machine. So what lies between two
rows far apart does not count (a machine that slept, a clock that was set), nor does a row that
tells nothing of GPUs. Where no row does, nobody knows, and the job is not ended.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.series import AT, MOST, as_written, spread

from submarine_engine.amounts import duration, exactly
from submarine_engine.clusters import locks
from submarine_engine.errors import SubmarineError
from submarine_engine.lifecycle import IDLE
from submarine_engine.metrics import is_gpu, is_gpu_memory

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Saved
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.history import JobPaths, TaskPaths

_EVERY = 1.0  # seconds: tasks write a row once in one, so there is nothing new sooner
_SHARE = 0.02
"""Of a core, at most: of hundreds of tasks each file is looked into."""

_GAP = 10.0
"""Seconds between two rows, at most: a machine that is busy writes fewer."""

_LEAST = 3
"""Rows without which nobody is idle, however far apart they are."""

_SILENT = 5
"""Rows that tell nothing of GPUs, after which that is said."""

_BUSY = 1.0  # percent
_MOVED = 1 << 20  # bytes
_TAILS = (4096, 1 << 16, 2 * MOST)

SAVE_WITHIN = 300.0
"""Seconds that the code's own function has to save the model in."""

_MODEL = "; its model"


class TaskIdle:
    """For how long one task has been idle by its rows.

    Parameters
    ----------
    files
        The task's.
    started
        When its code began, on the wall clock of its machine: earlier rows are another attempt's.
    """

    def __init__(self, files: TaskPaths, started: float) -> None:
        self._files, self._started = files, started
        self._row: float | None = None
        self._told = started
        self._memory: Mapping[str, float] = {}
        self._seconds, self._rows = 0.0, 0
        self.silent = 0
        """Rows that told nothing of GPUs, if none ever has told anything; else 0."""
        self._tells = False

    @property
    def seconds(self) -> float:
        """For how long it has been idle."""
        return self._seconds if self._rows >= _LEAST else 0.0

    def read(self) -> None:
        """Take in what was written since the last look."""
        for row in self._fresh():
            self._row = row[AT]
            self._take(row)

    def _take(self, row: Mapping[str, Any]) -> None:
        busy = [
            s[2] for name, value in row.items() if is_gpu(name) and _is_told(s := spread(value))
        ]
        if not busy:
            self.silent = 0 if self._tells else self.silent + 1
            return
        self._tells, self.silent = True, 0
        held = {n: s for n, v in row.items() if is_gpu_memory(n) and _is_told(s := spread(v))}
        moved = any(
            most - least >= _MOVED or abs(mean - self._memory.get(name, mean)) >= _MOVED
            for name, (least, mean, most) in held.items()
        )
        if max(busy) >= _BUSY or moved:
            self._seconds, self._rows = 0.0, 0
        elif 0 < row[AT] - self._told <= _GAP:
            self._seconds += row[AT] - self._told
            self._rows += 1
        self._told = row[AT]
        self._memory = {name: mean for name, (_, mean, _) in held.items()}

    def _fresh(self) -> list[dict[str, Any]]:
        """Return the rows that were written since the last look, in their order."""
        for size in _TAILS:
            content, is_all = _tail(self._files, size)
            rows = as_written(content)
            if self._row is None and is_all:
                return [row for row in rows if row[AT] >= self._started]
            known = [place for place, row in enumerate(rows) if row[AT] == self._row]
            if known:
                return rows[known[-1] + 1 :]
            if is_all:
                break
        # Somebody has put another file there: nobody knows what was meanwhile.
        self._seconds, self._rows, self._row = 0.0, 0, None
        return []


def _is_told(three: tuple[float, float, float]) -> bool:
    return math.isfinite(sum(three))


def _tail(files: TaskPaths, size: int) -> tuple[bytes, bool]:
    """Return the end of a task's rows, and whether that is all there is."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(files.metrics, flags)
        try:
            whole = os.fstat(descriptor).st_size
            content = os.pread(descriptor, size, max(0, whole - size))
        finally:
            os.close(descriptor)
        # What is still being written counts with the next look.
        return content[: content.rfind(b"\n") + 1], whole <= size or size == _TAILS[-1]
    return b"", True


class IdleWatch:
    """Says when a job's GPUs do nothing, and has it end.

    Parameters
    ----------
    after
        Seconds for which they may.
    paths
        The job's files.
    save
        Brings the model of the job into a new folder; raises `SaveError` where that cannot be.
    tell
        Notes what people may want to know, once.
    """

    def __init__(
        self,
        after: float,
        paths: JobPaths,
        save: Callable[[str], Saved],
        tell: Callable[[str], None],
    ) -> None:
        self._after = after
        self._paths = paths
        self._save = save
        self._tell = tell
        self._tasks: dict[str, TaskIdle] = {}
        self._due = 0.0
        self._warned = False
        self._saving: threading.Thread | None = None
        self.reason = ""
        """Why the job is to end, once its model is saved; empty while it goes on."""
        self._told_silent = False

    def step(self, tasks: Sequence[TaskRun]) -> str | None:
        """Look, where it is time for that.

        Parameters
        ----------
        tasks
            All of the job's.

        Returns
        -------
        str or None
            A warning; empty where it holds no more; None for nothing new.
        """
        if self._saving is not None or time.monotonic() < self._due:
            return None
        began = time.thread_time()
        idle, gpus = self._measure([one for one in tasks if one.gpus])
        self._due = time.monotonic() + max(_EVERY, (time.thread_time() - began) / _SHARE)
        its = "its GPU" if gpus == 1 else f"its {gpus} GPUs"
        if idle >= self._after:
            did = f"{its} did nothing for {exactly(self._after)} {IDLE}"
            self._saving = threading.Thread(target=self._end, args=(did,), daemon=True)
            self._saving.start()
            return f"{did}: its model is saved if it can be, and the job ends"
        if idle >= self._after / 2 and not self._warned:
            self._warned = True
            return (
                f"{its} did nothing for {duration(idle)}; after {exactly(self._after)} the job's"
                f" model is saved and it ends {IDLE}"
            )
        if self._warned and idle < self._after / 2:
            self._warned = False
            return ""
        return None

    def _measure(self, tasks: Sequence[TaskRun]) -> tuple[float, int]:
        """Return for how long all tasks that run have been idle, and how many GPUs they have."""
        running = [one for one in tasks if not one.over and not one.released]
        seconds = []
        for one in running:
            if one.started is None:
                return 0.0, 0
            if one.task not in self._tasks:
                self._tasks[one.task] = TaskIdle(one.files, one.started.wall)
            task = self._tasks[one.task]
            task.read()
            seconds.append(task.seconds)
            if task.silent >= _SILENT and not self._told_silent:
                self._told_silent = True
                self._tell(
                    f"nobody tells how busy the GPUs of {one.task} are (NVIDIA's library is not"
                    f" there, or they are parts of one): the job is not ended however idle they are"
                    f" {IDLE}"
                )
        return min(seconds, default=0.0), sum(one.gpus for one in running)

    def _end(self, did: str) -> None:
        """Save the model, and say that the job is to end."""
        target = self._paths.saved
        try:
            self._wait_for_others()
            if not target.exists():  # else a driver before this one has saved it
                self._save(str(target))
            self.reason = f"{did}{_MODEL} is saved in {target}"
        except SubmarineError as error:
            self.reason = f"{did}{_MODEL} is not saved: {error.what}"
        except Exception as error:  # noqa: BLE001 - whatever it is, its GPUs are given back
            self.reason = f"{did}{_MODEL} is not saved: {type(error).__name__}: {error}"

    def _wait_for_others(self) -> None:
        """Let whoever saves the model right now come to the end of it."""
        until = time.monotonic() + SAVE_WITHIN
        while not locks.is_free(self._paths.save_lock) and time.monotonic() < until:
            time.sleep(_EVERY / 10)
