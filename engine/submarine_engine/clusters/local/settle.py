"""The last word of a job whose supervisor could not say it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks, machine, processes
from submarine_engine.clusters.ending import Ending, read_outcome, returned_event
from submarine_engine.clusters.journal import Journal, read_events
from submarine_engine.clusters.local.launch import launch_file
from submarine_engine.events import CancelRequested, Event, Exited, Finished, Moment, Released
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, TaskEnd, TaskStatus, final_state, fold

if TYPE_CHECKING:
    from submarine_engine.clusters.local.tickets import Queue

_LOST = "its supervisor vanished without a last word (killed, or out of memory)"
_REBOOT = "the machine was started anew while the job was on"
_NEVER_BEGUN = "the process that submitted it was killed before the job was in the queue"
_PATIENCE = 2.0  # a process with a GPU of its own takes about one to go
_CLUSTER = "local"


def settle(paths: JobPaths, queue: Queue) -> bool:
    """End a job of this cluster that nobody watches any more, and say so in its events.

    What is left of its processes is killed. A job whose function had returned has its result, and
    counts as succeeded; any other is lost.

    Returns
    -------
    bool
        Whether the job was without a supervisor and is settled now. It is not as long as a process
        of it is left that cannot be killed: one in the kernel's hands may still use a GPU.

    Raises
    ------
    OSError
        The job's folder cannot be read or written.
    """
    if paths.job_id in queue:
        return False
    signature = _signature(paths)
    lock = locks.take(paths.lock)
    if lock is None:
        return False
    try:
        return _settle(paths, queue, signature)
    finally:
        locks.drop(lock)


def _settle(paths: JobPaths, queue: Queue, signature: Mapping[str, Any]) -> bool:
    record = read_json(paths.record)
    # All clusters share a home, and on another one nobody holds a job's lock while it runs. The
    # queue once more: until a moment ago the submitter may have held the lock.
    ours = machine.host(), _CLUSTER
    if (
        record is None
        or (record["host"], record["cluster"]) != ours
        or paths.job_id in queue
        or (status := fold(event for event, _ in read_events(paths.events)[0])).state.final
    ):
        return False
    rebooted = record.get("boot") != machine.boot_id()
    if not rebooted and not _end_leftovers(paths, signature):
        return False
    journal = Journal(paths, record)
    try:
        journal.append_last(*_last_events(paths, status, rebooted=rebooted))
    finally:
        journal.close()
    launch_file(paths).unlink(missing_ok=True)
    return True


def _signature(paths: JobPaths) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        signature = read_json(paths.lock)
        if isinstance(signature, dict):
            return signature
    return {}


def end_leftovers(paths: JobPaths) -> bool:
    """End what is left of a job whose leases have fallen free; whether nothing is left.

    A supervisor that lives has ended all of it before it gave the leases back. One that was killed
    has not, nor has a guard that was killed with it.
    """
    if not locks.is_free(paths.lock):
        return True
    with suppress(OSError, ValueError, KeyError, TypeError):
        if JobState((read_json(paths.status) or {})["state"]).final:
            return True
    return _end_leftovers(paths, _signature(paths))


def _end_leftovers(paths: JobPaths, signature: Mapping[str, Any]) -> bool:
    session, began = signature.get("session"), signature.get("session_start")
    limit = time.monotonic() + _PATIENCE
    while processes.end_leftovers(paths.job_id, session, began):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


def _last_events(paths: JobPaths, status: JobStatus, *, rebooted: bool) -> list[Event]:
    reason = _REBOOT if rebooted else _LOST
    if not any(task.held for task in status.tasks):
        reason = _REBOOT if rebooted else _NEVER_BEGUN
    ends = []
    events: list[Event] = []
    for task in status.tasks:
        ending = Ending(0, read_outcome(paths.task(task.task)))
        has_result = task.held is not None and ending.kind == "returned"
        end = TaskEnd(
            state=JobState.SUCCEEDED if has_result else JobState.LOST,
            reason=f"returned, but {_LOST}" if has_result else reason,
            to_its_end=has_result,
        )
        ends.append(end)
        if task.held is not None:
            events += _last_of_task(task, ending, end.reason)
    wanted = CancelRequested(reason=status.reason) if status.cancelling else None
    state, why = final_state(ends, cancelled=wanted)
    return [*events, Finished(state=state, reason=why)]


def _last_of_task(task: TaskStatus, ending: Ending, reason: str) -> list[Event]:
    now = Moment.now()
    returned = ending.returned_at(task.busy or now, now)
    code = 0 if ending.kind == "returned" else -9
    events: list[Event] = [returned_event(task.task, ending, returned)] if returned else []
    if not task.state.final:
        events.append(Exited(task=task.task, exit_code=code, reason=reason))
    return [*events, Released(task=task.task)]
