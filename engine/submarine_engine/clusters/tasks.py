"""What is known of a task: how far it is, and how it ended.

A `TaskRun` is one task as its job's driver follows it. Progress is what the task says itself, else
what its log shows. The end is made of the exit status and ``outcome.json``; `final_state` puts it
into a state and words.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.events import Event, Granted, Moment, Progressed, Returned
from submarine_engine.history import LARGEST_OUTCOME, JobPaths, TaskPaths, read_foreign
from submarine_engine.job import JobState
from submarine_engine.lifecycle import is_echo
from submarine_engine.masking import Masker, masker_of

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Allocated

# A task's progress: what it says itself, else what its log shows.


_MOST = 65536
_OVERLAP = 512
_SHORTEST = 0.5  # seconds between two events: a bar on a card does not move sooner
_SHARE = 1000  # a gap is a thousandth of the time so far: a job of a week has not a million lines
_LONGEST_MESSAGE = 200
_NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading raises that is no JSON, or other JSON than a runtime writes."""


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
        self.needs = 0.0
        """Seconds in which the task's loop would come to the end of a step and keep it."""
        self._task = task
        self._began = self._told_at = time.monotonic()
        self._seen: dict[Path, tuple[int, int]] = {}
        self._told: tuple[float, str] | None = None
        self._epochs: dict[Path, tuple[int, int] | None] = {}
        self._explicit = False
        self._heard = b""
        self.checkpoint = False
        """Whether the task says that it has kept a checkpoint."""
        self.kept = False
        """Whether it says so of one that any number of tasks can go on from."""
        self.unused: str | None = None
        """What the task says of its end because nobody uses it; None where it never has."""

    def hear(self, said: bytes) -> None:
        """Take what the task says of itself where its file is elsewhere: the next look tells it.

        Parameters
        ----------
        said
            The content of its ``progress.json``.
        """
        self._heard = said

    @property
    def is_due(self) -> bool:
        """Whether it is time to tell anything new."""
        now = time.monotonic()
        return now - self._told_at >= max(_SHORTEST, (now - self._began) / _SHARE)

    def poll(self, *, last: bool = False) -> Progressed | None:
        """Return the task's progress where it is new and time to tell it; it is for the `last`.

        Parameters
        ----------
        last
            Whether the task is over: what was not told yet is told at once.
        """
        if not last and not self.is_due:
            return None
        found = self._said() or (None if self._explicit else self._shown())
        if found is None or found == self._told:
            return None
        self._told, self._told_at = found, time.monotonic()
        return Progressed(task=self._task.root.name, fraction=found[0], message=found[1])

    def _said(self) -> tuple[float, str] | None:
        heard, self._heard = self._heard, b""
        if not heard and not self._changed(self._task.progress):
            return None
        try:
            data = json.loads(heard or read_foreign(self._task.progress, _MOST))
            self.checkpoint = self.checkpoint or data.get("checkpoint") is True
            self.kept = self.kept or data.get("kept") is True
            needs = float(data.get("needs") or 0)
            self.needs = needs if 0 <= needs < math.inf else 0.0
            if "unused" in data:
                said = data["unused"]
                self.unused = self._masked(said) if isinstance(said, str) else ""
            fraction, message = float(data["fraction"]), str(data.get("message") or "")
        except (OSError, *_NONSENSE):
            return None
        if not 0 <= fraction <= 1:  # NaN too
            return None
        self._explicit = True
        return fraction, self._masked(message)

    def _masked(self, message: str) -> str:
        # Before it is cut: a part of a secret is not found.
        masker = self._masker()
        return (masker.text(message) if masker else message)[:_LONGEST_MESSAGE]

    def _shown(self) -> tuple[float, str] | None:
        # imported late: few jobs come here before they are over
        from submarine_runtime.recognise import last_epoch, recognise  # noqa: PLC0415

        for log in (self._task.displays, self._task.stderr, self._task.stdout):
            read_to = self._seen.get(log, (0, 0))[1]
            if not self._changed(log):
                continue
            text = _since(log, read_to - _OVERLAP, self._masker())
            if log == self._task.displays:
                text = "\r".join(_bars(text))
            self._epochs[log] = last_epoch(text) or self._epochs.get(log)
            if found := recognise(text, self._epochs[log]):
                return found[0], found[1][:_LONGEST_MESSAGE]
        return None

    def _masker(self) -> Masker | None:
        return masker_of(self._task.root.parent.parent)

    def _changed(self, path: Path) -> bool:
        try:
            status = path.lstat()
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            return False
        version = (status.st_mtime_ns, status.st_size)
        if self._seen.get(path) == version:
            return False
        self._seen[path] = version
        return True


