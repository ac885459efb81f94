"""Where the time of a job's start went: from its submission to its first step, phase by phase.

The moments come from the job's events and its tasks' marks (`submarine_runtime.progress_file`), and
stand on one line of time, that of the machine which drives the job. What a task has marked is
placed by its distance from the task's start, on the clock of its own machine: so clocks of two
machines are never subtracted from each other. No moment comes before the one that it follows.

A phase lasts until the last task is through it, and begins where the one before it ended. So phases
add up to the whole, whatever the clocks are like.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.progress_file import CODE, COMMAND, PROCESS, SCRIPT, STEP

from submarine_engine.amounts import duration
from submarine_engine.events import Moment
from submarine_engine.history import (
    SPOILT,
    JobPaths,
    TaskPaths,
    finite,
    foreign_text,
    read_foreign,
)

if TYPE_CHECKING:
    from submarine_engine.lifecycle import JobStatus, TaskStatus

MEANING = {
    "queue": "waiting for its resources",
    "master": "the cluster's own process for the job comes up, which then asks for its containers",
    "container": "from the allocation to the task's process: files are brought to its machine",
    "environment": "the interpreter comes up, and tasks of several wait for each other",
    "import": "the script's imports, definitions and values, up to the cell's own statements",
    "first step": "until the code first reports, keeps a checkpoint, or tells how far it is",
}
"""What each phase is, for people, in the order in which they come."""

_LARGEST = 1 << 16
_LONGEST = 20
_TASKS = 64
"""Tasks whose marks are read; those of more look alike."""

Marks = Mapping[str, float]
"""Moments by their names, in seconds of the monotonic clock of the task's machine."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a start, by a name of `MEANING`, and how long it took."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Startup:
    """How a job started, as far as it has come.

    Parameters
    ----------
    phases
        Those that are over, in their order. What a cluster has not, or the code does not tell, is
        not among them.
    attempt
        Which attempt it is of: the last, from the end of the one before.
    """

    phases: tuple[Phase, ...]
    attempt: int = 1

    @property
    def seconds(self) -> float:
        """From the submission to the end of the last phase."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def words(self) -> str:
        """It in a line: ``2.3 s: queue 12 ms, …``."""
        told = ", ".join(f"{phase.name} {duration(phase.seconds)}" for phase in self.phases)
        of = f" (attempt {self.attempt})" if self.attempt > 1 else ""
        return f"{duration(self.seconds)}{of}: {told}"

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        phases = {phase.name: round(phase.seconds, 6) for phase in self.phases}
        return {"attempt": self.attempt, "seconds": round(self.seconds, 6), "phases": phases}


class _Reached(NamedTuple):
    """When a task came to the end of each phase, in seconds from the job's beginning."""

    granted: float | None = None
    process: float | None = None
    script: float | None = None
    code: float | None = None
    step: float | None = None
    is_command: bool = False


def startup(status: JobStatus, marks: Mapping[str, Marks], now: Moment) -> Startup | None:
    """Return how a job started; None while none of its code runs.

    Parameters
    ----------
    status
        The job, as its events say.
    marks
        Of its tasks, as `read_marks` has them.
    now
        The time.
    """
    queued = [task.queued.mono for task in status.tasks if task.queued]
    if not queued:
        return None
    begin = min(queued)
    reached = [_reached(task, marks.get(task.task, {}), begin, now) for task in status.tasks]
    granted = _last(one.granted for one in reached)
    process = _last(one.process for one in reached)
    if granted is None or process is None:
        return None
    master = min(max(0.0, status.master), granted)
    phases = [Phase("queue", granted - master)]
    phases += [Phase("master", master)] if status.master > 0 else []
    at = granted
    for name, moment in (
        ("container", process),
        ("environment", _last(one.script for one in reached)),
        ("import", _last(one.code for one in reached if not one.is_command)),
        ("first step", min((s.step for s in reached if s.step is not None), default=None)),
    ):
        if moment is None:
            if name == "import" and all(one.is_command for one in reached):
                continue
            break
        phases.append(Phase(name, max(moment, at) - at))
        at = max(moment, at)
    return Startup(tuple(phases), status.attempt)


def _last(moments: Iterable[float | None]) -> float | None:
    """Return when the last task came there; None where one has not."""
    last: float | None = None
    for moment in moments:
        if moment is None:
            return None
        last = moment if last is None else max(last, moment)
    return last


def _reached(task: TaskStatus, marks: Marks, begin: float, now: Moment) -> _Reached:
    if task.held is None:
        return _Reached()
    granted = max(0.0, task.held.mono - begin)
    if task.busy is None:
        return _Reached(granted)
    # Clocks of two machines differ: what started was granted before.
    started = max(granted, task.busy.mono - begin)
    zero = task.busy.mono if task.clock is None else task.clock
    latest = max(started, (task.exited or now).mono - begin)

    def place(name: str, after: float) -> float | None:
        found = marks.get(name)
        return None if found is None else min(max(after, started + found - zero), latest)

    process = place(PROCESS, granted)
    process = started if process is None else process
    script = place(SCRIPT, process)
    if is_command := script is None and COMMAND in marks:
        script = place(COMMAND, process)
    if script is None:
        return _Reached(granted, process)
    code = place(CODE, script)
    step = place(STEP, script if code is None else code)
    return _Reached(granted, process, script, code, step, is_command)


def read_startup(paths: JobPaths, status: JobStatus) -> Startup | None:
    """Return how a job started, by its folder; as `startup` has it.

    Parameters
    ----------
    paths, status
        The job.
    """
    tasks = [task.task for task in status.ranked[:_TASKS]]
    marks = {task: read_marks(paths.task(task), status.attempt) for task in tasks}
    return startup(status, marks, Moment.now())


def read_marks(task: TaskPaths, attempt: int) -> Marks:
    """Return what a task has marked; nothing where that cannot be read.

    Parameters
    ----------
    task
        Its files, which its code can write.
    attempt
        Marks of others are passed over.
    """
    found: dict[str, float] = {}
    try:
        content = read_foreign(task.startup, _LARGEST)
    except OSError:
        return found
    for line in content.split(b"\n"):
        try:
            of, told, mono = json.loads(line)
            name, at = foreign_text(told, _LONGEST), finite(mono)
        except SPOILT:  # half a line, or somebody else's
            continue
        if of != attempt or name not in _AFTER:
            continue
        # Where it was begun once more, since nothing had come of it, the first one does not count.
        if name == PROCESS or (name in _BEGINS and not _BEGINS.isdisjoint(found)):
            for later in _AFTER[name]:
                found.pop(later, None)
        found.setdefault(name, at)
    return found


_BEGINS = frozenset({SCRIPT, COMMAND})
_AFTER: Mapping[str, frozenset[str]] = {
    PROCESS: frozenset({PROCESS, SCRIPT, COMMAND, CODE, STEP}),
    SCRIPT: frozenset({SCRIPT, COMMAND, CODE, STEP}),
    COMMAND: frozenset({SCRIPT, COMMAND, CODE, STEP}),
    CODE: frozenset(),
    STEP: frozenset(),
}
"""What each mark makes void of those before it."""
