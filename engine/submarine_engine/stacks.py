"""Where the tasks of a running job stand: their stacks, side by side, at cell and line.

What a task tells has the form of `faulthandler`'s text, read as the word of a stranger. Tasks whose
main threads stand at the same place are one group; the odd one comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError
from submarine_engine.failures import Source
from submarine_engine.lifecycle import WORKERS
from submarine_engine.outcome import RemoteFrame, clean

if TYPE_CHECKING:
    from submarine_engine.traceback import Frame

_THREAD = re.compile(
    r"(?:(?:Current thread|Thread) 0x[0-9a-f]{1,16}[^\n]{0,200}|Stack \(most recent call first\)):"
)
_MAIN_ALONE = "Stack"
_FRAME = re.compile(r'  File "([^"\n]{1,1000})", line ([0-9]{1,9}) in ([^\n]{1,600})')
_RUNTIME = "/submarine_runtime/"
_WAITS = "/submarine_runtime/peer_failed.py"
"""A thread that does nothing until the job has failed."""
_BUNDLE = "/bundle/"
_MOST_LINES = 20_000
_MOST_PLACES = 5_000
"""Frames of one job that are looked up; its driver does nothing else meanwhile."""


@dataclass(frozen=True)
class Step:
    """A frame of a stack.

    Parameters
    ----------
    file, line, function
        As Python has them; of a file of the bundle relative to it.
    own
        The same as the notebook has it, where it is the user's own code.
    """

    file: str
    line: int
    function: str
    own: Frame | None

    def __str__(self) -> str:
        return str(self.own) if self.own else f"{self.file}, line {self.line}, in {self.function}"


@dataclass(frozen=True)
class Thread:
    """A thread's stack, outermost first."""

    steps: tuple[Step, ...]

    @property
    def own(self) -> tuple[Frame, ...]:
        """The frames that are the user's own."""
        return tuple(step.own for step in self.steps if step.own)

    @property
    def place(self) -> str:
        """Where it stands, in words: ``In [5], line 12, in train() → all_reduce``."""
        if not self.steps:
            return "in no Python code"
        last = self.steps[-1]
        if last.own or not self.own:
            return str(last)
        frame = self.own[-1]
        inside = "" if frame.function == "<module>" else f", in {frame.function}()"
        return f"{frame.cell}, line {frame.line}{inside} → {last.function}"


@dataclass(frozen=True)
class TaskStacks:
    """What a task has told.

    Parameters
    ----------
    task, host
        Which, and where it runs.
    threads
        The main one first; none where it has not answered.
    """

    task: str
    host: str
    threads: tuple[Thread, ...]

    @property
    def place(self) -> str:
        """Where its main thread stands, in words, or that it does not answer."""
        if self.threads:
            return self.threads[0].place
        return f"no answer from {self.host or 'its host'}: stopped, not begun, or no Python"


@dataclass(frozen=True)
class Group:
    """Tasks that stand at the same place.

    Parameters
    ----------
    tasks
        In the order of their ranks.
    names
        These in words: ``ranks 0, 1, 3``.
    """

    tasks: tuple[TaskStacks, ...]
    names: str

    def __str__(self) -> str:
        return f"{self.names}: {self.tasks[0].place}"


