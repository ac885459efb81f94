"""The last word of a job whose supervisor could not say it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks, machine, processes
from submarine_engine.clusters.ending import Ending, judge, read_outcome, returned_event
from submarine_engine.clusters.journal import Journal, read_events
from submarine_engine.clusters.local.launch import launch_file, start
from submarine_engine.clusters.local.queuefile import Ticket
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    Granted,
    Moment,
    Released,
    Started,
)
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, TaskEnd, TaskStatus, final_state, fold

if TYPE_CHECKING:
    from submarine_engine.clusters.local.tickets import Queue

_MOST_ATTEMPTS = 3
_LOST = "its supervisor vanished without a last word (killed, or out of memory)"
_REBOOT = "the machine was started anew while the job was on"
_NEVER_RAN = f"its supervisor was killed {_MOST_ATTEMPTS} times before its code began"
_NEVER_BEGUN = "the process that submitted it was killed before the job was in the queue"
_PATIENCE = 2.0  # a process with a GPU of its own takes about one to go
_CLUSTER = "local"


def settle(paths: JobPaths, queue: Queue) -> bool:
    """End a job of this cluster that nobody watches any more, and say so in its events.

    What is left of its processes is killed. A job whose function had returned has its result, and
    counts as succeeded; any other is lost.

    One whose code has not begun yet is granted once more instead.

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
        settled = _settle(paths, queue, signature)
    finally:
        locks.drop(lock)
    if settled is None:
        _grant_again(paths, queue)
    return settled is not False


def _settle(paths: JobPaths, queue: Queue, signature: Mapping[str, Any]) -> bool | None:
    """Settle under the job's lock; None where the job is to be granted once more."""
    record = read_json(paths.record)
    # All clusters share a home, and on another one nobody holds a job's lock while it runs. The
    # queue once more: until a moment ago the submitter may have held the lock.
    ours = machine.host(), _CLUSTER
    if (
        record is None
        or (record["host"], record["cluster"]) != ours
        or paths.job_id in queue
        or (status := fold(events := _events(paths))).state.final
    ):
        return False
    rebooted = record.get("boot") != machine.boot_id()
    if not rebooted and not _end_leftovers(paths, signature):
        return False
    attempts = sum(isinstance(event, Granted) for event in events)
    unbegun = launch_file(paths).exists()
    if unbegun and not rebooted and 0 < attempts < _MOST_ATTEMPTS:
        return None
    if rebooted:
        reason = _REBOOT
    elif attempts == 0:
        reason = _NEVER_BEGUN
    else:
        reason = _NEVER_RAN if unbegun else _LOST
    asked = next((event for event in events if isinstance(event, CancelRequested)), None)
    journal = Journal(paths, record)
    try:
        journal.append_last(*_last_events(paths, status, reason, asked))
    finally:
        journal.close()
    launch_file(paths).unlink(missing_ok=True)
    return True


def _events(paths: JobPaths) -> list[Event]:
    return [event for event, _ in read_events(paths.events)[0]]


def _grant_again(paths: JobPaths, queue: Queue) -> None:
    """Put a job back in the queue whose granter and supervisor were killed before its code began.

    Several who do it at once do it once: it has one ticket, and one supervisor can hold its lock.
    """
    launch, record = read_json(launch_file(paths)), read_json(paths.record)
    if launch is None or record is None:  # somebody else has seen to it
        return
    if pool := tuple(launch["pool"]):
        spec = record["spec"]
        gpus = spec["roles"][0]["resources"]["gpus"]
        queue.add(Ticket(paths.job_id, spec["name"], gpus, pool))
        queue.grant()
    else:
        start(paths, {})


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


def _last_events(
    paths: JobPaths, status: JobStatus, reason: str, asked: CancelRequested | None
) -> list[Event]:
    ends = []
    events: list[Event] = []
    for task in status.tasks:
        ending = Ending(-signal.SIGKILL, read_outcome(paths.task(task.task)))
        now = Moment.now()
        end = TaskEnd(state=JobState.LOST, reason=reason, at=now)
        if ending.kind and task.held is not None:
            returned = ending.returned_at(task.busy or now, now)
            state, why = judge(ending, paths.root, oom_killed=False)
            if state is JobState.SUCCEEDED:
                why = f"{'returned' if returned else 'ended'}, but {reason}"
            to_its_end = ending.came_to_its_end
            end = TaskEnd(state=state, reason=why, at=now, returned=returned, to_its_end=to_its_end)
        ends.append(end)
        if task.held is not None:
            events += _last_of_task(task, ending, end)
    state, why = final_state(ends, cancelled=asked)
    return [*events, Finished(state=state, reason=why)]


def _last_of_task(task: TaskStatus, ending: Ending, end: TaskEnd) -> list[Event]:
    events: list[Event] = []
    if ending.kind and task.busy is None:  # it was over before its supervisor could say that it ran
        events.append(Started(task=task.task, at=end.returned or Moment.now()))
    if end.returned:
        events.append(returned_event(task.task, ending, end.returned))
    if not task.state.final:
        events.append(Exited(task=task.task, exit_code=ending.exit_code, reason=end.reason))
    return [*events, Released(task=task.task)]
