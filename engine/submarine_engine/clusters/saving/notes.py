"""What a task says of its function and of a save, and what is told to who asked for one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.errors import SaveError
from submarine_engine.failures import Source
from submarine_engine.outcome import RemoteError, read_error

NOTE = "save.json"
"""Written by the runtime into a task's folder as soon as its code has given a function."""

_STATES = ("ready", "saving", "done", "failed")
_MOST_PIECES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What ``save.json`` says.

    Parameters
    ----------
    number
        How many saves have begun in the task's process.
    id
        What the asker of the last one calls it; empty where it was a signal.
    began
        When it was written, on the wall clock of the task's machine.
    pieces, sha256
        Bytes of each piece of the archive, and the sum of all of them.
    """

    state: str
    number: int
    id: str = ""
    began: float = 0.0
    pieces: tuple[int, ...] = ()
    sha256: str = ""
    error: RemoteError | None = None


def read_note(data: bytes) -> Note | None:
    """Read what a runtime writes, as the word of a stranger; None where it is something else."""
    try:
        found: Mapping[str, Any] = json.loads(data)
        sizes = tuple(int(size) for size in found.get("pieces") or ())
        note = Note(
            state=str(found["state"]),
            number=int(found["number"]),
            id=str(found.get("id") or ""),
            began=float(found["at"][0]),
            pieces=sizes,
            sha256=str(found.get("sha256") or ""),
            error=read_error(found.get("error")),
        )
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None
    wrong = note.state not in _STATES or len(sizes) > _MOST_PIECES or any(n <= 0 for n in sizes)
    return None if wrong else note


def failed(note: Note, job_id: str, task: Path) -> SaveError:
    """Return the error of a function that failed, with its own words at cell and line.

    Parameters
    ----------
    task
        The task's folder on this machine.
    """
    if note.error is None:
        return SaveError("its function failed and does not say why", job_id=job_id)
    trace = Source.of(task).trace(note.error)
    place = str(trace.frames[-1]) if trace.frames else trace.raised_in
    return SaveError(
        f"the function given to on_save failed: {trace.summary}",
        job_id=job_id,
        where=place,
        fix="the job goes on; see what the function does there",
    )


def busy(note: Note, job_id: str) -> SaveError:
    """Return the error of a function that still runs for who asked before."""
    since = max(0.0, time.time() - note.began)
    return SaveError(
        f"its function still saves for who asked before, {since:.0f} s ago",
        job_id=job_id,
        fix="ask later; where it never ends, the function hangs",
    )


def hangs(job_id: str) -> SaveError:
    """Return the error of a function that patience has ended with."""
    return SaveError(
        "the function given to on_save has not returned in time; the job goes on",
        job_id=job_id,
        fix="give it longer: --timeout, or the setting save_patience",
    )


def unheard(job_id: str) -> SaveError:
    """Return the error of a job that has not even begun to save."""
    return SaveError(
        "the job has not answered in time: its process is stopped, or its native code lets no "
        "other thread run",
        job_id=job_id,
        fix="ask again, or give it longer: --timeout, or the setting save_patience",
    )


def ended(job_id: str) -> SaveError:
    """Return the error of a job that ended first."""
    return SaveError(
        "the job ended before its model was saved",
        job_id=job_id,
        fix="what it returned and its checkpoints are where they always are",
    )
