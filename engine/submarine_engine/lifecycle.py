"""The life of a job as a pure state machine: events in, new status and GPU ledger out.

No I/O and no clock: time comes with the events. Every cluster feeds it, every front end reads it.
What is to be done with a job is decided here as well (`decide`): observations in, events and
instructions out. Whoever drives a job carries them out.

The ledger of a task, from its events::

    Submitted ── queued ── Granted ── held ── Started ── busy ── Returned ── … ── Released
                                                                     └ released_after ┘

An event that comes too late (after the job's end, or for a task that is through) changes nothing:
streams are read again from old cursors, and clusters repeat themselves.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from submarine_engine.amounts import exactly
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    Granted,
    Growing,
    MasterStarted,
    Moment,
    Progressed,
    Released,
    Resized,
    Retried,
    Returned,
    Started,
    Submitted,
    Waiting,
    Warned,
)
from submarine_engine.job import JobState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task as it stands; its moments are its part of the GPU ledger.

    Parameters
    ----------
    gpus
        Ids of the GPUs granted; ``CONTAINER/NUMBER`` where their ids are not known yet.
    queued, held, busy, returned, exited, released
        When each stage began; None where it was not reached.
    progress
        From 0 to 1; None where the task never said.
    exit_code
        Negative for a signal, as in `subprocess`.
    clock
        As `Started` has it.
    """

    task: str
    state: TaskState = TaskState.PENDING
    attempt: int = 1
    host: str = ""
    container: str = ""
    gpus: tuple[str, ...] = ()
    queued: Moment | None = None
    held: Moment | None = None
    busy: Moment | None = None
    returned: Moment | None = None
    exited: Moment | None = None
    released: Moment | None = None
    progress: float | None = None
    message: str = ""
    exit_code: int | None = None
    reason: str = ""
    wrote: tuple[int, float] = (0, 0.0)
    clock: float | None = None

    @property
    def role(self) -> str:
        """The role that the task is a member of."""
        return self.task.rpartition("-")[0]

    @property
    def place(self) -> str:
        """The task's name and where it is, for people: ``worker-2 on gpu-3``."""
        return f"{self.task} on {self.host}" if self.host else self.task

    @property
    def named_gpus(self) -> tuple[str, ...]:
        """Those of `gpus` whose ids are known: some clusters tell only a running task."""
        return tuple(gpu for gpu in self.gpus if "/" not in gpu)

    @property
    def released_after(self) -> float | None:
        """Seconds from the function's return (else the last process's end) to the GPUs' release."""
        start = self.returned or self.exited
        return start.until(self.released) if start and self.released else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as it stands after the events so far.

    Parameters
    ----------
    warning
        What is wrong with a job that goes on, in words; empty where nothing is.
    unused
        Whether that is that nobody uses it: it ends soon, unless somebody does.
    failed_task
        The task whose failure the job's is: the first that failed by itself; empty where none did.
    started
        When its code began first.
    attempt
        How often it has been begun, this time included; `tasks` are those of this attempt.
    failures
        How many former attempts ended by the code's own failure. The cluster ended the others.
    retried
        Why the attempt before this one ended; empty in the first.
    spent
        Seconds that former attempts were ``queued``, ``held`` and ``busy``.
    growing
        Why this attempt is asked to end, where that is to go on with more tasks.
    grown
        How many former attempts were ended for that.
    gone
        Tasks that former attempts had, and this one has not; their logs stay.
    master
        Seconds that this attempt has waited for the cluster's own process to run; 0 for none.
    """

    state: JobState = JobState.QUEUED
    reason: str = ""
    asked_gpus: int = 0
    ahead: int | None = None
    waiting_reason: str = ""
    warning: str = ""
    unused: bool = False
    submitted: Moment | None = None
    started: Moment | None = None
    finished: Moment | None = None
    cancelling: bool = False
    failed_task: str = ""
    tasks: tuple[TaskStatus, ...] = ()
    attempt: int = 1
    failures: int = 0
    retried: str = ""
    spent: tuple[float, float, float] = (0.0, 0.0, 0.0)
    growing: str = ""
    grown: int = 0
    gone: tuple[str, ...] = ()
    master: float = 0.0
    # Where each task of `tasks` stands: hundreds are looked for, each at each of its events.
    _places: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def logged(self) -> tuple[str, ...]:
        """The ids of all tasks that may have a log: those of this attempt, then those `gone`."""
        return (*(task.task for task in self.tasks), *self.gone)

    @property
    def ranked(self) -> tuple[TaskStatus, ...]:
        """The tasks in the order of their ranks, then those that have none: they serve these."""
        return tuple(sorted(self.tasks, key=lambda task: _place_of(task.role)))

    def task(self, task_id: str) -> TaskStatus | None:
        """Return the task of that id, None where the job has none such.

        Parameters
        ----------
        task_id
            ``worker-0``: the role and the task's number in it.
        """
        place = self.place(task_id)
        return None if place is None else self.tasks[place]

    def place(self, task_id: str) -> int | None:
        """Return where the task of that id stands in `tasks`, None where the job has none such.

        Parameters
        ----------
        task_id
            As `task` has it.
        """
        noted = self._places.get(task_id)
        if noted is not None:
            return noted
        return next((at for at, task in enumerate(self.tasks) if task.task == task_id), None)

    @property
    def progress(self) -> float | None:
        """Mean progress of the tasks that report any, from 0 to 1; 1 for a job that succeeded."""
        if self.state is JobState.SUCCEEDED:
            return 1.0
        known = [task.progress for task in self.tasks if task.progress is not None]
        return sum(known) / len(known) if known else None

    @property
    def ledger(self) -> Ledger:
        """The GPU ledger of all tasks together."""
        return Ledger(self)


class Ledger:
    """GPU time of a job: queued, held, busy, released.

    A view on a `JobStatus`; stages that still run are counted up to `now`.

    Parameters
    ----------
    status
        The job, as it stands or as it ended.
    """

    def __init__(self, status: JobStatus) -> None:
        self._status = status

    @property
    def gpus(self) -> int:
        """GPUs granted at most, all tasks together; those asked for while none is granted."""
        return sum(len(task.gpus) for task in self._status.tasks) or self._status.asked_gpus

    @property
    def held_now(self) -> int:
        """GPUs that the cluster counts as this job's at this moment."""
        return sum(len(task.gpus) for task in self._status.tasks if task.held and not task.released)

    def seconds(self, now: Moment) -> dict[str, float]:
        """Return seconds spent ``queued``, ``held`` (granted, code not yet running) and ``busy``.

        Each is the longest of any task, and of a job that was begun again the sum over its
        attempts, so that the three add up to the job's own elapsed time.

        Parameters
        ----------
        now
            Until when to count for a job that is not over.
        """
        status = self._status
        end = status.finished or now
        queued = held = busy = 0.0
        for task in status.tasks:
            if task.queued:
                queued = max(queued, task.queued.until(task.held or task.exited or end))
            if task.held:
                held = max(held, task.held.until(task.busy or task.exited or end))
            if task.busy:
                busy = max(busy, task.busy.until(task.returned or task.exited or end))
        former = status.spent
        return {"queued": former[0] + queued, "held": former[1] + held, "busy": former[2] + busy}

    @property
    def released_after(self) -> float | None:
        """Seconds from return to release, the slowest task's; None until all are released."""
        waits = [task.released_after for task in self._status.tasks if task.held]
        known = [wait for wait in waits if wait is not None]
        return max(known) if known and len(known) == len(waits) else None


