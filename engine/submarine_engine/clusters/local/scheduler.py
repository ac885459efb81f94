"""Who gets this machine's GPUs: first come, first served; all of a job's GPUs or none.

The queue is a file of tickets, a GPU's lease the lock of a file (`leases`). Whoever looks may
grant; while tickets wait, a scheduler process does. On a machine that several users share
(`shared`), each has a queue of their own, and the first of it is granted when it is their turn
(`turns`). A job whose supervisor was killed is found by its free lock,
and gets its last word here (`recover_lost`).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.local import launch
from submarine_engine.clusters.local.launch import launch_file, start
from submarine_engine.clusters.local.leases import (
    Holder,
    Leases,
    SharedLeases,
    is_shared,
    release_lease,
    releasing_on_error,
)
from submarine_engine.clusters.machine import reap, spawn_detached
from submarine_engine.clusters.store import Journal, cancel_request, read_events
from submarine_engine.clusters.tasks import (
    Ending,
    final_task_state,
    read_outcome,
    returned_event,
    tells_of_another,
)
from submarine_engine.errors import ClusterError, ConfigError, JobNotFoundError
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
from submarine_engine.history import JobPaths, make_private, read_json, submitted_at, write_aside
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import (
    JobStatus,
    TaskEnd,
    TaskStatus,
    final_state,
    first_to_fail,
    fold,
)

if TYPE_CHECKING:
    from submarine_engine.clusters.local.shared import SharedMachine
    from submarine_engine.clusters.local.turns import Turn, Turns

# The file that is the queue: a line a ticket, in order.
#
# A new ticket is one line more; anything else is written aside and renamed. Whoever changes the
# file holds the queue's lock; whoever reads it sees whole tickets only.


_LINE = re.compile(r"\S+ \S+ [0-9]+(?:\+[0-9]+/[0-9]+)? \S+\n")


class Ticket(NamedTuple):
    """A job's place in the queue: it waits for `gpus` of the GPUs in `pool`.

    It takes up to `more` besides, where these are free then, by `step` for each worker.
    """

    job_id: str
    name: str
    gpus: int
    pool: tuple[str, ...]
    more: int = 0
    step: int = 1

    @classmethod
    def of(cls, job_id: str, spec: JobSpec, pool: Sequence[str]) -> Ticket:
        """Return the ticket of a job that asks for GPUs.

        Parameters
        ----------
        job_id
            The job's id.
        spec
            The job.
        pool
            The ids of the GPUs that it may get.
        """
        least, most = spec.smallest.gpus or 0, spec.gpus or 0
        step = next((role.resources.gpus or 0 for role in spec.roles if role.least), 0)
        return cls(job_id, spec.name, least, tuple(pool), most - least, step or 1)

    @property
    def since(self) -> float:
        """When the job was submitted, to the second, on the wall clock."""
        return submitted_at(self.job_id)

    @property
    def line(self) -> str:
        """The ticket as it is written; neither ids nor names hold a space."""
        more = f"+{self.more}/{self.step}" if self.more else ""
        return f"{self.job_id} {self.name} {self.gpus}{more} {','.join(self.pool)}\n"

    @classmethod
    def from_line(cls, line: str) -> Ticket:
        """Build from what `line` gave."""
        job_id, name, gpus, pool = line.split()
        least, _, more = gpus.partition("+")
        most, _, step = more.partition("/")
        return cls(job_id, name, int(least), tuple(pool.split(",")), int(most or 0), int(step or 1))


class QueueFile:
    """Reads and writes the queue's file.

    Parameters
    ----------
    path
        The file; made with the first ticket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._lines: dict[str, str] = {}
        self._torn = False

    def lines(self) -> Mapping[str, str]:
        """Return the tickets' lines by job id, in order; read again only where they changed."""
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if version != self._version:
                text = self._path.read_text()
                whole = text[: text.rfind("\n") + 1]
                self._torn = len(whole) < len(text)
                lines = (line for line in whole.splitlines(True) if _LINE.fullmatch(line))
                self._lines = {line.partition(" ")[0]: line for line in lines}
                self._version = version
        except FileNotFoundError:
            return {}
        return self._lines

    def forget(self) -> None:
        """Read the file again at the next look, changed or not."""
        self._version = None

    def append(self, ticket: Ticket) -> None:
        """Put a ticket at the end.

        Raises
        ------
        OSError
            The disk is full; the queue is as before.
        """
        lines = self.lines()
        if not lines or self._torn:  # half a line, of a submitter that was killed, must go
            self.replace([*lines.values(), ticket.line])
            return
        line = ticket.line.encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.pwrite(descriptor, line, size)
                if written < len(line):
                    os.pwrite(descriptor, line[written:], size + written)  # tells why by raising
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def replace(self, lines: Iterable[str]) -> None:
        """Write all lines anew; raises as `append` does."""
        write_aside(self._path, "".join(lines).encode())


