"""What happens to a job, as plain data: the one stream that every front end renders.

A cluster writes `Event` objects; `submarine_engine.lifecycle` folds them into a status. Log bytes
travel in the same stream as `LogChunk`, but are never stored twice: they are read from the task's
log files at the cursor's offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from submarine_engine.job import JobState


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, told twice.

    Parameters
    ----------
    wall
        Seconds since the Unix epoch: for people. The clock may jump.
    mono
        Seconds of the host's monotonic clock: for durations. Comparable between processes of one
        host since its start (Linux ``CLOCK_MONOTONIC``), not between hosts.
    """

    wall: float
    mono: float

    @classmethod
    def now(cls) -> Moment:
        """Read both clocks."""
        return cls(time.time(), time.monotonic())

    def until(self, later: Moment) -> float:
        """Return the seconds from this moment to `later`, never negative.

        Parameters
        ----------
        later
            A moment of the same machine. Where that was started anew in between, the wall clock
            counts.
        """
        passed = later.mono - self.mono
        if passed < 0:
            passed = later.wall - self.wall
        return max(0.0, passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a job, and when."""

    at: Moment = field(default_factory=Moment.now)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the fields, and ``"event"``: the class's name."""
        data = asdict(self)
        data["at"] = [self.at.wall, self.at.mono]
        return {"event": type(self).__name__, **data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted(Event):
    """The job is on record; `gpus` are asked for in all."""

    gpus: int
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Event):
    """The job waits in the queue; `ahead` jobs are before it; `reason` in the cluster's words."""

    ahead: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted(Event):
    """A container with `gpus` (their ids) is the task's: from now on they are held."""

    task: str
    host: str
    container: str
    gpus: tuple[str, ...] = ()
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterStarted(Event):
    """The cluster's own process for the job runs: YARN's application master.

    Parameters
    ----------
    seconds
        How long it took, from where it was asked for; 0 where it ran already.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The task's code runs: from now on its GPUs are busy.

    Parameters
    ----------
    gpus
        Where only the task knows their ids.
    clock
        What the monotonic clock of the task's machine said then; None where it is this machine's.
    """

    task: str
    gpus: tuple[str, ...] = ()
    clock: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """The task says how far it is: `fraction` from 0 to 1."""

    task: str
    fraction: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something is wrong with a job that goes on, in words; empty where it is right again.

    Parameters
    ----------
    unused
        Whether the job says that nobody uses it: it ends soon, unless somebody does.
    """

    text: str
    unused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Event):
    """The task's function returned or raised.

    Parameters
    ----------
    size, seconds
        What was then written for the notebook, in bytes, and how long that took.
    """

    task: str
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited(Event):
    """The task's last process is gone; `exit_code` is negative for a signal, as in `subprocess`."""

    task: str
    exit_code: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Event):
    """The cluster counts the task's GPUs as free again."""

    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Event):
    """The job is begun again: all its tasks have ended, and are asked for anew.

    Parameters
    ----------
    attempt
        Which attempt begins; the first is 1.
    reason
        Why the one before it ended.
    counted
        Whether that counts against ``--retries``: the code's own failure does, a lost node does
        not.
    """

    attempt: int
    reason: str = ""
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing(Event):
    """The job is asked to write a checkpoint and end: it is to go on with more tasks.

    `reason` says in words how many there is room for.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized(Event):
    """From this attempt on the job has these tasks, which ask for `gpus` in all.

    Said before they are granted anything, and only where they are others than before.
    """

    tasks: tuple[str, ...]
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """Somebody wants the job to end; `expired` where that is a limit of its own: time, idleness."""

    reason: str = ""
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The job is over; `state` is final, `reason` says why in words.

    Parameters
    ----------
    failed_task
        The task whose failure that was; empty where it was none's.
    """

    state: JobState
    reason: str = ""
    failed_task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChunk:
    """Bytes of one log of one task, exactly as they were written, but for masked secrets.

    Parameters
    ----------
    task
        For example ``worker-0``.
    stream
        ``stdout`` or ``stderr``.
    offset
        Where in that log `data` begins, in bytes.
    """

    task: str
    stream: str
    offset: int
    data: bytes

    def after(self, offset: int) -> LogChunk:
        """Return what lies at `offset` of the log and after it; its data may be empty.

        Parameters
        ----------
        offset
            Bytes from the log's beginning.
        """
        skipped = min(len(self.data), max(0, offset - self.offset))
        return replace(self, offset=self.offset + skipped, data=self.data[skipped:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """Something that a task showed, as a notebook's cell shows it: data by MIME type.

    What it holds comes from the job: hostile, as any notebook's output, until it is trusted.

    Parameters
    ----------
    task
        For example ``worker-0``.
    offset
        Where in the task's displays it begins, in bytes.
    kind
        ``display``; ``update`` for a new state of what stands under `display_id`; ``clear`` takes
        away all before it, with `wait` when something new comes.
    stdout, stderr
        How many bytes of each log come before it.
    last
        It came when the code was over already: figures that were left open. In a notebook they
        stand below the cell's value.
    mark
        Whose it is, as it stands before lines of text, where it is shown among several tasks'.
    """

    task: str
    offset: int
    kind: str = "display"
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    display_id: str | None = None
    wait: bool = False
    stdout: int = 0
    stderr: int = 0
    last: bool = False
    mark: str = ""

    @property
    def text(self) -> str:
        """What a terminal shows of it."""
        for kind in ("text/plain", "text/markdown", "text/latex"):
            value = self.data.get(kind)
            if isinstance(value, list) and all(isinstance(line, str) for line in value):
                value = "".join(value)
            if isinstance(value, str):
                return value
        return "".join(f"<{kind}>" for kind in list(self.data)[:1])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the fields but for `mark`, and ``"event": "Display"``."""
        told = asdict(self)
        del told["mark"]  # how it is shown is for who shows it
        return {"event": "Display", **told}


DISPLAY_KINDS = ("display", "update", "clear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Display):
    """A task asks a person, by ``input()`` or ``getpass()``: kind ``question``, then ``asked``.

    The log has the question as text, too: the prompt is what comes in stdout right after the first
    of the two, what was typed right after the second.

    Parameters
    ----------
    number
        Of the task's questions, from 1.
    prompt
        What is asked, as the job wrote it.
    password
        Whether what is typed must not be shown.
    """

    number: int
    prompt: str = ""
    password: bool = False


QUESTION_KINDS = ("question", "asked")


def _question_from_json(data: Mapping[str, Any], places: Mapping[str, Any]) -> Question:
    number, prompt = data.get("number"), data.get("prompt", "")
    if type(number) is not int or number < 1 or not isinstance(prompt, str):
        raise ValueError("no question")
    password = data.get("password") is True
    return Question(kind=data["kind"], number=number, prompt=prompt, password=password, **places)


def display_from_json(data: object, *, task: str, offset: int) -> Display:
    """Build from a frame that the runtime wrote.

    Parameters
    ----------
    data
        The frame.
    task
        Which task showed it.
    offset
        Where the frame begins, in bytes.

    Raises
    ------
    ValueError
        `data` is no such frame.
    """
    if not isinstance(data, dict) or data.get("kind") not in DISPLAY_KINDS + QUESTION_KINDS:
        raise ValueError("no display")
    places = {name: data.get(name) or 0 for name in ("stdout", "stderr")}
    if not all(type(place) is int and place >= 0 for place in places.values()):
        raise ValueError("no display")
    if data["kind"] in QUESTION_KINDS:
        return _question_from_json(data, {"task": task, "offset": offset, **places})
    told = {name: data.get(name, {}) for name in ("data", "metadata")}
    display_id = data.get("id")
    if (
        not all(isinstance(value, dict) for value in told.values())
        or not (display_id is None or isinstance(display_id, str))
        or (data["kind"] == "update" and not display_id)
    ):
        raise ValueError("no display")
    return Display(
        task=task,
        offset=offset,
        kind=data["kind"],
        display_id=display_id,
        wait=data.get("wait") is True,
        last=data.get("last") is True,
        data=told["data"],
        metadata=told["metadata"],
        stdout=places["stdout"],
        stderr=places["stderr"],
    )


EVENTS: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Submitted, Waiting, MasterStarted, Granted, Started, Progressed, Warned, Returned, Exited,
        Released, Retried, Growing, Resized, CancelRequested, Finished,
    )
}  # fmt: skip


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Build the event that `Event.to_json` wrote; fields of a later release are left aside.

    Raises
    ------
    ValueError, KeyError, TypeError
        `data` is no event.
    """
    kind = EVENTS[data["event"]]
    known = {f.name for f in fields(kind)}
    values = {key: value for key, value in data.items() if key in known}
    values["at"] = Moment(*values["at"])
    for key, value in values.items():
        if isinstance(value, list):
            values[key] = tuple(value)
    if "state" in values:
        values["state"] = JobState(values["state"])
    return kind(**values)