def fold(events: Iterable[Event], status: JobStatus | None = None) -> JobStatus:
    """Apply `events` in order to `status` (a new job's where None).

    Parameters
    ----------
    events
        All of a job's, or those after `status`.
    status
        The job before them.
    """
    status = status or JobStatus()
    for event in events:
        status = apply(status, event)
    return status


def apply(status: JobStatus, event: Event) -> JobStatus:
    """Return the status after `event`; the same one where the event comes too late to matter.

    Parameters
    ----------
    status
        The job before it.
    event
        What has happened.
    """
    if status.state.final and not isinstance(event, Released):
        return status
    return _apply(event, status)


@singledispatch
def _apply(event: Event, status: JobStatus) -> JobStatus:  # noqa: ARG001 - the fall-back
    return status


@_apply.register
def _(event: Submitted, status: JobStatus) -> JobStatus:
    if status.submitted:
        return status
    tasks = tuple(TaskStatus(task=task, queued=event.at) for task in event.tasks)
    places = {task: place for place, task in enumerate(event.tasks)}
    return replace(status, submitted=event.at, asked_gpus=event.gpus, tasks=tasks, _places=places)


@_apply.register
def _(event: Waiting, status: JobStatus) -> JobStatus:
    if status.state is not JobState.QUEUED:
        return status
    return replace(status, ahead=event.ahead, waiting_reason=event.reason)


@_apply.register
def _(event: Warned, status: JobStatus) -> JobStatus:
    return replace(status, warning=event.text, unused=event.unused and bool(event.text))


