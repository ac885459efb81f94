"""The queue of a machine: first come first served, all of a job's GPUs or none.

The whole queue is one small file, a line a ticket, replaced at each change. Who changes it holds
``queue.lock``. Whoever looks may grant what can be granted: the submitter, a supervisor that has
just given its GPUs back, and the keeper, which lives only while tickets wait and sees what falls
free otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.local import launch
from submarine_engine.clusters.local.leases import Holder, Leases, release
from submarine_engine.clusters.local.queuefile import QueueFile, Ticket
from submarine_engine.clusters.local.settle import end_leftovers
from submarine_engine.clusters.processes import spawn
from submarine_engine.errors import JobNotFoundError
from submarine_engine.history import JobPaths, make_private

_FRESH = 0.5
_ENGINE = Path(__file__).resolve().parents[3]
_KEEP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from submarine_engine.clusters.local.keeper import main; main(sys.argv[2:])"
)


class Queue:
    """The queue of this machine.

    Parameters
    ----------
    home
        Where all jobs are kept; machines that share it have a queue each.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / "hosts" / machine.host()
        self._file = QueueFile(self._folder / "queue")
        self._seen_holders: dict[tuple[str, ...], tuple[float, dict[str, Holder | None]]] = {}
        self._cared = 0.0
        self.leases = Leases(self._folder / "gpus")

    def add(self, ticket: Ticket) -> None:
        """Put a ticket at the end.

        Raises
        ------
        OSError
            The disk is full; the queue is as before.
        ClusterError
            The queue is locked, see `locks.held`.
        """
        make_private(self._folder)
        with self._lock():
            self._file.append(ticket)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._file.lines()

    def __iter__(self) -> Iterator[Ticket]:
        return map(Ticket.from_line, self._file.lines().values())

    def ahead(self, job_id: str) -> int | None:
        """Return how many tickets are before a job's; None where it has none."""
        lines = self._file.lines()
        return list(lines).index(job_id) if job_id in lines else None

    def ticket(self, job_id: str) -> Ticket | None:
        """Return a job's ticket; None where it has none."""
        line = self._file.lines().get(job_id)
        return Ticket.from_line(line) if line else None

    def first(self) -> Ticket | None:
        """Return the ticket of who is next; None where nobody waits."""
        line = next(iter(self._file.lines().values()), None)
        return Ticket.from_line(line) if line else None

    def cancel(self, job_id: str, reason: str) -> bool:
        """End a job that waits, and take its ticket away; False where it does not wait.

        Raises
        ------
        ClusterError, OSError
            As `add`.
        """
        if job_id not in self:
            return False
        with self._lock():
            left = dict(self._file.lines())
            if left.pop(job_id, None) is None:
                return False
            paths = JobPaths(self._home, job_id)
            lock = locks.take(paths.lock, wait=1.0)
            if lock is None:  # it has just begun
                return False
            try:
                launch.end_unstarted(paths, reason)
            finally:
                locks.drop(lock)
            self._file.replace(left.values())
        return True

    def grant(self, *, keep: bool = True) -> bool:
        """Start every job at the head of the queue whose GPUs are free.

        Parameters
        ----------
        keep
            Make sure that a keeper lives where tickets are left.

        Returns
        -------
        bool
            Whether tickets are left.
        """
        if not self._file.lines():
            return False
        with self._lock():
            self._grant_in_turn()
            self._seen_holders = {}
            left = bool(self._file.lines())
            if left and keep:
                self._keep()
        return left

    def care(self) -> None:
        """Grant, and make sure of a keeper, for one who only looks: twice a second at most."""
        if time.monotonic() - self._cared > _FRESH:
            self._cared = time.monotonic()
            self.grant()

    def holders(self, pool: Sequence[str], *, fresh: bool = True) -> dict[str, Holder | None]:
        """Return who holds each GPU of `pool`, None where it is free.

        Parameters
        ----------
        fresh
            Whether what was true half a second ago is too old.
        """
        pool = tuple(pool)
        seen = self._seen_holders.get(pool)
        if fresh or seen is None or time.monotonic() - seen[0] > _FRESH:
            make_private(self._folder)
            with self._lock():
                seen = time.monotonic(), self.leases.holders(pool)
            self._seen_holders = {pool: seen}
        return seen[1]

    def leave_if_empty(self, keeper_lock: int) -> bool:
        """Let a keeper go: nobody can add a ticket between its look and its leave."""
        with self._lock():
            if self._file.lines():
                return False
            locks.drop(keeper_lock)
            return True

    def _grant_in_turn(self) -> None:
        left = dict(self._file.lines())
        for ticket in self:
            if waits := self._waits(ticket):
                taken = self.leases.take(
                    ticket.pool, ticket.gpus, Holder(*ticket[:2]), self._is_over
                )
                if taken is None:
                    break
                try:
                    begun = launch.start(JobPaths(self._home, ticket.job_id), taken)
                finally:
                    release(taken)
                if not begun:
                    break
            del left[ticket.job_id]
            if waits:
                self._file.replace(left.values())
        if len(left) < len(self._file.lines()):
            self._file.replace(left.values())

    def _waits(self, ticket: Ticket) -> bool:
        """Return False for a job that is gone, or was begun by a granter that was killed then."""
        try:
            return launch.launch_file(JobPaths(self._home, ticket.job_id)).exists()
        except JobNotFoundError:
            return False

    def _is_over(self, job_id: str) -> bool:
        """Return whether nothing is left of a job whose GPUs have fallen free; end what is."""
        with suppress(JobNotFoundError):
            return end_leftovers(JobPaths(self._home, job_id))
        return True

    def _keep(self) -> None:
        lock = locks.take(self._folder / "keeper.lock")
        if lock is None:
            return
        try:
            spawn(
                [sys.executable, "-I", "-S", "-c", _KEEP, str(_ENGINE), str(self._home), str(lock)],
                os.environ,
                log=self._folder / "keeper.log",
                keep=[lock],
            )
        finally:
            locks.drop(lock)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with locks.held(self._folder / "queue.lock"):
            self._file.forget()  # what is decided here is decided on what the file says now
            yield
