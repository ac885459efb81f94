"""The local cluster: jobs on this machine, without a daemon.

A job on record gets a ticket in the machine's queue (`scheduler`), then a supervisor of its own
(`launch`). This module is what front ends call; it only reads what those write.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.base import AnswerPipe
from submarine_engine.clusters.driver import DrivenCluster
from submarine_engine.clusters.local import launch
from submarine_engine.clusters.local.backend import LocalBackend
from submarine_engine.clusters.local.checks import NOT_KNOWN
from submarine_engine.clusters.local.launch import launch_file
from submarine_engine.clusters.local.leases import is_shared
from submarine_engine.clusters.local.scheduler import Queue, Ticket, recover_lost
from submarine_engine.clusters.store import Journal
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError
from submarine_engine.events import Waiting
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.lifecycle import JobStatus, apply

if TYPE_CHECKING:
    from submarine_engine.clusters.local.turns import Turn
    from submarine_engine.config import Config
    from submarine_engine.findings import Check
    from submarine_engine.job import JobSpec


# What a job waits for, in words, and on record while somebody looks.


_NAMED = 2


def seen_waiting(queue: Queue, job_id: str, status: JobStatus) -> JobStatus:
    """Return `status` with the job's place in the queue as it is now.

    Parameters
    ----------
    queue
        This machine's.
    job_id
        The job's id.
    status
        The job as its events tell.

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

    Parameters
    ----------
    paths
        The job's files.
    queue
        This machine's.
    status
        The job as its events tell.

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
    nobody is let past it; else ``2 of 2 GPUs in use by 'mnist' (…ab3de)``. On a machine that users
    share, ``2 of 4 GPUs are alice's; you are next``.

    Parameters
    ----------
    queue
        This machine's.
    job_id
        The job's id.
    ahead
        How many jobs are before it.
    """
    first = queue.first() if ahead else None
    ticket = first or queue.ticket(job_id)
    pool = ticket.pool if ticket else ()
    holders = [holder for holder in queue.holders(pool, fresh=False).values() if holder]
    if first:
        most = f" to {first.gpus + first.more}" if first.more else ""
        asked = f"{first.gpus}{most} GPU{'s' if first.gpus + first.more > 1 else ''}"
        more = f", {ahead} jobs ahead" if ahead > 1 else ""
        return f"waiting behind {first.name} ({asked}, {len(pool) - len(holders)} free){more}"
    words = []
    ours = [holder for holder in holders if not holder.user]
    if ours:
        names = [str(holder) for holder, _ in Counter(ours).most_common()]
        if len(names) > _NAMED:
            names[_NAMED - 1 :] = [f"{len(names) - _NAMED + 1} other jobs"]
        words.append(f"{len(ours)} of {len(pool)} GPUs in use by {' and '.join(names)}")
    users = Counter(holder.user for holder in holders if holder.user).most_common()
    words += [
        f"{held} of {len(pool)} GPUs {'is' if held == 1 else 'are'} {user}'s"
        for user, held in users
    ]
    turn = queue.turn(ticket) if ticket else None
    told = ", ".join(words)
    if turn is not None:
        return "; ".join(filter(None, (told, _turn_words(turn))))
    return told or "next in turn"


def _turn_words(turn: Turn) -> str:
    if turn.at_most:
        return "you hold as many GPUs as this machine's owner lets one user have"
    if not turn.users:
        return "you are next"
    names = list(dict.fromkeys(map(machine.user_name_of, turn.users)))
    if len(names) > _NAMED:
        return f"{len(names)} users are before you"
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} before you"


# The local cluster: the seam `Cluster`, over files, locks and processes of this machine.


class LocalCluster(DrivenCluster):
    """Jobs on this machine, one queue for all notebooks of the user, no daemon.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.
    grace
        Seconds between SIGTERM and SIGKILL for jobs submitted here; None takes the configured.
    log_page
        Gives the web address of a job's log by its id, where a front end serves one.
    """

    name = LocalBackend.name
    no_gpus = LocalBackend.no_gpus
    tasks_here = LocalBackend.tasks_here
    asks: ClassVar[bool] = True

    def __init__(
        self,
        home: Path | None = None,
        *,
        grace: float | None = None,
        log_page: Callable[[str], str | None] | None = None,
    ) -> None:
        backend = LocalBackend(home or default_home(), grace=grace)
        super().__init__(backend)
        self._queue = backend.queue
        self._log_page = log_page

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield how many GPUs this machine has, and where that is known from."""
        return LocalBackend.checks(config)

    @classmethod
    def machine_path(cls, path: str, option: str) -> Path:
        """Return a path of this machine; all are."""
        return LocalBackend.machine_path(path, option)

    def hand_on(self, paths: JobPaths, spec: JobSpec, lock: int) -> None:
        """Put the job in the queue; start its supervisor where it asks for no GPU.

        Raises
        ------
        SubmissionError
            The disk is full.
        ClusterError
            The queue is locked by a process that is stopped.
        """
        if not spec.gpus:  # as many tasks as there may be: nothing is short
            launch.start(paths, {}, lock)
            return
        try:
            told = read_json(launch_file(paths)) or {}
            self._queue.add(Ticket.of(paths.job_id, spec, told["pool"]))
        except BaseException as error:
            shutil.rmtree(paths.root, ignore_errors=True)
            if isinstance(error, OSError):
                raise SubmissionError(
                    f"the queue cannot be written: {error.strerror or error}",
                    where=str(self.home),
                    fix="make room there, or let SUBMARINE_HOME name a folder with room",
                ) from error
            raise
        finally:
            locks.drop(lock)
        try:
            if self._queue.grant_new(paths.job_id):
                tell_waiting(paths, self._queue, JobStatus())
        except (OSError, ClusterError):  # it is in the queue: whoever looks next sees to it
            return
        except KeyboardInterrupt:
            with suppress(SubmarineError):
                self.cancel(paths.job_id, "interrupted while it was submitted")
            raise

    def take_question(self, job_id: str, task: str, number: int) -> AnswerPipe | None:
        """Take a question of a task to answer it; None where it is over."""
        with self.on_record(job_id) as paths:
            return AnswerPipe.take(paths.task(task).root / f"answer-{number}")

    def not_known(self) -> str:
        """Return that of other users' jobs nothing is known, where others are on the machine."""
        return "" if is_shared() or not machine.has_other_people() else NOT_KNOWN

    def room(self) -> int:
        """Return what the disk of the jobs' folders has room for, with some left for logs."""
        folder = self.home
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return shutil.disk_usage(folder).free * 9 // 10

    def log_url(self, job_id: str) -> str | None:
        """Return the web address of the job's log; None where no front end serves one."""
        return self._log_page(job_id) if self._log_page else None

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:
        """End a job that lost its supervisor; let one in the queue go on, and tell its place."""
        if not locks.is_free(paths.lock):
            return False
        if paths.job_id not in self._queue:
            return recover_lost(paths, self._queue)
        with suppress(OSError, ClusterError):
            self._queue.care()
            return tell_waiting(paths, self._queue, status)
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:
        """Take the job out of the queue, or end it where nobody runs it; `ask` rang the bell."""
        self._queue.cancel(paths.job_id, reason)
        if locks.is_free(paths.lock):
            recover_lost(paths, self._queue)