def _bars(frames: str) -> Iterator[str]:
    """Yield what displays show, as a terminal would have it: the first line may be half a one."""
    from submarine_runtime.bars import NESTED  # noqa: PLC0415 - few jobs come here, see `poll`

    for line in frames.splitlines():
        with suppress(*_NONSENSE):
            frame = json.loads(line)
            nested = "\x1b[A" if (frame["metadata"] or {}).get(NESTED) else ""
            yield str(frame["data"]["text/plain"]) + nested


def _since(path: Path, offset: int, masker: Masker | None) -> str:
    """Return what a log holds from `offset`, secrets masked; the last part where that is much."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = max(0, offset, size - _MOST)
            if masker is None:
                data = os.pread(file.fileno(), _MOST, begin)
            else:
                log = file.fileno()
                data = masker.read(lambda n, at: os.pread(log, n, at), begin, size, hold=True)
            return data.decode(errors="replace")
    except OSError:
        return ""


# How a task ended, in words: exit status and ``outcome.json`` in, state and reason out.


_LONGEST_ERROR = 300
_LITTLE_ROOM = 1 << 20
CANNOT_RUN = 127
"""The exit status of a task whose program could not be run."""
NO_ROOM = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""What is none of the code's doing, and may be over in a while: a full disk, too many processes."""
TRY_AGAIN = 75
"""The exit status of a task whose runtime could not begin, and may later (`submarine_runtime`)."""

_ASKED = (-signal.SIGINT, -signal.SIGTERM)
"""How a task ends that was asked to: the runtime turns SIGTERM into an interrupt."""

_SIGNALS = {
    signal.SIGSEGV: "it touched memory that is not its own (segmentation fault)",
    signal.SIGABRT: "it gave up by abort()",
    signal.SIGBUS: "memory that it had mapped is gone (a full disk or /dev/shm, most likely)",
    signal.SIGILL: "it ran an instruction that this processor does not have",
    signal.SIGFPE: "an arithmetic error in native code",
    signal.SIGTERM: "somebody asked it to end",
    signal.SIGKILL: "somebody killed it from outside",
}


class Ending(NamedTuple):
    """What a task leaves behind.

    Parameters
    ----------
    status
        The exit status of its process, negative for a signal.
    outcome
        The content of ``outcome.json``; empty where the runtime wrote none.
    """

    status: int
    outcome: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The outcome's kind, empty where there is none."""
        return str(self.outcome.get("kind", ""))

    @property
    def exit_code(self) -> int:
        """The task's exit code: what the outcome says, since that was written in full.

        How the process left after that (a library that crashes in its clean-up) changes nothing.
        """
        code = self.outcome.get("exit_code")
        return code if self.kind and isinstance(code, int) else self.status

    @property
    def could_not_begin(self) -> bool:
        """Whether the task ended before its code: for want of room, or nobody let it begin."""
        return not self.kind and self.status == TRY_AGAIN

    @property
    def interrupted(self) -> bool:
        """Whether the script was asked to end (SIGTERM), and did not catch that."""
        error = self.outcome.get("error")
        return isinstance(error, dict) and error.get("type") == "KeyboardInterrupt"

    @property
    def paused(self) -> bool:
        """Whether it ended since it was asked to, its loop of steps between two of them if any."""
        return self.outcome.get("paused") is True or self.asked_to_end

    @property
    def final(self) -> bool:
        """Whether what it raised says that the job would come to the same again."""
        return self.outcome.get("final") is True

    @property
    def asked_to_end(self) -> bool:
        """Whether somebody has asked it to end, said or not: who kills may ask first."""
        return self.interrupted or (not self.kind and self.status in _ASKED)

    @property
    def came_to_its_end(self) -> bool:
        """Whether the script ran to its end.

        One that was asked to end meanwhile has handled that, as a notebook's cell handles an
        interrupt (``except KeyboardInterrupt``): it has succeeded.
        """
        return self.kind == "returned" and self.exit_code == 0

    def returned_at(self, started: Moment, ended: Moment) -> Moment | None:
        """Return when the function returned or raised, within the task's life; None if never.

        Parameters
        ----------
        started, ended
            When the task began, and when it was over.
        """
        if self.kind not in ("returned", "raised"):
            return None
        try:
            wall, mono = map(float, self.outcome["returned_at"])
        except _NONSENSE:
            return ended
        if not (math.isfinite(wall) and math.isfinite(mono)):
            return ended
        return Moment(wall, min(max(mono, started.mono), ended.mono))


