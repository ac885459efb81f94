"""The second half of a supervisor: it watches the task, ends it, and has the last word."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters import cancelling, locks, machine
from submarine_engine.clusters.ending import Ending, judge, read_outcome, returned_event
from submarine_engine.clusters.journal import Journal
from submarine_engine.clusters.local import memory
from submarine_engine.clusters.local.tickets import Queue
from submarine_engine.clusters.local.wake import Wake
from submarine_engine.clusters.processes import end_children, end_group, stat
from submarine_engine.clusters.progress import Progress
from submarine_engine.errors import ClusterError
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    Moment,
    Released,
    Started,
)
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import TaskEnd, final_state

_TURN = 0.5
_LAST_WORD_TRIES = 60
_MIB = 1 << 20


def watch(  # noqa: PLR0913 - all that the first half knows
    home: str,
    job_id: str,
    task: str,
    pid: int,
    *,
    started: tuple[float, float],
    leases: list[int],
    grace: float,
    ahead: str = "",
) -> None:
    """Watch a task to its end, and see to the next in the queue.

    Parameters
    ----------
    pid
        The task's process: our child, and the leader of its session.
    started
        When it was started: wall and monotonic clock.
    leases
        Descriptors of the GPU leases.
    grace
        Seconds between SIGTERM and SIGKILL.
    ahead
        The folder of the zygote for jobs like this one, see `zygotes`; empty for none.
    """
    paths = JobPaths(Path(home), job_id)
    wake = Wake(cancelling.bell(paths))
    watched = _Task(paths, task, pid, Moment(*started), grace)
    watched.begin()
    while not watched.is_over():
        wake.wait(watched.look(wake.asked_to_end))
    while end_children():  # a process in the kernel's hands still holds its GPU: wait for it
        wake.wait(_TURN)
    exited = Moment.now()
    for descriptor in leases:
        locks.unlock(descriptor)  # the guard has it open, too
    written = watched.tell_end(exited, Moment.now())
    with suppress(OSError, ClusterError):  # else the keeper sees to them
        Queue(Path(home)).grant()
    for _ in range(_LAST_WORD_TRIES):
        if written:
            break
        time.sleep(1)
        written = watched.tell_end(exited, exited)
    from submarine_engine.clusters.staging import sweep  # noqa: PLC0415 - it need not hurry

    with suppress(OSError):
        sweep(Path(home))
    if ahead:
        from submarine_engine.clusters.local import zygotes  # noqa: PLC0415 - likewise

        with suppress(OSError, ValueError, KeyError, TypeError):
            zygotes.prepare(Path(ahead), paths, task)


class _Task:
    def __init__(self, paths: JobPaths, task: str, pid: int, started: Moment, grace: float) -> None:
        self._paths = paths
        self._task = task
        self._files = paths.task(task)
        self._pid = pid
        self._started = started
        self._grace = grace
        self._exit_code = 0
        self._turn_at = 0.0
        self._kill_at: float | None = None
        self._cancelled: CancelRequested | None = None
        self._cause = ""  # why we ended it ourselves, where nobody cancelled it
        self._unwritten: list[Event] = []
        self._last: tuple[Event, ...] = ()
        self._oom_kills = machine.oom_kills()
        self._progress = Progress(self._files)
        record = read_json(paths.record) or {}
        asked = record["spec"]["roles"][0]["resources"]["memory"]
        self._limit = asked * _MIB if asked else None
        self._journal = Journal(paths, record)

    def begin(self) -> None:
        """Put on record that the task runs, and who runs it."""
        leader = stat(self._pid)
        signature = {
            "pid": os.getpid(),
            "session": self._pid,
            "session_start": leader.start if leader else None,
        }
        with suppress(OSError):
            self._paths.lock.write_text(json.dumps(signature))
        self._write(Started(task=self._task, at=self._started))

    def is_over(self) -> bool:
        """Wait for strays that have ended, and at last for the task and its process group."""
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return False
            if ended.si_pid == self._pid:
                end_group(self._pid)  # a zombie keeps its number, so the group is still ours
            _, status = os.waitpid(ended.si_pid, 0)
            if ended.si_pid == self._pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
                return True

    def look(self, asked_to_end: bool) -> float:  # noqa: FBT001 - the one thing it is told
        """Do what is due; return the seconds until the next look."""
        wanted = cancelling.wanted(self._paths)
        if wanted:
            self._cancel(wanted.reason, kill=wanted.kill)
        elif asked_to_end:
            self._cancel("the supervisor was told to end", kill=False)
        if time.monotonic() >= self._turn_at:
            self._turn_at = time.monotonic() + _TURN
            self._turn()
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            end_group(self._pid)
            self._kill_at = now + _TURN
        return min(self._turn_at, self._kill_at or self._turn_at) - now

    def tell_end(self, exited: Moment, released: Moment) -> bool:
        """Write the last events; whether the disk had room for them."""
        self._last = self._last or self._judge(exited, released)
        try:
            self._journal.append_last(*self._unwritten, *self._last)
        except OSError:
            return not self._paths.root.exists()
        return True

    def _turn(self) -> None:
        if not self._paths.root.exists():
            self._end("the job's folder was deleted")
        elif self._limit and (excess := memory.over_limit(os.getpid(), self._limit)):
            self._end(excess)
        elif progressed := self._progress.look():
            with suppress(OSError):  # the next one tells it as well
                self._journal.append(progressed)

    def _cancel(self, reason: str, *, kill: bool) -> None:
        if self._cancelled is None:
            self._cancelled = CancelRequested(reason=reason)
            self._write(self._cancelled)
            self._kill_at = time.monotonic() + self._grace
            end_group(self._pid, signal.SIGTERM)
            end_group(self._pid, signal.SIGCONT)  # a stopped process ends only when it goes on
        if kill:
            self._kill_at = 0.0

    def _end(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._kill_at = 0.0

    def _write(self, event: Event) -> None:
        self._unwritten.append(event)
        try:
            self._journal.append(*self._unwritten)
        except OSError:  # a full disk: once more at the end, in the room kept for it
            return
        self._unwritten.clear()

    def _judge(self, exited: Moment, released: Moment) -> tuple[Event, ...]:
        ending = Ending(self._exit_code, read_outcome(self._files))
        returned = ending.returned_at(self._started, exited)
        oom_killed = machine.oom_kills() > self._oom_kills
        state, reason = judge(ending, self._paths.root, oom_killed=oom_killed)
        end = TaskEnd(
            state=state,
            reason=reason,
            at=exited,
            returned=returned,
            to_its_end=ending.came_to_its_end,
        )
        state, reason = final_state([end], cancelled=self._cancelled, cause=self._cause)
        events: list[Event] = []
        if state is not JobState.SUCCEEDED and (progressed := self._progress.look(last=True)):
            events.append(progressed)  # how far it came, not how far it was when last looked at
        if returned:
            events.append(returned_event(self._task, ending, returned))
        events += [
            Exited(task=self._task, exit_code=ending.exit_code, reason=reason, at=exited),
            Released(task=self._task, at=released),
            Finished(state=state, reason=reason),
        ]
        return tuple(events)