@_apply.register
def _(event: Granted, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None:
        return status
    if event.attempt < task.attempt:  # of the attempt before this one
        return status
    if event.attempt == task.attempt and (task.held or task.state.final):
        # Given anew, since nothing had begun with what was given before; else it is only repeated.
        anew = task.state is TaskState.STARTING and event.container != task.container
        if not anew:
            return status
    granted = TaskStatus(
        task=task.task,
        state=TaskState.STARTING,
        attempt=event.attempt,
        host=event.host,
        container=event.container,
        gpus=event.gpus,
        queued=task.queued,
        held=event.at,
    )
    state = JobState.STARTING if status.state is JobState.QUEUED else status.state
    return replace(_with(status, granted), state=state, ahead=None, waiting_reason="")


@_apply.register
def _(event: MasterStarted, status: JobStatus) -> JobStatus:
    # Said once for an attempt, before it is given anything: another driver may say it again.
    if status.master or any(task.held for task in status.tasks):
        return status
    return replace(status, master=event.seconds)


@_apply.register
def _(event: Started, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None or task.state is not TaskState.STARTING:
        return status
    # Another number of GPUs than was granted is nobody's to say but the cluster's.
    gpus = event.gpus if len(event.gpus) == len(task.gpus) else task.gpus
    # A container that a busy driver has seen late was given when its code began, at the latest.
    held = event.at if task.held and not task.held.until(event.at) else task.held
    running = replace(
        task, state=TaskState.RUNNING, held=held, busy=event.at, gpus=gpus, clock=event.clock
    )
    return replace(
        _with(status, running), state=JobState.RUNNING, started=status.started or event.at
    )


@_apply.register
def _(event: Progressed, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None or task.state is not TaskState.RUNNING:
        return status
    fraction = min(1.0, max(0.0, event.fraction))
    return _with(status, replace(task, progress=fraction, message=event.message))


@_apply.register
def _(event: Returned, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None or task.state is not TaskState.RUNNING or task.returned:
        return status
    wrote = event.size, event.seconds
    return _with(status, replace(task, returned=event.at, wrote=wrote))


@_apply.register
def _(event: Exited, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None or task.state.final:
        return status
    states = [one.state for one in status.tasks]
    leading = leaders(one.task for one in status.tasks)
    work = {one.state for one in status.tasks if one.task in leading}
    served = task.task not in leading and work == {TaskState.SUCCEEDED}
    # One that was killed after another had failed was killed for that.
    broken = event.exit_code == -signal.SIGKILL and TaskState.FAILED in states
    if (status.cancelling or served or broken) and event.exit_code != 0:
        state = TaskState.KILLED
    else:
        state = TaskState.SUCCEEDED if event.exit_code == 0 else TaskState.FAILED
    through = replace(
        task, state=state, exited=event.at, exit_code=event.exit_code, reason=event.reason
    )
    return _with(status, through)


@_apply.register
def _(event: Released, status: JobStatus) -> JobStatus:
    task = status.task(event.task)
    if task is None or task.held is None or task.released:
        return status
    return _with(status, replace(task, released=event.at))


@_apply.register
def _(event: Retried, status: JobStatus) -> JobStatus:
    known = max([status.attempt, *(task.attempt for task in status.tasks)])
    if event.attempt <= known or status.submitted is None:
        return status
    queued, held, busy = status.ledger.seconds(event.at).values()
    tasks = tuple(
        TaskStatus(task=task.task, attempt=event.attempt, queued=event.at) for task in status.tasks
    )
    return replace(
        status,
        state=JobState.QUEUED,
        attempt=event.attempt,
        failures=status.failures + event.counted,
        growing="",
        grown=status.grown + bool(status.growing and not event.counted),
        retried=event.reason,
        spent=(queued, held, busy),
        ahead=None,
        waiting_reason="",
        warning="",
        unused=False,
        tasks=tasks,
        master=0.0,
    )


@_apply.register
def _(event: Growing, status: JobStatus) -> JobStatus:
    return replace(status, growing=event.reason)


@_apply.register
def _(event: Resized, status: JobStatus) -> JobStatus:
    names = tuple(task.task for task in status.tasks)
    # Given anew, since nothing had begun with what was given before: as `Granted` has it.
    begun = any(task.busy or task.state.final for task in status.tasks)
    if event.tasks == names or begun or status.submitted is None:
        return status
    queued = max((task.queued for task in status.tasks if task.queued), default=event.at, key=_mono)
    fresh = (TaskStatus(task=task, attempt=status.attempt, queued=queued) for task in event.tasks)
    had = status.attempt > 1
    gone = [task for task in (*status.gone, *(names if had else ())) if task not in event.tasks]
    return replace(
        status,
        tasks=tuple(fresh),
        asked_gpus=event.gpus,
        gone=tuple(dict.fromkeys(gone)),
        _places={task: place for place, task in enumerate(event.tasks)},
    )


def _mono(moment: Moment) -> float:
    return moment.mono


@_apply.register
def _(event: CancelRequested, status: JobStatus) -> JobStatus:
    return replace(status, cancelling=True, reason=event.reason)


@_apply.register
def _(event: Finished, status: JobStatus) -> JobStatus:
    if not event.state.final:
        return status
    tasks = tuple(
        task
        if task.state.final
        else replace(task, state=TaskState.KILLED, exited=task.exited or event.at)
        for task in status.tasks
    )
    return replace(
        status,
        state=event.state,
        reason=event.reason,
        failed_task=event.failed_task,
        finished=event.at,
        ahead=None,
        waiting_reason="",
        tasks=tasks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    """How a task ended by itself: what its driver saw, without what anybody wanted.

    Parameters
    ----------
    state
        ``SUCCEEDED``, ``FAILED``, or ``LOST`` where nobody knows.
    at
        When its last process was gone.
    returned
        When its function returned or raised; None where it never did.
    to_its_end
        Its script ran to its end. It may have been asked to end meanwhile and have handled that,
        as a notebook's cell handles an interrupt (``except KeyboardInterrupt``).
    echo
        What it failed by tells of another task that it lost: a connection that was reset.
    task
        Whose end it is; empty where nobody asks.
    lost
        The cluster ended it, or lost it with its node; the code itself had not failed.
    paused
        It has ended since it was asked to, and not by itself: a loop that keeps checkpoints has
        stopped between two steps, or the request was an interrupt.
    unstarted
        It could not even be started: the disk is full, or there is no room for a process.
    final
        What it raised says that the job would come to the same again: it is not begun again.
    """

    state: JobState
    reason: str = ""
    at: Moment | None = None
    returned: Moment | None = None
    to_its_end: bool = False
    echo: bool = False
    task: str = ""
    lost: bool = False
    paused: bool = False
    unstarted: bool = False
    final: bool = False

    @property
    def is_of_another(self) -> bool:
        """Whether another task's end may be why: nobody of us asked it to end, where it was asked.

        A cluster that looks after a job's tasks itself ends the rest of them where one is broken.
        """
        return self.echo or (self.paused and not self.lost)


def final_state(
    ends: Sequence[TaskEnd],
    *,
    cancelled: CancelRequested | None = None,
    cause: str = "",
    blamed: str = "",
) -> tuple[JobState, str]:
    """Return a job's final state and why, once all its tasks are over.

    What each cluster promises: a job that had returned when it was cancelled keeps its result, and
    so does one that handled the cancel; any other is cancelled, or has failed where it was its own
    time limit, or its idle GPUs, that asked. A job that was ended for a cause has failed of that,
    unless a function of it had returned. Else the first task to fail speaks.

    Parameters
    ----------
    ends
        Of all tasks, in the order of the spec: one at least. One that never began is lost, or has
        failed.
    cancelled
        The first request to end the job.
    cause
        Why the driver itself ended the job: a limit, a folder that was deleted.
    blamed
        As `first_to_fail`.
    """
    returned = [end.returned for end in ends if end.returned]
    kept = any(cancelled and at.mono < cancelled.at.mono for at in returned)
    if cancelled and not kept and not all(end.to_its_end for end in ends):
        return _ended_by(cancelled), cancelled.reason
    if cause and not returned:
        return JobState.FAILED, cause
    first = first_to_fail(ends, blamed)
    if first is None:
        return JobState.SUCCEEDED, next((end.reason for end in ends if end.reason), "")
    return first.state, first.reason


def first_to_fail(ends: Iterable[TaskEnd], blamed: str = "") -> TaskEnd | None:
    """Return the end of the task that failed first, and by itself; None where none failed.

    A task that loses another one may be through before that one has said why it failed: its words
    are worth less than those of any other, however early they come.

    Parameters
    ----------
    ends
        Of tasks that are over.
    blamed
        The task for whose failure the others were ended.
    """
    wrong = [end for end in ends if end.state is not JobState.SUCCEEDED]
    return min(wrong, key=lambda end: _order_of_blame(end, blamed), default=None)


def _order_of_blame(end: TaskEnd, blamed: str) -> tuple[bool, bool, float]:
    ended_by_us = bool(blamed) and end.task != blamed and end.returned is None
    return ended_by_us, end.is_of_another, _ended_at(end)


_LOST_PEER = (
    r"connection (?:was |is |has been )?(?:reset|closed|refused|aborted|lost|broken)"
    r"|(?:closed|reset) by peer|broken ?pipe|socket closed|lost connection|failed to connect"
    r"|\bunavailable|remote process|ncclremote|nccl.{0,40}aborted|collective ops is aborted"
    r"|heartbeat|recvvalue failed|sendbytes failed"
    r"|collective/result\.cc"  # where XGBoost raises whatever its ranks' connections say
)
_LOST_TYPES = frozenset(
    "BrokenPipeError ConnectionAbortedError ConnectionError ConnectionRefusedError "  # noqa: SIM905 - as a list it is five lines
    "ConnectionResetError EOFError IncompleteReadError".split()
)


_LONGEST_ERROR = 10_000


def is_echo(types: Iterable[str], message: str) -> bool:
    """Return whether an exception tells of another task that was lost, as frameworks word that.

    Parameters
    ----------
    types
        Names of its type, and of the built-in one that it is.
    message
        What it says.
    """
    if not _LOST_TYPES.isdisjoint(types):
        return True
    return re.search(_LOST_PEER, message[:_LONGEST_ERROR], re.IGNORECASE) is not None


def _ended_by(request: CancelRequested) -> JobState:
    return JobState.FAILED if request.expired else JobState.CANCELLED


def _ended_at(end: TaskEnd) -> float:
    """Return when a task ended: as it says itself, since several may be seen to be gone at once."""
    at = end.returned or end.at
    return at.mono if at else float("inf")


# What is to be done with a job: observations in, events and instructions out.


MISSED = 60.0
"""Seconds for which a cluster may count a container no more without a word of its end.

A ResourceManager that was started anew lists none until their nodes have told it of them.
"""

WORKERS = ("chief", "worker")
"""The roles whose tasks do the job's work, in the order of their ranks; all others serve them."""

MOST_GRACE = 60.0
"""Seconds that a job may hold its GPUs for, at most, since its steps are long."""

_DONE = JobState.SUCCEEDED

GROW_AFTER = 30.0
"""Seconds for which there has to be room for more workers before a job goes on with them."""

_UNKEPT = 300.0
"""Seconds of room after which a job is told that it does not grow, for want of a checkpoint.

A loop of steps keeps its first one after a minute, and longer steps take longer.
"""

HELLO_WITHIN = 300.0
"""Seconds that a task of several has to say hello, once all of them have their containers.

A node may have to fetch the job's environment first, some gigabytes of it.
"""

_ASKED_WAITS = 3.0  # seconds likewise, where it was asked to end: a cluster may tell late of whom
_ECHO_WAITS = 0.3
"""Seconds that a task's failure waits which tells of another's: that one is about to say why.

What it holds is closed as its error passes through it, before it can write down how it ended.
"""

_KILL_EVERY = 1.0  # seconds: a node that was away hears the next one

IDLE = "(--idle)"
"""What the reason holds of a job that was ended since its GPUs did nothing."""

TOO_MUCH_MEMORY = "it used more memory than it was given"
"""What the reason holds of a task that the cluster ended for that."""

FRAMES_WITHIN = 2.0
"""Seconds for which a task is not killed that another one's failure ends: it keeps its frames.

It takes a tenth of them as a rule, and ends by itself then. All of them are spent where native code
holds Python's lock.
"""

LOST_TRIES = 10
"""How often a job is begun again for nothing that its code did.

Bounded all the same: code that takes its node down with it, or a queue that takes back whatever it
gives, would go round for ever and hold GPUs meanwhile.
"""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a job is begun again whose tasks could not be started: twice as many each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSeen:
    """What a driver sees of a task at one look.

    Parameters
    ----------
    container
        What the cluster calls the task's container; empty where it has none yet.
    held
        Whether the cluster counts the container as the job's; None where it was not asked now, or
        does not answer.
    fresh
        The container is so new that the cluster need not count it yet.
    over
        The task's own files, or the cluster, say that it has ended.
    end
        How it ended; None until all that it left is home.
    host
        Where the container is, for people.
    hello
        Whether the task has said that it is there; of jobs of several tasks.
    """

    task: str
    container: str = ""
    held: bool | None = None
    fresh: bool = False
    over: bool = False
    end: TaskEnd | None = None
    host: str = ""
    hello: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What a driver sees of a job at one look.

    Parameters
    ----------
    tasks
        All tasks of the job, in the order of the spec: one at least.
    wanted
        Why somebody wants the job to end; None where nobody does.
    urgent
        Whether it shall end at once, without grace.
    refused
        Why the cluster does not run the job, for good; empty where it may.
    abandoned
        Why nobody waits for the job any more; that ends it while it has nothing yet.
    cause
        Why the driver has to end the job itself: a limit, a folder that was deleted.
    over
        Whether the cluster has ended everything that is the job's.
    started
        When the job's code first began, in whichever attempt; None where it has not.
    stopped
        In words, that somebody ended the job by the cluster's own means, as its command line: it is
        cancelled then, and not begun again. Empty where nobody did.
    room
        How many more tasks the job could have now, where their number may change and no other job
        waits for what is free.
    kept
        Whether this attempt has kept a checkpoint.
    idle
        Why the job is asked to end since its GPUs do nothing; empty while it goes on.
    """

    tasks: tuple[TaskSeen, ...]
    wanted: str | None = None
    urgent: bool = False
    refused: str = ""
    abandoned: str = ""
    cause: str = ""
    over: bool = False
    started: Moment | None = None
    stopped: str = ""
    room: int = 0
    kept: bool = False
    idle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What was said of a job's end when it was submitted.

    Parameters
    ----------
    grace
        Seconds between SIGTERM and SIGKILL.
    exact_grace
        Whether that is all, however long the job's steps are.
    hello_within
        As `HELLO_WITHIN`.
    retries
        How often the job is begun again where its code has failed, and besides that for whatever
        the cluster does to it; None where its code may not run twice for any reason.
    time_limit
        Seconds for which it may go on, all attempts together, from the first start of its code.
    grow_after
        As `GROW_AFTER`.
    missed_within
        As `MISSED`.
    frames_within
        As `FRAMES_WITHIN`; 0 where no task keeps its frames.
    """

    grace: float
    exact_grace: bool = False
    hello_within: float = HELLO_WITHIN
    retries: int | None = None
    time_limit: float | None = None
    grow_after: float = GROW_AFTER
    missed_within: float = MISSED
    frames_within: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What a driver keeps in mind from one look to the next; there is one for each attempt.

    A driver that takes over a job knows `cancelled`, `attempt`, `failures`, `growing` and `grown`
    by its events, and begins anew with the rest.

    Parameters
    ----------
    cancelled
        The first request to end the job.
    cause
        Why the driver ends it itself.
    refused
        Whether that is for good: the cluster does not run the job.
    attempt, failures, growing, grown
        As `JobStatus` has them.
    asked
        Containers that were asked to end.
    kill_at
        When their grace is over, on the monotonic clock; that to keep their frames likewise.
    stack_asked
        Whether those that have not kept their frames were asked where they stand.
    killed_at
        When they were killed last.
    missing
        Since when the cluster has not counted a task's container.
    gathered
        Since when all tasks of a job of several have their containers.
    blamed
        The task for whose failure the driver ends the others.
    echoed
        Since when tasks have failed that tell of another's failure alone.
    free_since
        Since when there has been room for more tasks.
    told
        Whether it was said that the job does not grow.
    """

    cancelled: CancelRequested | None = None
    cause: str = ""
    refused: bool = False
    attempt: int = 1
    failures: int = 0
    asked: frozenset[str] = frozenset()
    kill_at: float | None = None
    stack_asked: bool = False
    killed_at: float | None = None
    missing: Mapping[str, float] = field(default_factory=dict)
    gathered: float | None = None
    blamed: str = ""
    echoed: float | None = None
    growing: str = ""
    grown: int = 0
    free_since: float | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask a task to end (SIGTERM), or `kill` it (SIGKILL)."""

    task: str
    container: str
    kill: bool


@dataclass(frozen=True, slots=True)
class KeepFrames:
    """Ask a task that another one's failure ends to keep what its frames hold; it ends then."""

    task: str


@dataclass(frozen=True, slots=True)
class AskStack:
    """Ask such a task where it stands: native code that holds Python's lock keeps no frames."""

    task: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Ask the cluster for nothing any more, and give back what it has given.

    Where that fails, nothing that follows may be done at this look.
    """


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Answer the tasks, so that they begin: each has said hello. Said at each look."""


@dataclass(frozen=True, slots=True)
class EndSidecars:
    """End the job's sidecars: its tasks are all over."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell people something that they may want to change in the job's code; once."""

    text: str


@dataclass(frozen=True, slots=True)
class FinishTask:
    """Bring home what a task has left, and write its last events."""

    task: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Say that the job is over, and which task's failure that was."""

    state: JobState
    reason: str
    failed_task: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """Begin the job again: note that first, then ask for all tasks anew.

    Parameters
    ----------
    attempt
        Which attempt it is.
    reason
        Why the one before it ended.
    counted
        Whether that was the code's own failure.
    pause
        Seconds to wait before it: what could not be started for want of room could not be now.
    """

    attempt: int
    reason: str
    counted: bool
    pause: float = 0.0


Instruction = (
    Signal
    | KeepFrames
    | AskStack
    | Withdraw
    | OpenGate
    | Tell
    | EndSidecars
    | FinishTask
    | Again
    | Finish
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done now, in this order: keep `course` in mind, write `events`, `do` the rest.

    Parameters
    ----------
    course
        For the next look.
    events
        What has happened.
    do
        The instructions.
    """

    course: Course
    events: tuple[Event, ...] = ()
    do: tuple[Instruction, ...] = ()


def grace_for(policy: Policy, needs: Iterable[float]) -> float:
    """Return the seconds between SIGTERM and SIGKILL for a job as it is now.

    Parameters
    ----------
    policy
        What was said of it.
    needs
        What each task that runs says that it needs to come to the end of a step, and to write a
        checkpoint.
    """
    if policy.exact_grace:
        return policy.grace
    return max(policy.grace, min(MOST_GRACE, max(needs, default=0.0)))


def decide(course: Course, seen: Observations, now: Moment, policy: Policy) -> Decision:
    """Return what a driver has to do with a job.

    Parameters
    ----------
    course
        As of the look before.
    seen
        What the job is like.
    now
        The time.
    policy
        What was asked for when it was submitted.
    """
    ends = [replace(one.end, task=one.task) for one in seen.tasks if one.end is not None]
    if len(ends) == len(seen.tasks):
        finish = _finish(course, seen.tasks, ends)
        if seen.stopped and _is_cancelled_there(course, finish, ends):
            cancelled = CancelRequested(reason=seen.stopped, at=now)
            course = replace(course, cancelled=cancelled)
            return Decision(course, (cancelled,), (Finish(JobState.CANCELLED, seen.stopped),))
        last = _again_or_not(course, seen, now, policy, finish)
        if isinstance(last, Again) and seen.wanted is not None:
            cancelled = CancelRequested(reason=seen.wanted, at=now)
            course = replace(course, cancelled=cancelled)
            return Decision(course, (cancelled,), (Finish(JobState.CANCELLED, seen.wanted),))
        return Decision(course, do=(last,))
    waits = not ends and not any(task.container for task in seen.tasks)
    events: tuple[Event, ...] = ()
    wanted = seen.abandoned or None if waits and seen.wanted is None else seen.wanted
    if waits and wanted is None and seen.stopped and seen.refused:
        wanted = seen.refused  # its words: the cluster runs it no more, since somebody said so
    if wanted is not None and course.cancelled is None:
        cancelled = CancelRequested(reason=wanted, at=now)
        course, events = replace(course, cancelled=cancelled), (cancelled,)
    elif course.cancelled is None and _is_expired(seen, now, policy):
        expired = CancelRequested(reason=_limit_words(policy), expired=True, at=now)
        course, events = replace(course, cancelled=expired), (expired,)
    elif course.cancelled is None and seen.idle:
        expired = CancelRequested(reason=seen.idle, expired=True, at=now)
        course, events = replace(course, cancelled=expired), (expired,)
    if not course.cause and (cause := seen.refused or seen.cause):
        course = replace(course, cause=cause, refused=bool(seen.refused))
    if waits:
        return Decision(course, events, _leave_queue(course))
    course, gate = _gather(course, seen, now, policy.hello_within)
    course = _blame(course, seen, now)
    course, grows, tells = _grow(course, seen, now, policy)
    events = (*events, *grows)
    course, signals = _end_running(course, seen, now, policy)
    course, settled = _finish_gone(course, seen, now, policy)
    return Decision(course, events, (*signals, *gate, *tells, *settled))


def _finish(course: Course, tasks: Sequence[TaskSeen], ends: Sequence[TaskEnd]) -> Finish:
    """Return how a job ended whose tasks are all over."""
    cause, blamed = course.cause, course.blamed
    if _are_through(tasks):  # however that ended which served them: it was ended by us
        leading = leaders(end.task for end in ends)
        ends, cause = [end for end in ends if end.task in leading], ""
    state, reason = final_state(ends, cancelled=course.cancelled, cause=cause, blamed=blamed)
    expired = course.cancelled is not None and reason == course.cancelled.reason
    if state is not JobState.FAILED or expired:
        return Finish(state, reason)
    first = first_to_fail(ends, blamed)
    by_itself = first is not None and (not cause or any(end.returned for end in ends))
    return Finish(state, reason, first.task if first and by_itself else blamed)


def _is_cancelled_there(course: Course, finish: Finish, ends: Sequence[TaskEnd]) -> bool:
    """Return whether a job, which somebody has ended on its cluster, ended of that.

    Not where a task had failed by itself, or its driver ended it for a cause; nor where it came to
    its end all the same.
    """
    ours = course.cancelled is not None or (course.cause and not course.blamed)
    failed = [end for end in ends if end.state is not JobState.SUCCEEDED]
    by_itself = any(end.returned and not (end.paused or end.echo) for end in failed)
    return not (ours or by_itself) and finish.state in (JobState.FAILED, JobState.LOST)


def _again_or_not(
    course: Course, seen: Observations, now: Moment, policy: Policy, finish: Finish
) -> Again | Finish:
    """Return what comes after an attempt that ended so: another one, or the end."""
    # A loop that was stopped for more tasks may have been left as if it had come to its end.
    paused = course.growing and any(task.end and task.end.paused for task in seen.tasks)
    failed = paused or finish.state in (JobState.FAILED, JobState.LOST)
    wanted = course.cancelled is not None or course.refused or seen.stopped
    final = any(task.end and task.end.final for task in seen.tasks)
    if not failed or wanted or final or policy.retries is None:
        return finish
    if course.growing and not course.cause and any(t.end and t.end.paused for t in seen.tasks):
        return Again(course.attempt + 1, course.growing, counted=False)
    lost = [task for task in seen.tasks if task.end and (task.end.lost or task.end.unstarted)]
    left = LOST_TRIES - _lost_before(course) if lost else policy.retries - course.failures
    if left > 0 and not _is_expired(seen, now, policy):
        why = finish.reason
        if len(seen.tasks) > 1:
            named = _first_to_fail(lost) or _first_to_fail(seen.tasks)
            why = named[2] if named and (lost or not course.cause) else course.cause or why
        pause = 0.0
        if any(task.end and task.end.unstarted for task in lost):
            pause = min(FIRST_PAUSE * 2 ** _lost_before(course), LONGEST_PAUSE)
        return Again(course.attempt + 1, why, counted=not lost, pause=pause)
    more = "; there is no time left for another attempt" if left > 0 else ""
    which = f" (attempt {course.attempt} of {course.attempt})" if course.attempt > 1 else ""
    return replace(finish, reason=f"{finish.reason}{which}{more}")


def _lost_before(course: Course) -> int:
    """Return how many former attempts the cluster ended."""
    return course.attempt - 1 - course.failures - course.grown


def _is_expired(seen: Observations, now: Moment, policy: Policy) -> bool:
    if policy.time_limit is None or seen.started is None:
        return False
    since = now.mono - seen.started.mono
    if since < 0:  # this machine was started anew meanwhile
        since = now.wall - seen.started.wall
    return since >= policy.time_limit


def _limit_words(policy: Policy) -> str:
    return f"was over its time limit of {exactly(policy.time_limit or 0)} (--time_limit)"


def _grow(
    course: Course, seen: Observations, now: Moment, policy: Policy
) -> tuple[Course, tuple[Event, ...], tuple[Tell, ...]]:
    """Let a job go on with more tasks, where there has been room for them for a while.

    Never one that has kept no checkpoint in this attempt: it would lose what it has done.
    """
    ending = course.cancelled is not None or course.cause or course.growing
    if ending or policy.retries is None:
        return course, (), ()
    runs = all(task.container and task.end is None and not task.over for task in seen.tasks)
    if not runs or seen.room <= 0 or _are_through(seen.tasks):
        return replace(course, free_since=None), (), ()
    since = now.mono if course.free_since is None else course.free_since
    course = replace(course, free_since=since)
    had = sum(task.task.startswith("worker-") for task in seen.tasks)
    reason = f"there is room for {had + seen.room} workers, and it has {had}"
    if not seen.kept:
        if course.told or now.mono - since < max(policy.grow_after, _UNKEPT):
            return course, (), ()
        why = "it has kept no checkpoint that any number of workers can go on from (job.steps)"
        told = Tell(f"{reason}: it goes on with {had}, since {why}")
        return replace(course, told=True), (), (told,)
    if now.mono - since < policy.grow_after:
        return course, (), ()
    return replace(course, growing=reason), (Growing(reason=reason, at=now),), ()


def _gather(
    course: Course, seen: Observations, now: Moment, hello_within: float
) -> tuple[Course, list[Instruction]]:
    """Let the tasks of a job of several begin together, or not at all."""
    if len(seen.tasks) == 1 or not all(task.container for task in seen.tasks):
        return course, []
    if all(task.hello for task in seen.tasks):
        return course, [OpenGate()]
    if course.gathered is None:
        course = replace(course, gathered=now.mono)
    silent = [task for task in seen.tasks if not task.hello]
    since = now.mono - (course.gathered or now.mono)
    # One that is asked to end has its grace, whoever waits for it.
    free = not course.cause and course.cancelled is None
    if free and since > hello_within and not any(task.over or task.end for task in silent):
        who = ", ".join(f"{task.task} on {task.host or 'a host'}" for task in silent)
        cause = (
            f"{who} did not say hello within {hello_within:g} s of being given a container:"
            " it hangs before the job's code, or cannot be reached"
        )
        course = replace(course, cause=cause)
    return course, []


def _blame(course: Course, seen: Observations, now: Moment) -> Course:
    """End a job of several with the first of its tasks that fails.

    The others wait for it, or will fail of that: what they say then is noise.
    """
    if course.cause or course.cancelled is not None or course.growing:
        return course
    first = _first_to_fail(seen.tasks)
    if first is None or all(task.end for task in seen.tasks):
        return course
    task, end, words = first
    if end.is_of_another:
        echoed = now.mono if course.echoed is None else course.echoed
        course = replace(course, echoed=echoed)
        if now.mono - echoed < (_ECHO_WAITS if end.echo else _ASKED_WAITS):
            return course
    return replace(course, blamed=task.task, cause=words)


def _first_to_fail(tasks: Sequence[TaskSeen]) -> tuple[TaskSeen, TaskEnd, str] | None:
    """Return the task that failed first, how, and both in words; None where none has failed."""
    wrong = [(task, task.end) for task in tasks if task.end and task.end.state is not _DONE]
    if not wrong:
        return None
    task, end = min(wrong, key=lambda each: _order_of_blame(each[1], ""))
    where = f"{task.task} on {task.host}" if task.host else task.task
    return task, end, f"{where} failed: {end.reason}" if end.reason else f"{where} failed"


def _are_through(tasks: Sequence[TaskSeen]) -> bool:
    """Return whether those that lead a job are through, so that who serves them is not needed."""
    leading = leaders(task.task for task in tasks)
    work = [task for task in tasks if task.task in leading]
    return bool(work) and all(task.end and task.end.state is _DONE for task in work)


def _leave_queue(course: Course) -> tuple[Instruction, ...]:
    """End a job that has no container yet, where it is to end."""
    if course.cancelled is not None:
        reason = course.cancelled.reason or "cancelled in the queue"
        return Withdraw(), Finish(_ended_by(course.cancelled), reason)
    # Withdrawn also where the cluster refused: it may have taken the request before that.
    return (Withdraw(), Finish(JobState.FAILED, course.cause)) if course.cause else ()


def _keeps_frames(course: Course, seen: Observations, policy: Policy) -> bool:
    """Return whether somebody may look at the frames of tasks that another one's failure ends.

    Not where the job is begun again: that waits for nothing, and clears them away.
    """
    if not course.blamed or course.cancelled is not None or seen.urgent or course.growing:
        return False
    again = policy.retries is not None and policy.retries > course.failures
    by_itself = all(not (task.end.lost or task.end.unstarted) for task in seen.tasks if task.end)
    begun = all(task.hello for task in seen.tasks)
    return policy.frames_within > 0 and begun and by_itself and not again


def _end_running(
    course: Course, seen: Observations, now: Moment, policy: Policy
) -> tuple[Course, list[Instruction]]:
    """Ask the containers of a job to end, where they are to, and kill them after their grace.

    A parameter server never ends by itself: it ends with the workers.
    """
    through = _are_through(seen.tasks)
    grows = bool(course.growing) and course.cancelled is None and not course.cause
    if course.cancelled is None and not course.cause and not through and not grows:
        return course, []
    running = [task for task in seen.tasks if task.container and task.end is None]
    do: list[Instruction] = []
    if any(not task.container for task in seen.tasks):
        do.append(Withdraw())
    # One that is to grow has the time that its step takes; once one has ended, none goes on alone.
    ends = not grows or any(task.end for task in seen.tasks)
    if (course.cancelled is not None or through or (grows and ends)) and course.kill_at is None:
        course = replace(course, kill_at=now.mono + policy.grace)
    keeps = running and _keeps_frames(course, seen, policy)
    if keeps and course.kill_at is None:
        do += [KeepFrames(task.task) for task in running]
        course = replace(course, kill_at=now.mono + policy.frames_within)
    has_time = not ends or (course.kill_at is not None and now.mono < course.kill_at)
    if has_time and keeps:
        # Not at once: a stack is read without Python's lock, while the thread that keeps the frames
        # runs where it can, and to read what changes meanwhile may end the process.
        late = course.kill_at is not None and course.kill_at - now.mono <= policy.frames_within / 2
        if late and not course.stack_asked:
            do += [AskStack(task.task) for task in running]
            course = replace(course, stack_asked=True)
        return course, do
    if has_time and not seen.urgent and not course.cause:
        ask = [task for task in running if task.container not in course.asked]
        do += [Signal(task.task, task.container, kill=False) for task in ask]
        course = replace(course, asked=course.asked.union(task.container for task in ask))
    elif running and (course.killed_at is None or now.mono - course.killed_at >= _KILL_EVERY):
        do += [Signal(task.task, task.container, kill=True) for task in running]
        course = replace(course, killed_at=now.mono)
    return course, do


def _finish_gone(
    course: Course, seen: Observations, now: Moment, policy: Policy
) -> tuple[Course, list[Instruction]]:
    """Have the tasks finished whose containers are gone."""
    missing = dict(course.missing)
    left = [task for task in seen.tasks if task.end is None]
    gone = []
    for task in left:
        if task.held or task.fresh or not task.container:
            missing.pop(task.task, None)
        elif task.held is not None:
            since = missing.setdefault(task.task, now.mono)
            if task.over or now.mono - since > policy.missed_within:
                gone.append(task)
    if seen.over:
        gone = left
    do: list[Instruction] = [EndSidecars()] if gone and len(gone) == len(left) else []
    do += [FinishTask(task.task) for task in gone]
    return replace(course, missing=missing), do


def _place_of(role: str) -> int:
    return WORKERS.index(role) if role in WORKERS else len(WORKERS)


def is_worker(task: str) -> bool:
    """Return whether a task does the job's work itself.

    Parameters
    ----------
    task
        Which, as ``worker-0``.
    """
    return task.rpartition("-")[0] in WORKERS


def leaders(tasks: Iterable[str]) -> frozenset[str]:
    """Return those of a job's tasks whose end is the job's; the others serve them until then.

    The workers; but where there are parameter servers and a chief, that one alone: it tells the
    workers what to do, which are servers that never end by themselves (TensorFlow's
    ParameterServerStrategy).

    Parameters
    ----------
    tasks
        All of the job's.
    """
    by_role = {task: task.rpartition("-")[0] for task in tasks}
    led = {"chief", "ps"} <= set(by_role.values())
    return frozenset(
        task for task, role in by_role.items() if role == "chief" or (role == "worker" and not led)
    )


def _with(status: JobStatus, changed: TaskStatus) -> JobStatus:
    place = status.place(changed.task)
    if place is None:
        return status
    return replace(status, tasks=(*status.tasks[:place], changed, *status.tasks[place + 1 :]))
