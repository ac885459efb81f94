"""The memory of tasks against what was asked for: said before a cluster kills for it, and after.

By the rows that are written of each task (`submarine_runtime.metrics`), so on every cluster alike.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_runtime.series import parse, spread

from submarine_engine.lifecycle import TOO_MUCH_MEMORY
from submarine_engine.metrics import read_used

if TYPE_CHECKING:
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.history import TaskPaths
    from submarine_engine.job import JobSpec

_EVERY = 2.0  # seconds: tasks measure once in one; it warns of growth, which takes longer
_NEAR = 0.9
_FAR = 0.8
"""Parts of what was asked for: above the one it is said, below the other it is so no more."""

_LONGEST_SAID = 10_000
# Of YARN's NodeManager, by its own count and by cgroups; and as others word it.
_EXCEEDED = re.compile(
    r"beyond the '?(physical|virtual)'? memory limit|\bexceed\w* (?:its |the )?memory|memory limit"
    r" exceeded|\boom\b|\boom-?killed\b|\bout[- ]of[- ]memory\b",
    re.IGNORECASE,
)
_LOST_PROCESS = re.compile(
    r"\bkilled\b|\bSIGKILL\b|terminated abruptly|exit ?code:? -9\b", re.IGNORECASE
)

_TAIL = 8192
_MIB = 1 << 20
_GIB = 1 << 30


class MemoryWatch:
    """Tells once when a task comes near to what was asked for, and when none is any more.

    Parameters
    ----------
    spec
        The job. Of tasks that were asked for without a size nothing is said.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._limits = {
            task: role.resources.memory * _MIB
            for role in spec.roles
            if role.resources.memory
            for task in role.tasks
        }
        self._due = 0.0
        self._near = ""
        self._told = ""

    def limit(self, task: str) -> int | None:
        """Return how many bytes a task was asked for with."""
        return self._limits.get(task)

    def step(self, running: Sequence[TaskRun]) -> str | None:
        """Look, where it is time for that.

        Parameters
        ----------
        running
            The tasks that run.

        Returns
        -------
        str or None
            A warning; empty where it holds no more; None for nothing new.
        """
        if not self._limits or time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + _EVERY
        found = {one.task: _now(one.files) for one in running if one.task in self._limits}
        if self._near:
            if found.get(self._near, 0.0) >= _FAR * self._limits[self._near]:
                return None
            self._near = ""
            return ""
        for task, used in found.items():
            if used >= _NEAR * self._limits[task] and task != self._told:
                self._near = self._told = task
                return (
                    f"{task} uses {_words(used)} of {_words(self._limits[task])} of memory asked"
                    " for; with more it is ended. It goes on"
                )
        return None


def exceeded(said: str) -> str:
    """Return that a cluster says of a task's end that it used too much memory, in our words.

    Parameters
    ----------
    said
        Its own; of YARN's NodeManager, say.
    """
    found = _EXCEEDED.search(said[:_LONGEST_SAID])
    if found is None:
        return ""
    if (found[1] or "").lower() == "virtual":
        return "it used more virtual memory than its node allows"
    return TOO_MUCH_MEMORY


def peak_words(
    files: TaskPaths, limit: int | None, *, oom_killed: bool = False, is_known: bool = False
) -> str:
    """Return how much memory a task that was killed has used at most, where it was that.

    Parameters
    ----------
    files
        The task's.
    limit
        Bytes that it was asked for with; None for any.
    oom_killed
        Whether the kernel has ended a process for lack of memory meanwhile.
    is_known
        Whether it is known that it was ended for its memory.

    Returns
    -------
    str
        Empty where nothing points to memory, or nobody knows.
    """
    told = [row.numbers["memory"][2] for row in read_used(files) if "memory" in row.numbers]
    peak = max(filter(math.isfinite, told), default=0.0)
    if not peak or not (oom_killed or is_known or (limit and peak >= _NEAR * limit)):
        return ""
    asked = f", of {_words(limit)} asked for" if limit else ""
    return f"its processes used {_words(peak)} of memory at most{asked}"


def lost_process(error: str) -> bool:
    """Return whether an error tells that another process of the task was killed.

    Parameters
    ----------
    error
        As libraries word it whose worker is gone: torch's loaders, `concurrent.futures`, joblib.
    """
    return _LOST_PROCESS.search(error[:_LONGEST_SAID]) is not None


def _now(files: TaskPaths) -> float:
    """Return how many bytes a task has used last; 0 where nobody knows."""
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(files.metrics, flags)
        try:
            size = os.fstat(descriptor).st_size
            rows = parse(os.pread(descriptor, _TAIL, max(0, size - _TAIL)))
        finally:
            os.close(descriptor)
        used = spread(rows[-1].get("memory"))[1] if rows else 0.0
        return used if math.isfinite(used) else 0.0
    return 0.0


def _words(size: float) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"
