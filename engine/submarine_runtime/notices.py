"""Says why a task is asked to end and how many seconds it has, as ``job.notice`` tells the code.

The driver writes the message before it sends the signal. Where a cluster ends a task by itself only
the signal comes, and reason and seconds are unknown.
"""

from __future__ import annotations

import os
import time

from submarine_runtime import lean
from submarine_runtime.lean import suppress
from submarine_runtime.saving import PLACE

NOTICE = "notice.json"
"""The message: ``{"reason": "…", "seconds": 5.0}``."""

ASKED_TO_END = "the job was asked to end"
"""What the interrupt says that SIGTERM is: whoever asked knows, and needs no traceback of it."""

_came_at: list[float] = []


class Notice:
    """That a task is asked to end.

    Parameters
    ----------
    reason
        Why, in words; empty where only the signal came.
    seconds
        How many are left until the task is killed; None where nobody has said that.
    """

    def __init__(self, reason: str, seconds: float | None) -> None:
        self.reason = reason
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"Notice(reason={self.reason!r}, seconds={self.seconds!r})"


def come() -> None:
    """Note that a notice has come; the first one counts."""
    if not _came_at:
        _came_at.append(time.monotonic())


def current() -> Notice | None:
    """Return this task's notice; None as long as it is not asked to end, and outside a job."""
    folder = os.environ.get(PLACE) or os.environ.get("SUBMARINE_TASK_DIR")
    reason, seconds = "", None
    with suppress(OSError, ValueError, KeyError, TypeError):
        from submarine_runtime.exchange import Files  # noqa: PLC0415 - where it is asked for

        data = Files(folder).hear(NOTICE) if folder else None
        if data is not None:
            told = lean.loads(data.decode())
            reason, seconds = str(told["reason"]), float(told["seconds"])
            come()
    if not _came_at:
        return None
    if seconds is not None:
        seconds = max(0.0, seconds - (time.monotonic() - _came_at[0]))
    return Notice(reason, seconds)
