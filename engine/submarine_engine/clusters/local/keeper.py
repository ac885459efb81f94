"""The keeper: grants leases while tickets wait, and ends when none is left.

What a supervisor gives back it grants at once by itself. The keeper is there for everything else:
a holder that was killed, a GPU that a leftover process held, a job whose supervisor is gone.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters.local.settle import settle
from submarine_engine.clusters.local.tickets import Queue
from submarine_engine.clusters.processes import reap
from submarine_engine.errors import ClusterError, JobNotFoundError
from submarine_engine.history import JobPaths

_INTERVAL = 0.2
_CARE = 10


def main(arguments: list[str]) -> None:
    """Run a keeper: the home of all jobs, and the descriptor that holds the keeper's lock."""
    home = Path(arguments[0])
    lock = int(arguments[1])
    queue = Queue(home)
    turn = 0
    while home.exists():
        # A full disk, or a queue that a stopped process has locked: later, then.
        with suppress(OSError, ClusterError):
            if not queue.grant(keep=False) and queue.leave_if_empty(lock):
                return
            if turn % _CARE == 0:
                _settle_holders(home, queue)
        turn += 1
        time.sleep(_INTERVAL)
        reap()


def _settle_holders(home: Path, queue: Queue) -> None:
    """End what is left of jobs that hold GPUs and have lost their supervisor."""
    first = next(iter(queue), None)
    for holder in queue.holders(first.pool).values() if first else ():
        if holder is None:
            continue
        with suppress(JobNotFoundError, OSError):
            settle(JobPaths(home, holder.job_id), queue)