@dataclass(frozen=True)
class Stacks:
    """The stacks of a job's tasks.

    Parameters
    ----------
    at
        When they were asked for, in seconds since the epoch.
    tasks
        Of each that runs, in the order of their ranks.
    ranks
        The rank of each that has one.
    """

    at: float
    tasks: tuple[TaskStacks, ...]
    ranks: Mapping[str, int]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The tasks by where they stand: who does not answer first, then the smallest group."""
        found: dict[tuple[bool, str], list[TaskStacks]] = {}
        for one in self.tasks:
            found.setdefault((bool(one.threads), one.place), []).append(one)
        ordered = sorted(found.items(), key=lambda item: (item[0][0], len(item[1])))
        return tuple(Group(tuple(some), self._names(some)) for _, some in ordered)

    def _names(self, tasks: Sequence[TaskStacks]) -> str:
        ranks = [str(self.ranks[one.task]) for one in tasks if one.task in self.ranks]
        others = [one.task for one in tasks if one.task not in self.ranks]
        if ranks:
            others.insert(0, f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}")
        return ", ".join(others)

    def lines(self, task: str | None = None) -> Iterator[str]:
        """Yield them as people read them.

        Parameters
        ----------
        task
            All threads of that one; unless given, the groups with their main threads.

        Raises
        ------
        CommandError
            No such task runs.
        """
        if task is not None and task not in [one.task for one in self.tasks]:
            raise CommandError(
                f"no task {task!r} of the job runs",
                where="--task",
                fix=f"these do: {', '.join(one.task for one in self.tasks) or 'none'}",
            )
        if task is None and len(self.tasks) > 1:
            for group in self.groups:
                yield str(group)
                threads = group.tasks[0].threads
                yield from (f"    {frame}" for frame in (threads[0].own if threads else ()))
            return
        for one in self.tasks:
            if task not in (None, one.task):
                continue
            if not one.threads:
                yield f"{one.task}: {one.place}"
            for number, thread in enumerate(one.threads):
                name = one.task if number == 0 else f"{one.task}, another thread"
                yield f"{name}: {thread.place}"
                yield from (f"    {step}" for step in thread.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "at": self.at,
            "groups": [
                {
                    "tasks": [one.task for one in group.tasks],
                    "names": group.names,
                    "place": group.tasks[0].place,
                }
                for group in self.groups
            ],
            "tasks": [
                {
                    "task": one.task,
                    "rank": self.ranks.get(one.task),
                    "host": one.host,
                    "place": one.place,
                    "threads": [[str(step) for step in thread.steps] for thread in one.threads],
                }
                for one in self.tasks
            ],
        }


def read_stacks(told: Mapping[str, Any], folder: Path, tasks: Sequence[str]) -> Stacks:
    """Read what the tasks of a job have told.

    Parameters
    ----------
    told
        As ``stacks.json`` has it.
    folder
        The job's.
    tasks
        All of the job's, in their order.
    """
    ranks = ranks_of(tasks)
    reader = _Reader(Source.of(folder))
    found = [
        TaskStacks(
            task,
            clean(str(one["host"])),
            reader.threads(str(one["stacks"] or "")),
        )
        for task, one in told["tasks"].items()
        if task in tasks
    ]
    order = [*ranks, *(task for task in tasks if task not in ranks)]
    found.sort(key=lambda one: order.index(one.task))
    return Stacks(float(told["at"]), tuple(found), ranks)


def ranks_of(tasks: Sequence[str]) -> dict[str, int]:
    """Return the ranks of those tasks that have one: a chief's, then the workers'."""
    ranked = [
        task for role in WORKERS for task in tasks if task.rpartition("-")[0] == role
    ]  # fmt: skip
    return {task: rank for rank, task in enumerate(ranked)}


def read_threads(text: str, source: Source) -> tuple[Thread, ...]:
    """Return the threads of `faulthandler`'s text, the main one first; what is none is left out.

    Parameters
    ----------
    text
        As a task has told it.
    source
        The bundle that it runs.
    """
    return _Reader(source).threads(text)


class _Reader:
    """Reads what tasks of one job have told: hundreds, each as much as it may, most of it alike."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: set[str] = set()
        if manifest := source.manifest:
            files = {span.file for span in manifest.lines}
            self._known = {*files, manifest.entry, *manifest.modules}
        self._steps: dict[tuple[str, str, str], Step] = {}

    def threads(self, text: str) -> tuple[Thread, ...]:
        """Do what `read_threads` does."""
        threads: list[list[Step]] = []
        main: list[Step] | None = None
        for line in text.splitlines()[:_MOST_LINES]:
            if _THREAD.fullmatch(line):
                threads.append([])
                main = threads[-1] if line.startswith(_MAIN_ALONE) else main
            elif threads and (found := _FRAME.fullmatch(line)):
                threads[-1].append(self._step(found[1], found[2], found[3]))
        if main is not None and len(threads) > 1:  # both answers have come: one has it, too
            threads = [thread for thread in threads if thread is not main]
        # The newest thread is told first, the innermost frame likewise.
        return tuple(
            Thread(tuple(_users(steps[::-1])))
            for steps in reversed(threads)
            if not any(step.file.endswith(_WAITS) for step in steps)
        )

    def _step(self, path: str, number: str, function: str) -> Step:
        told = path, number, function
        if told not in self._steps:
            if len(self._steps) >= _MOST_PLACES:
                return Step(clean(path), int(number), clean(function), None)
            file, line, name = self._in_bundle(clean(path)), int(number), clean(function)
            own = self._source.frame(RemoteFrame(file=file, line=line, function=name, text=""))
            self._steps[told] = Step(file, line, name, own)
        return self._steps[told]

    def _in_bundle(self, path: str) -> str:
        """Return a path relative to the bundle, wherever the task has that; others as they are."""
        at = path.find(_BUNDLE)
        while at >= 0:
            below = path[at + len(_BUNDLE) :]
            if str(PurePosixPath(below)) in self._known:
                return below
            at = path.find(_BUNDLE, at + 1)
        return path


def _users(steps: list[Step]) -> list[Step]:
    """Leave out what runs the user's code: the runtime, and what runs that."""
    first = next((number for number, step in enumerate(steps) if step.own), 0)
    while first and _RUNTIME not in steps[first - 1].file:
        first -= 1
    return steps[first:]


__all__ = [
    "Group",
    "Stacks",
    "Step",
    "TaskStacks",
    "Thread",
    "ranks_of",
    "read_stacks",
    "read_threads",
]
