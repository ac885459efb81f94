"""The stacks of a running job's tasks: who asks for them, and how its driver gets them.

Who asks writes ``stacks-asked.json`` (``{"id"}``) into the job's folder, from whichever process.
The job's driver asks each task that runs by the exchange, and writes ``stacks.json``::

    {"version": 1, "id": "…", "at": 1700000000.0,
     "tasks": {"worker-0": {"host": "…", "stacks": "…" | null, "cpu": 1.5 | null}}}

``stacks`` is what the task wrote there, in the form of `faulthandler`, null where it has not
answered in time. It is the word of a stranger: `submarine_engine.stacks` reads it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.stacks import ASK, ASK_MAIN, CPU, STACKS

from submarine_engine.errors import ClusterError, JobError
from submarine_engine.history import JobPaths, read_foreign, write_json
from submarine_engine.job import JobState
from submarine_engine.masking import masker_of

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.clusters.backend import Request
    from submarine_engine.lifecycle import JobStatus

PATIENCE = 6.0
"""Seconds that the driver waits for tasks. One on YARN has a busy machine to share."""

_LOCK_WITHIN = 1.0
"""Seconds in which a task gets Python's lock for its answer; else its main thread is asked."""

_ASKERS_PATIENCE = 20.0  # more than the driver's, and a busy machine is slow
_LOOK = 0.02  # seconds: people wait for it; a look reads one small file of this machine
_HEAR_EVERY = 0.1  # seconds: on YARN each is a question to the application's master
VERSION = 1

LARGEST_QUESTION = 4096
"""Bytes of ``stacks-asked.json``."""

_LARGEST = 1 << 28  # of hundreds of tasks, each with the most that it may tell


class TaskStack(NamedTuple):
    """The stacks of a task's threads at one moment.

    Parameters
    ----------
    host
        Where it runs.
    text
        Its stacks; empty where it has not told them.
    cpu
        Seconds that processors have worked for it; None where nobody knows.
    moved
        Bytes that its processes have read and written.
    """

    host: str
    text: str
    cpu: float | None
    moved: int = 0


class StackSample:
    """The stacks of all tasks that run, asked for once.

    Parameters
    ----------
    request
        How the tasks are reached.
    hosts
        Where each runs, by task.
    """

    def __init__(self, request: Request, hosts: Mapping[str, str]) -> None:
        self.at = time.time()
        self.mono = time.monotonic()
        self.told: dict[str, TaskStack] = {}
        self._request = request
        self._hosts = hosts
        self._id = secrets.token_hex(8)
        self._unasked = set(hosts)
        self._asked_at: dict[str, float] = {}
        """When each task was asked whose main thread was not."""
        self._heard: dict[str, TaskStack] = {}
        self._until = time.monotonic() + PATIENCE
        self._hear_at = 0.0

    def step(self) -> bool:
        """Ask tasks, or read their answers; return whether none is to be waited for."""
        for task in sorted(self._unasked):
            # Its code has not begun, or the cluster does not answer now: once more, then.
            with suppress(ClusterError):
                self._request.exchange({task: {ASK: self._id.encode()}})
                self._unasked.discard(task)
                self._asked_at[task] = time.monotonic()
        now = time.monotonic()
        for task, at in list(self._asked_at.items()):
            if now - at > _LOCK_WITHIN and task not in self.told:
                with suppress(ClusterError):
                    self._request.exchange({task: {ASK_MAIN: self._id.encode()}})
                    del self._asked_at[task]
        if now >= self._hear_at:
            self._hear_at = now + _HEAR_EVERY
            with suppress(ClusterError):
                self._hear(self._request.exchange({}))
        if len(self.told) < len(self._hosts) and now < self._until:
            return False
        for task, host in self._hosts.items():
            silent = self._heard.get(task, TaskStack(host, "", None))
            self.told.setdefault(task, silent._replace(text=""))
        return True

    def _hear(self, said: Mapping[str, Mapping[str, bytes]]) -> None:
        for task, host in self._hosts.items():
            data = said.get(task, {}).get(STACKS)
            if data is None or task in self.told or task in self._unasked:
                continue
            found = _read(host, data)
            before = self._heard.get(task)
            if found.text and before is not None and before.text == found.text:
                self.told[task] = found  # written in pieces, and nothing has come since
            self._heard[task] = found


def _read(host: str, data: bytes) -> TaskStack:
    first, _, rest = data.partition(b"\n")
    seconds, moved = None, 0
    if first.startswith(CPU):
        with suppress(ValueError):
            told, _, bytes_moved = first[len(CPU) :].partition(b" io ")
            seconds, moved = float(told), int(bytes_moved or 0)
        data = rest
    return TaskStack(host, data.decode("ascii", "replace"), seconds, moved)


def as_json(paths: JobPaths, asked: str, look: StackSample) -> dict[str, Any]:
    """Return what ``stacks.json`` says of a look, with the job's secrets masked.

    Parameters
    ----------
    paths
        The job's files.
    asked
        The id of the question; empty where nobody asked.
    look
        The stacks.
    """
    masker = masker_of(paths.root)
    tasks = {
        task: {
            "host": one.host,
            "stacks": (masker.text(one.text) if masker else one.text) or None,
            "cpu": one.cpu,
        }
        for task, one in look.told.items()
    }
    return {"version": VERSION, "id": asked, "at": look.at, "tasks": tasks}


def ask(paths: JobPaths, status: Callable[[], JobStatus]) -> Mapping[str, Any]:
    """Have a job's driver look at the stacks of its tasks; return what ``stacks.json`` says then.

    Parameters
    ----------
    paths
        The job's files.
    status
        Tells how the job stands.

    Raises
    ------
    JobError
        The job does not run, ends meanwhile, or nobody answers.
    OSError
        The job's folder cannot be written.
    """
    _expect_running(paths.job_id, status())
    mine = {"id": secrets.token_hex(8)}
    ids = {mine["id"]}
    write_json(paths.stacks_asked, mine)
    until = time.monotonic() + _ASKERS_PATIENCE
    try:
        while True:
            if (told := _read_object(paths.stacks)) and str(told.get("id")) in ids:
                return told
            # Somebody else asks, too, and has taken the place of this question.
            if other := _read_object(paths.stacks_asked):
                ids.add(str(other.get("id")))
            else:  # ... and has gone without an answer to this one
                with suppress(OSError):
                    write_json(paths.stacks_asked, mine)
            _expect_running(paths.job_id, status())
            if time.monotonic() > until:
                raise JobError(
                    f"nobody has looked at its stacks within {_ASKERS_PATIENCE:g} s",
                    job_id=paths.job_id,
                    fix=f"see whether {paths.supervisor_log} says why, and ask again",
                )
            time.sleep(_LOOK)
    finally:
        with suppress(OSError):
            if _read_object(paths.stacks_asked) == mine:
                paths.stacks_asked.unlink()


def _read_object(path: Path) -> dict[str, Any] | None:
    """Return what lies there; the job's code can put there what it likes."""
    with suppress(OSError, ValueError, RecursionError):
        told = json.loads(read_foreign(path, _LARGEST))
        return told if isinstance(told, dict) else None
    return None


def _expect_running(job_id: str, status: JobStatus) -> None:
    if status.state in (JobState.STARTING, JobState.RUNNING):  # what starts is waited for
        return
    if status.state.final:
        raise JobError(
            f"the job is over ({status.state.value}): it has no stacks any more",
            job_id=job_id,
            fix=f"its log says what it did: submarine job logs {job_id}",
        )
    raise JobError(
        f"the job does not run yet ({status.state.value})", job_id=job_id, fix="ask when it does"
    )
