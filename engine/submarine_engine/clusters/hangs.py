"""Whether a job of several tasks hangs: nobody does anything any more, and nothing changes.

A job is quiet while no task prints, displays, reports progress or writes events. In a quiet job the
driver looks at the stacks three times: after a half, three quarters and all of the time that a
quiet job is given. It hangs if in all three looks each worker stands where it stood, every thread
of it, and none has used a processor in between or moved data: a loop that nearly always waits for
its next batch stands at one place in each look. One that uses a processor hangs too where it stands
in a collective operation: such calls may wait busily. Where they differ, it looks three times more:
what computes in silence for an hour may hang afterwards.

So native code that computes for an hour is no hang, and a rank that waits in a busy loop of its own
is not found: both stand at one line and use a processor. What a GPU does is not asked: while a
collective operation waits, it is fully used.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_runtime.eventpack import files

from submarine_engine.amounts import duration
from submarine_engine.clusters.stacks import LARGEST_QUESTION, StackSample, as_json
from submarine_engine.history import JobPaths, read_foreign, write_json
from submarine_engine.job import JobSpec
from submarine_engine.lifecycle import WORKERS

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.clusters.backend import Request
    from submarine_engine.clusters.stacks import TaskStack
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.history import TaskPaths
    from submarine_engine.stacks import Stacks

AFTER = 600.0
"""Seconds that a job may be quiet, unless it says otherwise."""

_LOOKS = (0.5, 0.75, 1.0)
"""Parts of its quiet time after which a job's stacks are taken: what stands alike in all three
hangs, and a job that pauses for less than half of it is not looked at."""
_EVERY = 3.0  # seconds: of 512 tasks a look at all files takes some 20 ms
_EASY = 20  # looks at files while a job is given its time, at least

_IDLE = 0.05
"""Part of a processor that threads of libraries use which wait: watchdogs, heartbeats."""

_STILL = 1024.0
"""Bytes a second that they read and write, likewise."""

_MOST_SHOWN = 4  # places in one line

_HEAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"\n]*)"', re.MULTILINE)
_COLLECTIVES = ("/torch/distributed/distributed_c10d.py", "/horovod/torch/mpi_ops.py")
_ASKS = "/submarine_runtime/asking.py"


class HangFinder:
    """Tells when a job of several tasks hangs.

    Parameters
    ----------
    spec
        The job.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._after = AFTER if spec.hang_after is None else spec.hang_after
        self._workers = [
            task for role in spec.roles if role.name in WORKERS for task in role.tasks
        ]  # fmt: skip
        # A command's Python is a process of its own, which tells no stacks.
        commands = any(role.command for role in spec.roles if role.name in WORKERS)
        self._is_on = self._after > 0 and len(self._workers) > 1 and not commands
        self._looks: list[StackSample] = []
        self._seen: Mapping[str, tuple[int, ...]] = {}
        self._quiet_since = self._look_at = 0.0

    def is_due(self, running: Sequence[TaskRun]) -> bool:
        """Return whether it is time for a look at the stacks.

        Parameters
        ----------
        running
            The tasks that run.
        """
        now = time.monotonic()
        if not self._is_on or now < self._look_at:
            return False
        self._look_at = now + min(_EVERY, self._after / _EASY)
        seen = {one.task: _written(one.files) for one in running}
        if seen != self._seen or not seen.keys() >= {*self._workers}:
            self._seen, self._quiet_since, self._looks = seen, now, []
            return False
        done = len(self._looks)
        return done < len(_LOOKS) and now - self._quiet_since >= _LOOKS[done] * self._after

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come since the last look."""
        return bool(self._looks)

    def see(self, look: StackSample) -> bool:
        """Add a sample of the stacks; return whether the job counts as hanging.

        Parameters
        ----------
        look
            A sample that was due.
        """
        self._looks.append(look)
        if len(self._looks) < len(_LOOKS):
            return False
        if self._hangs():
            return True
        self._quiet_since, self._looks = time.monotonic(), []
        return False

    def words(self, stacks: Stacks, job_id: str) -> str:
        """Return what is said of a job that hangs, in one line.

        Parameters
        ----------
        stacks
            The last look.
        job_id
            The job.
        """
        workers = [group for group in stacks.groups if group.tasks[0].task in self._workers]
        shown = "; ".join(map(str, workers[:_MOST_SHOWN]))
        rest = len(workers) - _MOST_SHOWN
        more = f"; and {rest} places more" if rest > 0 else ""
        return (
            f"the job seems to hang, for {duration(self._after)} no rank has printed, moved"
            f" data or used a processor: {shown}{more}. It goes on; "
            f"`submarine job stacks {job_id}` shows more"
        )

    def _hangs(self) -> bool:
        seconds = self._looks[-1].mono - self._looks[0].mono
        rows = [[look.told.get(task) for look in self._looks] for task in self._workers]
        told = [[one for one in row if one is not None] for row in rows]
        return (
            all(len(row) == len(_LOOKS) and _waits(row, seconds) for row in told)
            and any(row[-1].text for row in told)  # who is silent may be so for many reasons
            and not any(_ASKS in row[-1].text for row in told)  # it waits for a person
        )


def _waits(row: Sequence[TaskStack], seconds: float) -> bool:
    """Return whether a task did nothing from the first to the last look."""
    first, last = row[0], row[-1]
    if first.cpu is None or last.cpu is None:  # nobody knows
        return False
    if len({_HEAD.sub("Thread", one.text) for one in row}) > 1:
        return False
    answers = sum(len(one.text) for one in row)  # it wrote them itself
    if last.moved - first.moved - answers > _STILL * seconds:
        return False
    return last.cpu - first.cpu <= _IDLE * seconds or _is_collective(last.text)


def _is_collective(text: str) -> bool:
    """Return whether the main thread, which is told last, stands in a collective operation."""
    innermost = _FRAME.search(text, max((one.end() for one in _HEAD.finditer(text)), default=0))
    return innermost is not None and innermost[1].endswith(_COLLECTIVES)


def _written(task: TaskPaths) -> tuple[int, ...]:
    """Return what changes when a task writes anything."""
    logs = (task.stdout, task.stderr, task.displays, task.progress, task.reported)
    paths = [*logs, task.log("events"), *(task.logdir / name for name in files(str(task.logdir)))]
    return tuple(number for path in paths for number in _version(path))


def _version(path: Path) -> tuple[int, int]:
    try:
        status = path.lstat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


class StackSampler:
    """What a job's driver does for its stacks.

    Parameters
    ----------
    paths
        The job's files.
    request
        How its tasks are reached.
    hangs
        Tells whether the job hangs by what is seen.
    warned
        Whether the driver before this one has said that it does.
    """

    def __init__(
        self, paths: JobPaths, request: Request, hangs: HangFinder, *, warned: bool
    ) -> None:
        self._paths = paths
        self._request = request
        self._hangs = hangs
        self._was_due, self._warned = False, warned
        self._look: StackSample | None = None
        self._answered = ""

    @property
    def is_sampling(self) -> bool:
        """Whether stacks are being asked for."""
        return self._look is not None

    def step(self, tasks: Sequence[TaskRun]) -> str | None:
        """Do what is to be done now: at each turn of the driver.

        Parameters
        ----------
        tasks
            All of the job's.

        Returns
        -------
        str or None
            A warning that the job hangs, empty where it goes on again; None for nothing new.
        """
        running = [one for one in tasks if one.started and not one.over and not one.released]
        asked = self._question_id()
        if self._look is None:
            self._was_due = self._hangs.is_due(running)
            if self._warned and not self._hangs.is_quiet:
                self._warned = False
                return ""
            if not running or not (self._was_due or asked not in ("", self._answered)):
                return None
            hosts = {one.task: one.node.partition(":")[0] for one in running}
            self._look = StackSample(self._request, hosts)
        if not self._look.step():
            return None
        look, self._look = self._look, None
        if asked not in ("", self._answered):
            self._answered = asked
            with suppress(OSError):  # a full disk: who asks is told that nobody answers
                write_json(self._paths.stacks, as_json(self._paths, asked, look))
        if not self._was_due or not self._hangs.see(look):
            return None
        self._warned = True
        return self._words(look, tasks)

    def _question_id(self) -> str:
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
            told = json.loads(read_foreign(self._paths.stacks_asked, LARGEST_QUESTION))
            return str(told["id"])
        return ""

    def _words(self, look: StackSample, tasks: Sequence[TaskRun]) -> str:
        # imported late: few jobs hang, and it reads bundles
        from submarine_engine.stacks import read_stacks  # noqa: PLC0415

        told = as_json(self._paths, "", look)
        found = read_stacks(told, self._paths.root, [one.task for one in tasks])
        return self._hangs.words(found, self._paths.job_id)
