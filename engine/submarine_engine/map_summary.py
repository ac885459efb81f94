"""What a card shows of a map or an executor: bounded however many calls there are.

The controller writes it into its own task's folder, ``calls.json``; front ends read it there with
the rest of the job.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from submarine_engine.history import SPOILT, finite, foreign_text, read_foreign, write_json
from submarine_engine.holdings import Holdings, Point, parsed_points

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.pool.calls import Call, End

FILE = "calls.json"
SHOWN = 10
"""How many of the newest calls."""
FAILED = 50
"""How many of those that failed, the first ones."""

_VERSION = 1
_LARGEST = 1 << 18
_LONGEST = 60
_ERROR = 300
_EVERY = 0.5  # seconds: a card shows its numbers twice in one; `_SHARE` makes it seldomer
_SHARE = 20
"""Writing takes no more than one part in so many of the controller's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call.

    Parameters
    ----------
    index
        Which one.
    state
        ``running``, ``done``, ``failed`` or ``cancelled``.
    label
        What people call it; often empty.
    host
        Where it ran.
    seconds
        How long; None where it has not ended.
    error
        What it failed with, in a line.
    """

    index: int
    state: str
    label: str = ""
    host: str = ""
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How far the calls of a pool are.

    Parameters
    ----------
    pool
        The pool's id.
    total
        How many calls there are by now, or are to be.
    done, failed, cancelled, running
        How many of them are so.
    failures, newest
        The first ones that failed; those that run, and the last ones that ended.
    unit
        What is held: ``GPU``, or ``worker`` where calls have none.
    held, most
        How many are held now, and how many were at once.
    holding
        How many were held, from when on: pairs of seconds since `began` and a number.
    began
        When the job began, in seconds since the epoch.
    """

    pool: str
    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0
    failures: tuple[CallRow, ...] = ()
    newest: tuple[CallRow, ...] = ()
    unit: str = "GPU"
    held: int = 0
    most: int = 0
    holding: tuple[Point, ...] = ()
    began: float = 0.0


def read_calls(folder: Path) -> Calls | None:
    """Return what a task's folder has of a pool's calls; None where there is nothing to read.

    Parameters
    ----------
    folder
        The task's, where the job's code may have written whatever it likes.
    """
    try:
        data = json.loads(read_foreign(folder / FILE, _LARGEST))
        if data["version"] != _VERSION:
            return None
        numbers = ("total", "done", "failed", "cancelled", "running", "held", "most")
        return Calls(
            pool=foreign_text(data["pool"], _LONGEST),
            **{name: int(data[name]) for name in numbers},
            failures=tuple(map(_row, data["failures"][:FAILED])),
            newest=tuple(map(_row, data["newest"][: 2 * SHOWN])),
            unit="GPU" if data["unit"] == "GPU" else "worker",
            holding=parsed_points(data["holding"]),
            began=finite(data["began"]),
        )
    except SPOILT:
        return None


def _row(data: Any) -> CallRow:  # noqa: ANN401 - of a file
    seconds = data["seconds"]
    return CallRow(
        index=int(data["index"]),
        state=foreign_text(data["state"], _LONGEST),
        label=foreign_text(data["label"], _LONGEST),
        host=foreign_text(data["host"], _LONGEST),
        seconds=None if seconds is None else finite(seconds),
        error=foreign_text(data["error"], _ERROR),
    )


class CallsWriter:
    """Keeps the summary of a pool's calls on disk, for the controller that runs them.

    Parameters
    ----------
    folder
        Of the controller's task; None where there is none, and nothing is written.
    pool
        The pool's id.
    gpus
        Of each worker.
    """

    def __init__(self, folder: Path | None, pool: str, gpus: int) -> None:
        self._folder = folder
        self._pool = pool
        self._gpus = gpus
        self._running: dict[int, CallRow] = {}
        self._failures: list[CallRow] = []
        self._ended: deque[CallRow] = deque(maxlen=SHOWN)
        self._counts = {"done": 0, "failed": 0, "cancelled": 0}
        self._next = 0.0
        self._written: Calls | None = None
        before = read_calls(folder) if folder else None  # of an attempt that was killed
        self._holdings = Holdings(before.began, before.holding) if before else Holdings()
        self._most = before.most if before else 0

    def began(self, call: Call) -> None:
        """Note that a call runs."""
        row = CallRow(index=call.index, state="running", label=call.label[:_LONGEST])
        self._running[call.index] = row

    def ended(self, call: Call, end: End, error: str) -> None:
        """Note how a call ended.

        Parameters
        ----------
        call, end
            The call, and what became of it.
        error
            What it failed with, in words.
        """
        self._running.pop(call.index, None)
        cancelled = end.outcome == "withdrawn"
        state = "done" if end.succeeded else "cancelled" if cancelled else "failed"
        self._counts[state] += 1
        row = CallRow(
            index=call.index,
            state=state,
            label=call.label[:_LONGEST],
            host=end.host[:_LONGEST],
            seconds=end.seconds,
            error=error.partition("\n")[0][:_ERROR] if state == "failed" else "",
        )
        self._ended.append(row)
        if state == "failed" and len(self._failures) < FAILED:
            self._failures.append(row)

    def update(self, total: int, held: int, *, now: bool = False) -> None:
        """Write what has changed, a few times a second.

        Parameters
        ----------
        total
            How many calls there are.
        held
            How many workers hold what they were granted.
        now
            Whether to write at once: there is no later.
        """
        if self._folder is None:
            return
        held *= max(1, self._gpus)
        self._holdings.note(held)
        self._most = max(self._most, held)
        begins = time.monotonic()
        if begins < self._next and not now:
            return
        made = Calls(
            pool=self._pool,
            total=total,
            **self._counts,
            running=len(self._running),
            failures=tuple(self._failures),
            newest=(*list(self._running.values())[:SHOWN], *reversed(self._ended)),
            unit="GPU" if self._gpus else "worker",
            held=held,
            most=self._most,
            holding=self._holdings.points,
            began=self._holdings.began,
        )
        with suppress(OSError):  # a full disk is no reason to end a map
            if made != self._written:
                write_json(self._folder / FILE, {"version": _VERSION, **asdict(made)})
                self._written = made
        self._next = time.monotonic() + max(_EVERY, _SHARE * (time.monotonic() - begins))


def task_folder() -> Path | None:
    """Return the folder of the task that this process runs; None outside a job."""
    from pathlib import Path  # noqa: PLC0415 - elsewhere for types alone

    folder = os.environ.get("SUBMARINE_TASK_DIR")
    return Path(folder) if folder else None
