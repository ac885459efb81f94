"""What training code may ask of the job that it runs in; outside a job there is none."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, start_new_thread

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, suppress

_EVERY = 0.1
_LONGEST_MESSAGE = 200


def id() -> str | None:  # noqa: A001 - read as job.id()
    """Return the job's id; None outside a job."""
    return os.environ.get("SUBMARINE_JOB_ID")


def task() -> str | None:
    """Return which task of the job this is, for example ``worker-0``; None outside a job."""
    return os.environ.get("SUBMARINE_TASK")


def input_path() -> str | None:
    """Return what ``--input_path`` named; None where it was not given."""
    return os.environ.get("SUBMARINE_INPUT_PATH")


def checkpoint_path() -> str | None:
    """Return what ``--checkpoint_path`` named; None where it was not given."""
    return os.environ.get("SUBMARINE_CHECKPOINT_PATH")


def progress(fraction: float, message: str = "") -> None:
    """Say how far the job is; does nothing outside a job.

    May be called at every step: it writes at most every 0.1 s, and the last word always arrives.

    Parameters
    ----------
    fraction
        From 0 to 1.
    message
        One line for people, 200 characters at most.

    Raises
    ------
    TypeError, ValueError
        `fraction` is not a number from 0 to 1.
    """
    wrong = TypeError(f"progress({fraction!r:.40}): the fraction is a number from 0 to 1")
    if isinstance(fraction, (str, bytes, bool)):
        raise wrong
    try:
        number = float(fraction)
    except (TypeError, OverflowError):
        raise wrong from None
    if not 0 <= number <= 1:  # NaN too
        hint = f"; for percent write progress({fraction!r} / 100)" if 1 < number <= 100 else ""  # noqa: PLR2004
        raise ValueError(f"progress({fraction!r}): the fraction is a number from 0 to 1{hint}")
    folder = os.environ.get("SUBMARINE_TASK_DIR")
    if folder:
        _reporter.report(folder, number, " ".join(str(message).split())[:_LONGEST_MESSAGE])


def flush_progress() -> None:
    """Write what still waits to be written."""
    _reporter.flush()


class _Reporter:
    """Writes the newest of what it is told, a few times a second."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._newest: tuple[str, float, str] | None = None
        self._waits = False
        self._owner = 0
        self._next = 0.0

    def report(self, folder: str, fraction: float, message: str) -> None:
        if self._owner != os.getpid():  # a fork: its parent's thread is not here
            self.__init__()  # type: ignore[misc]
            self._owner = os.getpid()
        with self._lock:
            self._newest = folder, fraction, message
            if self._waits:
                return
            delay = self._next - time.monotonic()
            if delay > 0:
                self._waits = True
                start_new_thread(self._write_late, (delay,))
            else:
                self._write()

    def _write_late(self, delay: float) -> None:
        time.sleep(delay)
        with self._lock:
            self._waits = False
            self._write()

    def _write(self) -> None:
        if self._newest is None:
            return
        folder, fraction, message = self._newest
        self._newest = None
        self._next = time.monotonic() + _EVERY
        aside = f"{folder}/.progress.json.{os.getpid()}"
        with suppress(OSError):  # a full disk is no reason to end a training
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode_in(folder))
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
                file.write(lean.dumps({"fraction": fraction, "message": message}))
            os.replace(aside, f"{folder}/progress.json")  # noqa: PTH105 - as above

    def flush(self) -> None:
        """Write what still waits."""
        with self._lock:
            self._write()


_reporter = _Reporter()
