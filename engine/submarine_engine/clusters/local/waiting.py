"""What a job waits for, in words, and on record while somebody looks."""

from __future__ import annotations

from collections import Counter

from submarine_engine.clusters import locks
from submarine_engine.clusters.journal import Journal
from submarine_engine.clusters.local.tickets import Queue
from submarine_engine.events import Waiting
from submarine_engine.history import JobPaths, read_json
from submarine_engine.lifecycle import JobStatus, apply

_NAMED = 2


def seen_waiting(queue: Queue, job_id: str, status: JobStatus) -> JobStatus:
    """Return `status` with the job's place in the queue as it is now.

    Raises
    ------
    ClusterError
        The queue is locked.
    """
    ahead = queue.ahead(job_id)
    if ahead is None:
        return status
    return apply(status, Waiting(ahead=ahead, reason=describe(queue, job_id, ahead)))


def tell_waiting(paths: JobPaths, queue: Queue, status: JobStatus) -> bool:
    """Write the job's place in the queue where it is another than `status` says.

    Raises
    ------
    OSError
        The job's folder cannot be written.
    ClusterError
        The queue is locked.
    """
    now = seen_waiting(queue, paths.job_id, status)
    if (now.ahead, now.waiting_reason) == (status.ahead, status.waiting_reason):
        return False
    lock = locks.take(paths.lock)
    if lock is None:  # it begins right now, or another reader is at it
        return False
    try:
        record = read_json(paths.record)
        if record is None or now.ahead is None or paths.job_id not in queue:
            return False
        journal = Journal(paths, record)
        try:
            journal.append(Waiting(ahead=now.ahead, reason=now.waiting_reason))
        finally:
            journal.close()
    finally:
        locks.drop(lock)
    return True


def describe(queue: Queue, job_id: str, ahead: int) -> str:
    """Return what a job waits for.

    ``waiting behind bob-llm (4 GPUs, 2 free)`` where another job is first in the queue, since
    nobody is let past it; else ``2 of 2 GPUs in use by 'mnist' (…ab3de)``.
    """
    first = queue.first() if ahead else None
    ticket = first or queue.ticket(job_id)
    pool = ticket.pool if ticket else ()
    holders = [holder for holder in queue.holders(pool, fresh=False).values() if holder]
    if first:
        asked = f"{first.gpus} GPU{'s' if first.gpus > 1 else ''}"
        more = f", {ahead} jobs ahead" if ahead > 1 else ""
        return f"waiting behind {first.name} ({asked}, {len(pool) - len(holders)} free){more}"
    words = []
    if holders:
        names = [str(holder) for holder, _ in Counter(holders).most_common()]
        if len(names) > _NAMED:
            names[_NAMED - 1 :] = [f"{len(names) - _NAMED + 1} other jobs"]
        words.append(f"{len(holders)} of {len(pool)} GPUs in use by {' and '.join(names)}")
    return ", ".join(words) or "next in turn"