def returned_event(task: str, ending: Ending, at: Moment) -> Returned:
    """Return the event that says when a task's function returned, and what it wrote then.

    Parameters
    ----------
    task
        Which task, as ``worker-0``.
    ending
        What it left.
    at
        When its function returned.
    """
    wrote = ending.outcome.get("wrote")
    size, seconds = 0, 0.0
    if isinstance(wrote, dict):
        with suppress(TypeError, ValueError, OverflowError):
            size, seconds = int(wrote.get("size") or 0), float(wrote.get("seconds") or 0)
    if not (size >= 0 and 0 <= seconds < math.inf):
        size, seconds = 0, 0.0
    return Returned(task=task, at=at, size=size, seconds=seconds)


def read_outcome(task: TaskPaths) -> Mapping[str, Any]:
    """Return ``outcome.json``, secrets masked; empty where there is none that can be read.

    Parameters
    ----------
    task
        The task's files.
    """
    masker = masker_of(task.root.parent.parent)
    try:
        outcome = json.loads(read_foreign(task.outcome, LARGEST_OUTCOME))
        masked = masker.outcome(outcome) if masker else outcome
    except (OSError, *_NONSENSE):
        return {}
    return masked if isinstance(masked, dict) else {}


def tells_of_another(ending: Ending) -> bool:
    """Return whether what a task failed by tells of another one that it lost.

    By its error; or it gave up in native code (``abort()``), as frameworks do that cannot raise
    there.

    Parameters
    ----------
    ending
        What the task left.
    """
    if not ending.kind:
        return ending.status == -signal.SIGABRT
    error = ending.outcome.get("error")
    if ending.kind != "raised" or not isinstance(error, dict):
        return False
    types = (str(error.get("type")), str(error.get("builtin")))
    return is_echo(types, str(error.get("message") or ""))


def final_task_state(ending: Ending, folder: Path, *, oom_killed: bool) -> tuple[JobState, str]:
    """Return the job's final state and why, for a task that nobody ended on purpose.

    Parameters
    ----------
    ending
        What the task left.
    folder
        The job's folder: a full disk explains much.
    oom_killed
        Whether the kernel has ended a process for lack of memory meanwhile.
    """
    code = ending.exit_code
    if code == 0 and ending.kind in ("returned", "exited"):
        return JobState.SUCCEEDED, ""
    if ending.kind == "raised":
        return JobState.FAILED, _raised(ending.outcome)
    return JobState.FAILED, _in_words(code, ending.kind, oom_killed=oom_killed) + _disk(folder)


def _raised(outcome: Mapping[str, Any]) -> str:
    error = outcome.get("error")
    if not isinstance(error, dict):
        return "the job's code raised an error"
    message = str(error.get("message") or "").strip().partition("\n")[0]
    text = f"{error.get('type')}: {message}" if message else str(error.get("type"))
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"


