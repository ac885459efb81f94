"""Writes ``progress.json``: how far the task is, whether it kept a checkpoint, its first step.

`job.progress` and loops of steps write by it; the driver reads it.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, start_new_thread

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, suppress

_EVERY = 0.1  # seconds between two writes: code may say it at each of thousands of steps
_ABOUT = 1.25  # times: a need that differs by less is not written again
_LONGEST_MESSAGE = 200


def say(fraction: float, message: str, *, by_code: bool = True) -> None:
    """Say how far the task is; does nothing outside a job.

    Parameters
    ----------
    fraction
        From 0 to 1.
    message
        One line for people.
    by_code
        Whether the code itself says it: a loop of steps then says nothing any more.
    """
    if by_code:
        _reporter.told = True
    if fraction > 0:
        note_step()
    if folder := os.environ.get("SUBMARINE_TASK_DIR"):
        _reporter.report(folder, fraction, " ".join(str(message).split())[:_LONGEST_MESSAGE])


def say_unused(text: str) -> None:
    """Say that the task ends soon because nobody uses it; does nothing outside a job.

    Parameters
    ----------
    text
        One line for people; empty where somebody uses it again.
    """
    if folder := os.environ.get("SUBMARINE_TASK_DIR"):
        _reporter.warn(folder, " ".join(text.split())[:_LONGEST_MESSAGE])


def is_told() -> bool:
    """Return whether the code itself says how far it is."""
    return _reporter.told


def note_kept(*, for_any: bool) -> None:
    """Tell the job's driver that this attempt has kept a checkpoint: it may be saved now.

    Parameters
    ----------
    for_any
        Whether any number of ranks can go on from it: then the job may be begun again with more.
    """
    folder = os.environ.get("SUBMARINE_TASK_DIR")
    if folder and not (_reporter.kept if for_any else _reporter.checkpoint):
        _reporter.keep(folder, for_any=for_any)


def note_needs(seconds: float) -> None:
    """Tell the job's driver how long a loop needs to come to the end of a step and keep it.

    Parameters
    ----------
    seconds
        0 where it keeps nothing.
    """
    folder = os.environ.get("SUBMARINE_TASK_DIR")
    if folder and seconds:
        _reporter.need(folder, seconds)


def flush() -> None:
    """Write what still waits to be written."""
    _reporter.flush()


class _ProgressWriter:
    """Writes the newest of what it is told, a few times a second."""

    told = False
    """Whether the code itself says how far it is."""

    checkpoint = False
    """Whether a checkpoint was kept."""

    kept = False
    """Whether one was kept that any number of ranks can go on from."""

    needs = 0.0
    """Seconds in which a loop would come to the end of a step and keep it."""

    unused: str | None = None
    """What there is to say of its end because nobody uses it; None where nothing ever was."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._newest: tuple[str, float | None, str] | None = None
        self._last: tuple[float | None, str] = None, ""
        self._waits = False
        self._owner = 0
        self._next = 0.0

    def report(self, folder: str, fraction: float | None, message: str) -> None:
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

    def keep(self, folder: str, *, for_any: bool) -> None:
        self.checkpoint = True
        self.kept = self.kept or for_any
        self._report_again(folder)

    def need(self, folder: str, seconds: float) -> None:
        if not self.needs / _ABOUT < seconds < self.needs * _ABOUT:  # nobody waits for less
            self.needs = seconds
            self._report_again(folder)

    def warn(self, folder: str, text: str) -> None:
        if text != self.unused:
            self.unused = text
            self._report_again(folder)

    def _report_again(self, folder: str) -> None:
        fraction, message = self._newest[1:] if self._newest else self._last
        self.report(folder, fraction, message)

    def _write_late(self, delay: float) -> None:
        time.sleep(delay)
        with self._lock:
            self._waits = False
            self._write()

    def _write(self) -> None:
        if self._newest is None:
            return
        folder, fraction, message = self._newest
        self._newest, self._last = None, (fraction, message)
        self._next = time.monotonic() + _EVERY
        told: dict[str, object] = {"fraction": fraction, "message": message}
        if self.checkpoint:
            told["checkpoint"] = True
        if self.kept:
            told["kept"] = True
        if self.needs:
            told["needs"] = self.needs
        if self.unused is not None:
            told["unused"] = self.unused
        aside = f"{folder}/.progress.json.{os.getpid()}"
        with suppress(OSError):  # a full disk is no reason to end a training
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode_in(folder))
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
                file.write(lean.dumps(told))
            os.replace(aside, f"{folder}/progress.json")  # noqa: PTH105 - as above

    def flush(self) -> None:
        """Write what still waits."""
        with self._lock:
            self._write()


_reporter = _ProgressWriter()


# How it came there at first: to its script, to the script's own code, to the end of its first step.


STARTUP = "startup"
"""A file of lines ``[attempt, name, seconds]``, by the monotonic clock of the task's machine.

With the job's events it tells where the time of a start went (`submarine_engine.waterfall`).
"""

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


def note_start(folder: str, name: str, at: float | None = None) -> None:
    """Note that the task has come to `name`.

    It is written with the next: before the user's first line there is one write.

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
    note_start(_folder, name)
    flush_start()


def note_step() -> None:
    """Note that a step of the training is done; the first alone is written."""
    global _is_step_due  # noqa: PLW0603 - as above
    if _is_step_due:
        _is_step_due = False
        # A launch command's processes know their task by its environment.
        if folder := _folder or os.environ.get("SUBMARINE_TASK_DIR"):
            note_start(folder, STEP)
            flush_start()


def note_no_step() -> None:
    """Note no step from now on: what runs in this process and its forks is call after call."""
    global _is_step_due  # noqa: PLW0603 - as above
    _is_step_due = False


def flush_start() -> None:
    """Write what is noted."""
    if not _waiting:
        return
    lines = b"".join(_waiting)
    _waiting.clear()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):  # a full disk: nobody's job fails for that
        file = os.open(f"{_folder}/{STARTUP}", flags, mode_in(_folder))
        try:
            os.write(file, lines)
        finally:
            os.close(file)