# The queue of a machine: first come first served, all of a job's GPUs or none.
#
# The whole queue is one small file, a line a ticket, replaced at each change. Who changes it holds
# ``queue.lock``. Whoever looks may grant what can be granted: the submitter, a supervisor that has
# just given its GPUs back, and the keeper, which lives only while tickets wait and sees what falls
# free otherwise.


_FRESH = 0.5  # seconds: many cards look at one queue, and a look at all holders reads a file each
_ENGINE = Path(__file__).resolve().parents[3]
_KEEP = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from submarine_engine.clusters.local.scheduler import main; main(sys.argv[2:])"
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
        self._own = Leases(self._folder / "gpus")
        self._shared: tuple[SharedMachine, SharedLeases, Turns] | None = None

    def _machine(self) -> tuple[SharedLeases, Turns] | None:
        """Return leases and turns of a machine that users share; None where each is alone.

        Raises
        ------
        ClusterError
            What its owner has made cannot be trusted, or his policy not be read.
        """
        if not is_shared():  # most are not, and their jobs' first lines wait for no import
            return None
        from submarine_engine.clusters.local.shared import shared_machine  # noqa: PLC0415 - as above

        try:
            found = shared_machine()
            if found is None:
                return None
            if self._shared is None or self._shared[0] is not found:
                leases = found.leases(self._folder / "gpus", self._home)
                self._shared = found, leases, found.turns(self._folder, self._home)
            self._shared[2].policy = found.policy()
        except ConfigError as error:
            raise ClusterError(error.what, where=error.where, fix=error.fix) from error
        return self._shared[1:]

    @property
    def leases(self) -> Leases:
        """The leases of this machine's GPUs; raises as `shared_machine` does."""
        found = self._machine()
        return found[0] if found else self._own

    def turn(self, ticket: Ticket) -> Turn | None:
        """Return what stands between a job and its GPUs; None where nobody else's jobs count.

        Parameters
        ----------
        ticket
            Of the job.

        Raises
        ------
        ClusterError, OSError
            The machine's folder or policy cannot be used.
        """
        found = self._machine()
        if found is None:
            return None
        leases, turns = found
        taken = {gpu for gpu, holder in leases.holders(ticket.pool).items() if holder}
        return turns.look(ticket.gpus, ticket.pool, ticket.since, leases.look(), taken)

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
        """Return how many tickets are before that of the job `job_id`; None where it has none."""
        lines = self._file.lines()
        return list(lines).index(job_id) if job_id in lines else None

    def ticket(self, job_id: str) -> Ticket | None:
        """Return the ticket of the job `job_id`; None where it has none."""
        line = self._file.lines().get(job_id)
        return Ticket.from_line(line) if line else None

    def first(self) -> Ticket | None:
        """Return the ticket of who is next; None where nobody waits."""
        line = next(iter(self._file.lines().values()), None)
        return Ticket.from_line(line) if line else None

    def cancel(self, job_id: str, reason: str) -> bool:
        """End a job that waits, and take its ticket away; False where it does not wait.

        Parameters
        ----------
        job_id
            The job.
        reason
            Why, for its user; empty for the usual words.

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
            # A reader holds it for a moment; the queue is locked meanwhile, so no longer than that.
            lock = locks.take(paths.lock, wait=1.0)
            if lock is None:  # it has just begun
                return False
            try:
                launch.end_unstarted(paths, reason)
            finally:
                locks.drop(lock)
            self._file.replace(left.values())
        return True

    def cancel_wanted(self) -> None:
        """End jobs that wait here and were cancelled on another machine of the home, for a keeper.

        That machine can only write that it is wanted: it has a queue of its own.

        Raises
        ------
        ClusterError
            The queue is locked.
        """
        for ticket in self:
            with suppress(OSError, JobNotFoundError):
                wanted = cancel_request(JobPaths(self._home, ticket.job_id))
                if wanted is not None and self._waits(ticket):
                    self.cancel(ticket.job_id, wanted.reason)

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
        if not keep and self._has_to_wait():
            return True
        with self._lock():
            self._grant_in_turn()
            self._seen_holders = {}
            left = bool(self._file.lines())
            if left and keep:
                self._keep()
        return left

    def grant_new(self, job_id: str) -> bool:
        """Grant what can be, for one who has just put a job at the end.

        Behind others that a keeper looks after there is nothing to begin. So who submits many jobs
        to a queue of many users looks at all of these no more often than the keeper.

        Parameters
        ----------
        job_id
            The job that was put there.

        Returns
        -------
        bool
            As `grant`.
        """
        if self.ahead(job_id) and not locks.is_free(self._folder / "keeper.lock"):
            return True
        return self.grant()

    def _has_to_wait(self) -> bool:
        """Return whether it is other users' turn: seen without the lock, which submitters want."""
        first = self.first()
        turn = self.turn(first) if first else None
        return turn is not None and turn.room < 0

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

    def spare(self, pool: Sequence[str]) -> int:
        """Return how many GPUs of `pool` are free for a job that has some: none where any waits.

        Raises
        ------
        ClusterError
            The queue is locked.
        """
        if self._file.lines() or self._others_wait():
            return 0
        return sum(holder is None for holder in self.holders(pool, fresh=False).values())

    def take_spare(self, wanted: Ticket) -> dict[str, int]:
        """Take what a job would have besides what it has, as far as `spare` has it.

        Parameters
        ----------
        wanted
            How many, at most, and by how many.

        Returns
        -------
        dict
            Locked descriptors by GPU id, which processes that are started from here on inherit.
        """
        make_private(self._folder)
        with self._lock():
            if self._file.lines() or self._others_wait():
                return {}
            self._seen_holders = {}
            taken = self._take(wanted) or {}
        for descriptor in taken.values():
            locks.share(descriptor)
        return taken

    def leave_if_empty(self, keeper_lock: int) -> bool:
        """Let a keeper go where no ticket is left, and close `keeper_lock`; whether it was let go.

        Nobody can add a ticket between its look and its leave.
        """
        with self._lock():
            if self._file.lines():
                return False
            self.withdraw()
            locks.drop(keeper_lock)
            return True

    def _grant_in_turn(self) -> None:
        left = dict(self._file.lines())
        for ticket in self:
            if waits := self._waits(ticket):
                taken = self._take(ticket)
                if taken is None:
                    break
                try:
                    begun = launch.start(JobPaths(self._home, ticket.job_id), taken)
                finally:
                    release_lease(taken)
                if not begun:
                    break
            del left[ticket.job_id]
            if waits:
                self._file.replace(left.values())
        if len(left) < len(self._file.lines()):
            self._file.replace(left.values())

    def _take(self, ticket: Ticket) -> dict[str, int] | None:
        """Take a job's GPUs where they are free and it is its turn."""
        more = ticket.more
        turn = self.turn(ticket)
        if turn is not None:
            if turn.room < 0:
                return None
            more = min(more, turn.room)
        holder = Holder(*ticket[:2])
        taken = self.leases.take(
            ticket.pool, ticket.gpus, holder, self._is_over, more=more, step=ticket.step
        )
        if taken and self._shared is not None:
            with releasing_on_error(taken):
                self._shared[2].took(len(taken))
        return taken

    def _others_wait(self) -> bool:
        """Return whether other users of this machine wait for GPUs."""
        found = self._machine()
        return found is not None and bool(found[1].others())

    def tell(self) -> int:
        """Tell the machine's other users what the first job here waits for, for a keeper.

        Returns
        -------
        int
            How many users come before; 0 where the machine is nobody else's.

        Raises
        ------
        ClusterError, OSError
            As `turn`.
        """
        found, first = self._machine(), self.first()
        if found is None or first is None:
            return 0
        found[1].tell(first.gpus, first.pool, len(self._file.lines()), first.since)
        return found[1].place

    def withdraw(self) -> None:
        """Tell that nobody waits here any more."""
        if self._shared is not None:
            self._shared[2].withdraw()

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
            spawn_detached(
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


# The last word of a job whose supervisor could not say it.


_MOST_ATTEMPTS = 3
_LOST = "its supervisor vanished without a last word (killed, or out of memory)"
_REBOOT = "the machine was started anew while the job was on"
_NEVER_RAN = f"its supervisor was killed {_MOST_ATTEMPTS} times before its code began"
_NEVER_BEGUN = "the process that submitted it was killed before the job was in the queue"
_PATIENCE = 2.0  # a process with a GPU of its own takes about one to go
_CLUSTER = "local"


def recover_lost(paths: JobPaths, queue: Queue) -> bool:
    """End a job of this cluster that nobody watches any more, and say so in its events.

    What is left of its processes is killed. A job whose function had returned has its result, and
    counts as succeeded; any other is lost.

    One whose code has not begun yet is granted once more instead.

    Parameters
    ----------
    paths
        The job's files.
    queue
        That of the same home on this machine: a job that waits there is not lost.

    Returns
    -------
    bool
        Whether the job was without a supervisor and is over now. It is not as long as a process
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
        recovered = _recover(paths, queue, signature)
    finally:
        locks.drop(lock)
    if recovered is None:
        _grant_again(paths, queue)
    return recovered is not False


def _recover(paths: JobPaths, queue: Queue, signature: Mapping[str, Any]) -> bool | None:
    """Recover a job whose lock we hold; None where it is to be granted once more."""
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
    first = status.tasks[0].task  # of any number of workers
    attempts = sum(isinstance(event, Granted) and event.task == first for event in events)
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
        events = _last_events(paths, status, reason, asked)
        if JobSpec.from_json(record["spec"]).tries is not None:
            events = [*events[:-1], _without_retry(events[-1], reason)]
        journal.append_last(*events)
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
        queue.add(Ticket.of(paths.job_id, JobSpec.from_json(record["spec"]), pool))
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
    """End what is left of the job at `paths`, whose leases are free; return whether nothing is.

    A supervisor that lives has ended all of it before it gave the leases back. One that was killed
    has not, nor has a guard that was killed with it.
    """
    if not locks.is_free(paths.lock):
        pid = _signature(paths).get("pid")
        seen = machine.process_stat(pid) if isinstance(pid, int) else None
        # Where it is gone, somebody who has found that has the lock, and ends what is left.
        return pid is None or (seen is not None and seen.state not in "ZX")
    with suppress(OSError, ValueError, KeyError, TypeError):
        if JobState((read_json(paths.status) or {})["state"]).final:
            return True
    return _end_leftovers(paths, _signature(paths))


def _end_leftovers(paths: JobPaths, signature: Mapping[str, Any]) -> bool:
    session = signature.get("session"), signature.get("session_start")
    sessions = [session, *signature.get("others", ())]
    limit = time.monotonic() + _PATIENCE
    while any(machine.end_leftovers(paths.job_id, *one) for one in sessions):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)  # killed processes are gone within some of these, mostly at once
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
            state, why = final_task_state(ending, paths.root, oom_killed=False)
            if state is JobState.SUCCEEDED:
                why = f"{'returned' if returned else 'ended'}, but {reason}"
            to_its_end = ending.came_to_its_end
            end = TaskEnd(state=state, reason=why, at=now, returned=returned, to_its_end=to_its_end)
        ends.append(replace(end, task=task.task, echo=tells_of_another(ending)))
        if task.held is not None:
            events += _last_of_task(task, ending, end)
    state, why = final_state(ends, cancelled=asked)
    first = first_to_fail(ends) if state is JobState.FAILED else None
    failed = first.task if first else ""
    return [*events, Finished(state=state, reason=why, failed_task=failed)]


def _without_retry(last: Event, reason: str) -> Event:
    """Say why a job that might have been begun again is over: nobody was left to do it."""
    if not isinstance(last, Finished) or last.state is not JobState.FAILED:
        return last
    return replace(last, reason=f"{last.reason}; it is not begun again, since {reason}")


def _last_of_task(task: TaskStatus, ending: Ending, end: TaskEnd) -> list[Event]:
    events: list[Event] = []
    if ending.kind and task.busy is None:  # it was over before its supervisor could say that it ran
        events.append(Started(task=task.task, at=end.returned or Moment.now()))
    if end.returned:
        events.append(returned_event(task.task, ending, end.returned))
    if not task.state.final:
        events.append(Exited(task=task.task, exit_code=ending.exit_code, reason=end.reason))
    return [*events, Released(task=task.task)]


# The keeper: grants leases while tickets wait, and ends when none is left.
#
# What a supervisor gives back it grants at once by itself. The keeper is there for everything else:
# a holder that was killed, a GPU that a leftover process held, a job whose supervisor is gone.


_INTERVAL = 0.2  # seconds that a GPU is idle at most which a killed holder has left
_SELDOM = 1.0  # seconds: of who is not next, nobody waits for a quicker look
_SOON = 4
"""Users before this one with whom it may be its turn at any moment: beyond, its keeper looks more
seldom, so that fifty users' keepers together cost no core."""
_CARE = 10  # turns: it reads a file of each job that holds GPUs or waits, and is seldom needed


def main(arguments: list[str]) -> None:
    """Run a keeper by `arguments`: the home of all jobs, the descriptor that holds its lock."""
    home = Path(arguments[0])
    lock = int(arguments[1])
    queue = Queue(home)
    turn = 0
    while home.exists():
        before = 0
        # A full disk, a queue that a stopped process has locked, or a policy that root has to mend:
        # later, then.
        with suppress(OSError, ClusterError):
            if not queue.grant(keep=False) and queue.leave_if_empty(lock):
                return
            before = queue.tell()
            if turn % _CARE == 0:
                queue.cancel_wanted()
                _recover_holders(home, queue)
        turn += 1
        time.sleep(_INTERVAL if before <= _SOON else _SELDOM)
        reap()


def _recover_holders(home: Path, queue: Queue) -> None:
    """End what is left of jobs that hold GPUs and have lost their supervisor."""
    first = next(iter(queue), None)
    for holder in queue.holders(first.pool).values() if first else ():
        if holder is None:
            continue
        with suppress(JobNotFoundError, OSError):
            recover_lost(JobPaths(home, holder.job_id), queue)