def _in_words(code: int, kind: str, *, oom_killed: bool) -> str:
    if code >= 0:
        if code == TRY_AGAIN and not kind:
            return "the task could not begin; its log says why"
        if code == CANNOT_RUN and not kind:
            return "the job's program could not be run; its log says why"
        how = "" if kind else ", without a last word from Python (os._exit?)"
        return f"exited with code {code}{how}"
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"ended by signal {-code}"
    why = _SIGNALS.get(number, "")
    if number is signal.SIGKILL and oom_killed:
        why = "the kernel ended it: the machine had no memory left"
    return f"ended by {number.name}" + (f": {why}" if why else "")


def _disk(folder: Path) -> str:
    try:
        room = os.statvfs(folder)
    except OSError:
        return ""
    full = room.f_bavail * room.f_frsize < _LITTLE_ROOM
    return f"; the disk that holds {folder} is full" if full else ""


# A task as its driver follows it.


class TaskRun(ABC):
    """One task from its grant to its release.

    Parameters
    ----------
    paths, task
        Whose it is.
    gpus
        How many it was asked for with.
    """

    def __init__(self, paths: JobPaths, task: str, gpus: int) -> None:
        self.task = task
        self.files = paths.task(task)
        self.gpus = gpus
        self.id = ""
        self.node = ""
        self.started: Moment | None = None
        self.spoke = False  # any text of it has come
        self.over = False
        self.released = False
        self.oom_killed = False  # the kernel has ended a process for lack of memory meanwhile
        self.attempt = 1
        self.said = ""  # what the cluster says of its end
        self.lost = False  # the cluster has ended it, unasked
        self.unstarted = False  # there was no room for it
        self.late: list[Event] = []  # of a task that was over before it was looked at
        self.gathered = False  # its application ends with it, and the node gives up its files
        self.follows = False  # it is not of rank 0
        self.begins = False  # its first line may come at any moment
        self.progress = Progress(self.files)

    @property
    def is_live(self) -> bool:
        """Whether its files are seen as they are now."""
        return True

    @property
    @abstractmethod
    def exit_status(self) -> int | None:
        """The exit status of its process, negative for a signal; None where nobody saw it."""

    def give(self, found: Allocated) -> None:
        """Follow the container that the cluster gave to the task from now on.

        Parameters
        ----------
        found
            As `Request.ask` returned it.
        """
        self.id, self.node = found.id, found.node

    def granted(self, began: float) -> Granted:
        """Return that the container is the task's since `began`, on the cluster's wall clock.

        Which GPUs it was given only its node knows; the task tells when it starts. Until then they
        go by numbers of the task's own, `worker-0/0`, which `TaskStatus.named_gpus` leaves out.

        Parameters
        ----------
        began
            In seconds since the epoch.
        """
        return Granted(
            task=self.task,
            host=self.node.partition(":")[0],
            container=self.id,
            gpus=tuple(f"{self.task}/{number}" for number in range(self.gpus)),
            attempt=self.attempt,
            at=here(began),
        )

    @abstractmethod
    def poll(self, *, hurry: bool = False) -> list[Event]:
        """See how far it is; return what is new.

        Parameters
        ----------
        hurry
            Whether its first line is waited for.

        Raises
        ------
        ClusterError
            Its node does not answer.
        OSError
            The job's folder cannot be written.
        """

    def last_progress(self) -> list[Event]:
        """Return how far the task came where that was not told yet."""
        progressed = self.progress.poll(last=True) if self.started is not None else None
        return [progressed] if progressed else []

    @abstractmethod
    def bring_home(self) -> None:
        """Bring home what a task that is over has left, as far as it can be had.

        Raises
        ------
        OSError
            The job's folder cannot be written.
        """


def here(wall: float) -> Moment:
    """Return the moment of a node's wall clock, on this machine's monotonic clock.

    Parameters
    ----------
    wall
        In seconds since the epoch.
    """
    now = Moment.now()
    return Moment(wall, now.mono - max(0.0, now.wall - wall))
