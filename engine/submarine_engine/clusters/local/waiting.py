"""What a job waits for, in words, and on record while somebody looks."""

from __future__ import annotations

import os
from collections import Counter

from submarine_engine.clusters.local import locks
from submarine_engine.clusters.local.journal import Journal
from submarine_engine.clusters.local.tickets import Queue, Ticket
from submarine_engine.events import Waiting
from submarine_engine.history import JobPaths, read_json
from submarine_engine.lifecycle import JobStatus

_NAMED = 2


def tell_waiting(paths: JobPaths, queue: Queue, status: JobStatus) -> bool:
    """Write the job's place in the queue where it is another than `status` says.

    Raises
    ------
    OSError
        The job's folder cannot be written.
    ClusterError
        The queue is locked.
    """
    ahead = queue.ahead(paths.job_id)
    if ahead is None:
        return False
    reason = describe(queue, queue.tickets()[ahead], ahead)
    if (ahead, reason) == (status.ahead, status.waiting_reason):
        return False
    lock = locks.take(paths.lock)
    if lock is None:  # it begins right now, or another reader is at it
        return False
    try:
        record = read_json(paths.record)
        if record is None or queue.ahead(paths.job_id) is None:
            return False
        journal = Journal(paths, record)
        try:
            journal.append(Waiting(ahead=ahead, reason=reason))
        finally:
            journal.close()
    finally:
        os.close(lock)
    return True


def describe(queue: Queue, ticket: Ticket, ahead: int) -> str:
    """Return for example ``2 of 2 GPUs in use by 'mnist' (…ab3de), 1 job ahead``."""
    holders = [holder for holder in queue.holders(ticket.pool).values() if holder]
    words = []
    if holders:
        names = [str(holder) for holder, _ in Counter(holders).most_common()]
        if len(names) > _NAMED:
            names[_NAMED - 1 :] = [f"{len(names) - _NAMED + 1} other jobs"]
        words.append(f"{len(holders)} of {len(ticket.pool)} GPUs in use by {' and '.join(names)}")
    if ahead:
        words.append(f"{ahead} job{'s' if ahead > 1 else ''} ahead")
    return ", ".join(words) or "next in turn"
