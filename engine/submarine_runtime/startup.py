"""When a task came to its script, to the script's own code, and to the end of its first step.

A line of `FILE` is ``[attempt, name, seconds]``, by the monotonic clock of the task's machine. With
the job's events it tells where the time of a start went (`submarine_engine.waterfall`). The
script's line waits for the next one: before the user's first line there is one write.
"""

from __future__ import annotations

import os
import time

from submarine_runtime.lean import mode_in, suppress

FILE = "startup"

PROCESS = "process"
"""The task's Python was started, where the cluster's own moment is a later one."""

SCRIPT = "script"
"""The interpreter is up, and the script comes next: its imports, definitions and values."""

COMMAND = "command"
"""Likewise, where a program of its own comes next: of that nothing more is known here."""

CODE = "code"
"""The cell's own statements come next."""

STEP = "step"
"""A step of the training is done, as the code tells by a report, a checkpoint or its progress."""

_folder = ""
_waiting: list[bytes] = []
_is_step_due = True


def begin(folder: str, name: str, at: float | None = None) -> None:
    """Note that the task has come to `name`; it is written with the next.

    Parameters
    ----------
    folder
        The task's.
    name
        One of the names above.
    at
        When that was: now unless given.
    """
    global _folder  # noqa: PLW0603 - of the process, which is one task
    _folder = folder
    attempt = os.environ.get("SUBMARINE_ATTEMPT", "1")
    seconds = time.monotonic() if at is None else at
    _waiting.append(f'[{attempt}, "{name}", {seconds:.6f}]\n'.encode())


def reach(name: str) -> None:
    """Note that the task has come to `name`, and write all that is noted."""
    begin(_folder, name)
    flush()


def step() -> None:
    """Note that a step of the training is done; the first alone is written."""
    global _is_step_due  # noqa: PLW0603 - as above
    if _is_step_due:
        _is_step_due = False
        # A launch command's processes know their task by its environment.
        if folder := _folder or os.environ.get("SUBMARINE_TASK_DIR"):
            begin(folder, STEP)
            flush()


def flush() -> None:
    """Write what is noted."""
    if not _waiting:
        return
    lines = b"".join(_waiting)
    _waiting.clear()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):  # a full disk: nobody's job fails for that
        file = os.open(f"{_folder}/{FILE}", flags, mode_in(_folder))
        try:
            os.write(file, lines)
        finally:
            os.close(file)
