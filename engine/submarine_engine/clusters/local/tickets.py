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
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from submarine_engine.clusters.local import launch, locks, machine
from submarine_engine.clusters.local.leases import Holder, Leases, release
from submarine_engine.clusters.local.processes import spawn
from submarine_engine.errors import JobNotFoundError
from submarine_engine.history import JobPaths, make_private, write_aside

_FRESH = 0.5
_ENGINE = Path(__file__).resolve().parents[3]
_KEEP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from submarine_engine.clusters.local.keeper import main; main(sys.argv[2:])"
)


class Ticket(NamedTuple):
    """A job's place in the queue: it waits for `gpus` of the GPUs in `pool`."""

    job_id: str
    name: str
    gpus: int
    pool: tuple[str, ...]


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
        self._file = self._folder / "queue"
        self._seen: tuple[tuple[int, int, int], dict[str, Ticket]] | None = None
        self._seen_holders: dict[tuple[str, ...], tuple[float, dict[str, Holder | None]]] = {}
        self._cared = 0.0
        self._torn = False  # whether a submitter that was killed has left half a line
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
            self._append(ticket)

    def tickets(self) -> dict[str, Ticket]:
        """Return all tickets in their order, by job id."""
        try:
            status = self._file.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._seen is None or self._seen[0] != version:
                text = self._file.read_text()
                self._torn = bool(text) and not text.endswith("\n")
                self._seen = version, _parse(text)
        except FileNotFoundError:
            return {}
        return self._seen[1]

    def ahead(self, job_id: str) -> int | None:
        """Return how many tickets are before a job's; None where it has none."""
        tickets = self.tickets()
        return list(tickets).index(job_id) if job_id in tickets else None

    def cancel(self, job_id: str, reason: str) -> bool:
        """End a job that waits, and take its ticket away; False where it does not wait.

        Raises
        ------
        ClusterError, OSError
            As `add`.
        """
        if job_id not in self.tickets():
            return False
        with self._lock():
            rest = dict(self.tickets())
            if rest.pop(job_id, None) is None:
                return False
            paths = JobPaths(self._home, job_id)
            lock = locks.take(paths.lock, wait=1.0)
            if lock is None:  # it has just begun
                return False
            try:
                launch.end_unstarted(paths, reason)
            finally:
                os.close(lock)
            self._write(rest)
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
        if not self.tickets():
            return False
        with self._lock():
            self._grant_in_turn()
            left = bool(self.tickets())
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
            if self.tickets():
                return False
            os.close(keeper_lock)
            return True

    def _grant_in_turn(self) -> None:
        left = dict(self.tickets())
        for ticket in list(left.values()):
            if waits := self._waits(ticket):
                taken = self.leases.take(ticket.pool, ticket.gpus, Holder(*ticket[:2]))
                if taken is None:
                    break
                try:
                    launch.start(JobPaths(self._home, ticket.job_id), taken)
                finally:
                    release(taken)
            del left[ticket.job_id]
            if waits:
                self._write(left)
        if len(left) < len(self.tickets()):
            self._write(left)

    def _waits(self, ticket: Ticket) -> bool:
        """Return False for a job that is gone, or was begun by a granter that was killed then."""
        try:
            return launch.launch_file(JobPaths(self._home, ticket.job_id)).exists()
        except JobNotFoundError:
            return False

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
            os.close(lock)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with locks.held(self._folder / "queue.lock"):
            self._seen = None  # what is decided here is decided on what the file says now
            yield

    def _append(self, ticket: Ticket) -> None:
        """Write one line: the other thousand need not be written again."""
        tickets = self.tickets()
        if not tickets or self._torn:
            self._write({**tickets, ticket.job_id: ticket})
            return
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = self._file.stat().st_size
            line = _line(ticket)
            try:
                written = os.pwrite(descriptor, line, size)
                if written < len(line):
                    os.pwrite(descriptor, line[written:], size + written)  # tells why by raising
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def _write(self, tickets: dict[str, Ticket]) -> None:
        write_aside(self._file, b"".join(map(_line, tickets.values())))


def _line(ticket: Ticket) -> bytes:
    return f"{ticket.job_id} {ticket.name} {ticket.gpus} {','.join(ticket.pool)}\n".encode()


def _parse(text: str) -> dict[str, Ticket]:
    tickets = {}
    for line in text[: text.rfind("\n") + 1].splitlines():
        job_id, name, gpus, pool = line.split(" ")
        tickets[job_id] = Ticket(job_id, name, int(gpus), tuple(pool.split(",")))
    return tickets
