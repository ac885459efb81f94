"""The user's own machine as a backend, and a job's supervisor once its task is started.

`supervisor` starts the task, before anything heavy is imported, and calls `supervise` here. That
hosts the job's `JobRun`: it sleeps until a child ends, a signal comes or a byte comes by its pipe
``bell``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.exchange import INSIDE_ASK
from submarine_runtime.stacks import STACKS, used, with_use

from submarine_engine.clusters import locks, machine, store
from submarine_engine.clusters.backend import (
    Allocated,
    AllocatedByTask,
    Backend,
    Counted,
    KeptJob,
    Request,
)
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.environment import (
    gpu_environment,
    job_environment,
    resolve_paths,
)
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.clusters.local.checks import NO_GPUS, check_spec, local_checks, local_path
from submarine_engine.clusters.local.gpus import Inventory, inventory
from submarine_engine.clusters.local.launch import launch_file, open_logs
from submarine_engine.clusters.local.leases import is_shared
from submarine_engine.clusters.local.scheduler import Queue, Ticket
from submarine_engine.clusters.machine import (
    Stat,
    child_ids,
    end_group,
    end_process,
    has_mark,
    is_driver,
    process_ids,
    process_stat,
)
from submarine_engine.clusters.tasks import CANNOT_RUN, NO_ROOM, TaskRun
from submarine_engine.errors import ClusterError
from submarine_engine.events import Event, Granted, Moment, Started
from submarine_engine.history import (
    JobPaths,
    make_private,
    read_foreign,
    read_json,
    write_aside,
    write_json,
)
from submarine_engine.job import JobSpec
from submarine_engine.lifecycle import TaskStatus, fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Saved
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.local.zygotes import OwnZygote
    from submarine_engine.clusters.log_mirror import LogSource
    from submarine_engine.clusters.saving import SaveRequest
    from submarine_engine.config import Config
    from submarine_engine.findings import Check

    ForkTask = Callable[[list[str], Mapping[str, str], tuple[int, ...], list[int]], int]

# How a supervisor sleeps: until a child ends, a signal comes, or somebody rings its bell.


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TOLD = "the supervisor was told to end"


class Wake:
    """What a supervisor waits for.

    A signal that it shall end is put on record, as anybody's wish to cancel the job.

    Parameters
    ----------
    paths
        The job's files. Where no named pipe can be made there (some network file systems), the
        supervisor looks at ``cancel.json`` at each of its turns anyhow.
    """

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._signals, sender = os.pipe()
        for end in (self._signals, sender):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._bell: int | None = None
        bell = store.bell_path(paths)
        with suppress(OSError):
            os.mkfifo(bell, 0o600)
        with suppress(OSError):
            # Open for writing too: else each ringer that closes it would be the end of the file.
            self._bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._poll.register(self._bell, select.POLLIN)

    def is_set(self) -> bool:
        """Return False: a supervisor sees its job through."""
        return False

    def wait(self, timeout: float) -> None:
        """Sleep until something happens, `timeout` seconds at most."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0, int(timeout * 1000)))]
        if self._signals in ready:
            numbers = os.read(self._signals, 4096)
            if any(s in numbers for s in _ENDING) and store.cancel_request(self._paths) is None:
                with suppress(OSError):  # the folder is gone, which is seen as well
                    store.request_cancel(self._paths, _TOLD, kill=False)
        if self._bell in ready:
            with suppress(OSError):
                os.read(self._bell, 4096)


# A job's memory: what all its processes use together, against what was asked for.


_GIB = 1 << 30
_MIB = 1 << 20
_LARGEST_PLAN = 16 * _MIB
_SAMPLED_AFTER = 1.0  # seconds: the first line does not wait for it
_MEASURE_EVERY = 0.4  # seconds: looking at all processes of the machine takes some milliseconds


def over_limit(roots: Sequence[int], limit: int) -> str | None:
    """Return in words that processes and all below them use more than `limit` bytes, else None.

    Pages that processes share are counted once: data loaders forked from a large parent do not
    make it larger.

    Parameters
    ----------
    roots
        Ids of processes of one task; those started by them are found from there.
    limit
        Bytes for all of them together.
    """
    tree = _trees(roots)
    if sum(seen.rss for seen in tree.values()) <= limit:
        return None
    used = sum(_proportional(pid, seen.rss) for pid, seen in tree.items())
    if used <= limit:
        return None
    return f"used {_words(used)} of {_words(limit)} of memory asked for"


def _trees(roots: Sequence[int]) -> dict[int, Stat]:
    """Return the processes and all below them, but not supervisors of other jobs."""
    everything = {pid: seen for pid in process_ids() if (seen := process_stat(pid))}
    children: dict[int, list[int]] = {}
    for pid, seen in everything.items():
        children.setdefault(seen.parent, []).append(pid)
    found: dict[int, Stat] = {}
    todo = [pid for pid in roots if pid in everything]
    while todo:
        pid = todo.pop()
        if pid not in found and not is_driver(pid):
            found[pid] = everything[pid]
            todo += children.get(pid, [])
    return found


def _proportional(pid: int, rss: int) -> int:
    """Return the process's share in bytes (Pss of proc(5)); `rss` where the kernel hides it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return rss
    kib = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return next(kib, rss // 1024) * 1024


def _words(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


# The job's processes, as its driver asks for them and follows them.


@dataclass
class Process:
    """A task's process: this one's child, and the leader of its session.

    Parameters
    ----------
    task, container
        Which task, and what its grant calls it.
    limit
        How much memory all that is the task's may use, in bytes; None for any.
    leases
        Descriptors of its GPU leases.
    pid
        0 while it has not been started.
    started
        When it was.
    exit_status
        How it ended; None while it runs.
    held
        Whether anything of the task may be left.
    gpus
        What was granted to it.
    unstarted
        Whether there was no room for it.
    """

    task: str
    container: str
    limit: int | None
    leases: list[int]
    pid: int = 0
    started: Moment = field(default_factory=Moment.now)
    exit_status: int | None = None
    held: bool = True
    gpus: tuple[str, ...] = ()
    unstarted: bool = False

    def again(self) -> Process:
        """Return the same task's process of the next attempt, not started, with the same GPUs."""
        base, _, number = self.container.rpartition("-")
        container = f"{base}-{int(number) + 1}"
        return Process(self.task, container, self.limit, self.leases, gpus=self.gpus)


class LocalTask(TaskRun):
    """A task that writes its files where they belong, by itself.

    Parameters
    ----------
    paths
        The job's files.
    task
        Which of its tasks.
    gpus
        How many GPUs it was asked for with.
    request
        The job's request, which has the task's process.
    """

    def __init__(self, paths: JobPaths, task: str, gpus: int, request: LocalRequest) -> None:
        super().__init__(paths, task, gpus)
        self._request = request
        self._process = request.process_of(task)
        self._oom_kills = machine.oom_kills()

    @property
    def exit_status(self) -> int | None:
        """The exit status of its process."""
        return self._process.exit_status

    def granted(self, began: float) -> Granted:
        """Return that its GPUs are the task's: they were granted to the first attempt."""
        process = self._process
        return replace(super().granted(began), gpus=process.gpus, at=process.started)

    def poll(self, *, hurry: bool = False) -> list[Event]:  # noqa: ARG002 - nothing is far away
        """See whether its process has ended, and how far it is."""
        self._request.reap()
        self._request.sample()
        self.over = self._process.exit_status is not None
        self.unstarted = self._process.unstarted
        if self.started is None:
            self.started = self._process.started
            return [Started(task=self.task, at=self.started)]
        progressed = None if self.over else self.progress.poll()
        return [progressed] if progressed else []

    def bring_home(self) -> None:
        """See whether the kernel has ended a process meanwhile; all else is home."""
        self.oom_killed = machine.oom_kills() > self._oom_kills


class LocalRequest(Request):
    """A job that was granted on this machine, and whose processes are this one's children.

    Parameters
    ----------
    job
        The job.
    processes
        Its tasks' processes, in the order of the spec.
    starter
        Starts those of another attempt, and knows of this one's beginning.
    room
        As `Request.room`.
    """

    is_woken = True

    def __init__(
        self,
        job: KeptJob,
        processes: Sequence[Process],
        starter: Starter | None = None,
        room: Callable[[], int] = lambda: 0,
    ) -> None:
        self._paths = job.paths
        self._attempt = job.attempt
        self._processes = processes
        self._starter = starter
        self._begun = job.attempt == 1
        self._room = room
        # The GPUs of a job that may be begun again are kept for that: whoever waits for them
        # would have them for the time of one attempt, and the job would stand behind all others.
        self._keeps = job.spec.tries is not None
        self._measured_at = 0.0
        self._is_sampled = False

    def process_of(self, task: str) -> Process:
        """Return a task's process."""
        return next(one for one in self._processes if one.task == task)

    def follow(self, paths: JobPaths, task: str, gpus: int) -> TaskRun:
        """Return how a task's process is followed.

        Parameters
        ----------
        paths
            The job's files.
        task
            Which task, as ``worker-0``.
        gpus
            How many it has.
        """
        return LocalTask(paths, task, gpus, self)

    @property
    def begun(self) -> bool:
        """Whether its processes were started."""
        return self._begun

    def ask(self) -> AllocatedByTask:
        """Return what was granted before this process was started; start it once more.

        Raises
        ------
        ClusterError
            The job's folder was deleted, or its GPUs were given back.
        """
        if not self._paths.root.exists():
            raise ClusterError("the job's folder was deleted")
        if not self._begun and any(len(one.leases) < len(one.gpus) for one in self._processes):
            # As where its end could not be written, and there is room for another attempt since.
            raise ClusterError("it is not begun again, since its GPUs were given back")
        if self._starter is not None and not self._begun:
            self._begun = True
            self._starter.start_again(self._processes, self._attempt)
        elif self._starter is not None and self._keeps:
            self._starter.fork_ahead()
        return {one.task: Allocated(one.container, machine.host()) for one in self._processes}

    def reap(self) -> None:
        """Wait for children that have ended: tasks, and strays that became this one's."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            task = next((one for one in self._processes if one.pid == ended.si_pid), None)
            if task is not None:
                end_group(ended.si_pid)  # a zombie keeps its number, so the group is still ours
            _, status = os.waitpid(ended.si_pid, 0)
            if task is not None:
                task.exit_status = os.waitstatus_to_exitcode(status)

    def sample(self) -> None:
        """Have what the tasks use written, once all have begun and the first line is out."""
        if self._is_sampled or not all(one.pid or one.unstarted for one in self._processes):
            return
        last = max(one.started.mono for one in self._processes)
        if time.monotonic() - last < _SAMPLED_AFTER:
            return
        from submarine_runtime.sampling import start  # noqa: PLC0415 - the first line comes first

        self._is_sampled = True
        running = [one for one in self._processes if one.pid and one.exit_status is None]
        told = [
            (str(self._paths.task(one.task).root), one.pid, ",".join(one.gpus)) for one in running
        ]
        if told:
            with suppress(OSError):  # no process more: the job goes on without
                start(told)

    def count(self) -> Counted:
        """End what tasks that are over have left, and free the GPUs of those that left nothing."""
        self.reap()
        for process in self._processes:
            if process.held and process.exit_status is not None and not self._end_strays(process):
                process.held = False
                if not self._keeps:
                    _unlock(process)
        held = {process.container for process in self._processes if process.held}
        return Counted(held, over=not held)

    def _end_strays(self, process: Process) -> bool:
        """Kill what is left of a task that is over; whether there was anything.

        In a subreaper, the children of those killed come next. One in the kernel's hands still
        holds its GPU, so it is waited for.
        """
        alone = all(one.exit_status is not None for one in self._processes)
        found = False
        for pid in child_ids(os.getpid()):
            owner = self._owner(pid)
            if owner in (process, None) and not is_driver(pid):
                found = True
                if owner is process or alone:
                    end_process(pid)
        self.reap()
        return found

    def _owner(self, pid: int) -> Process | None:
        """Return whose a child is; None where several run, and it hides where it came from."""
        if len(self._processes) == 1:
            return self._processes[0]
        seen = process_stat(pid)
        for one in self._processes:
            if one.pid and (pid == one.pid or (seen and seen.session == one.pid)):
                return one
        return next((o for o in self._processes if has_mark(pid, "SUBMARINE_TASK", o.task)), None)

    def give_back(self) -> None:
        """Free the GPUs that were kept for another attempt."""
        for process in self._processes:
            if self._keeps and not process.held:
                _unlock(process)

    @property
    def cause(self) -> str:  # type: ignore[override]  # looked at anew at each turn
        """Why the job has to be ended: a task uses too much memory."""
        limited = [one for one in self._processes if one.limit and one.exit_status is None]
        if not limited or time.monotonic() - self._measured_at < _MEASURE_EVERY:
            return ""
        self._measured_at = time.monotonic()
        owners = {pid: self._owner(pid) for pid in child_ids(os.getpid())}
        for one in limited:
            roots = [pid for pid, owner in owners.items() if owner is one]
            if excess := over_limit(roots, one.limit or 0):
                return excess
        return ""

    def signal(self, container: str, *, kill: bool) -> None:
        """Signal a task's process group."""
        for one in self._processes:
            if one.container != container or one.exit_status is not None:
                continue
            end_group(one.pid, signal.SIGKILL if kill else signal.SIGTERM)
            if not kill:
                end_group(one.pid, signal.SIGCONT)  # a stopped one ends only when it goes on

    def withdraw(self) -> None:
        """Do nothing: all that was granted is started at once."""

    def source(self, container: Allocated) -> LogSource:
        """Refuse: nothing is read from anywhere else."""
        raise NotImplementedError(container.id)

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages to tasks, and theirs back, by their folders."""
        for one in self._processes:
            if self._starter is not None and INSIDE_ASK in messages.get(one.task, {}):
                self._starter.start_beside(one)
        found = {
            one.task: exchange_files(self._paths.task(one.task).root, messages.get(one.task, {}))
            for one in self._processes
        }
        told = [one for one in self._processes if STACKS in found[one.task]]
        uses = used([one.pid for one in told]) if told else ()
        for one, use in zip(told, uses, strict=True):
            found[one.task][STACKS] = with_use(*use, found[one.task][STACKS])
        return found

    def waiting(self) -> tuple[int, str]:
        """Return that it waits for nothing: it was granted before."""
        return 0, ""

    def room(self) -> int:
        """Return for how many workers more there are GPUs that nobody waits for."""
        return self._room()

    def close(self) -> None:
        """Do nothing: nothing was opened."""


def _unlock(process: Process) -> None:
    """Free a task's GPUs, once: another try finds the descriptors' numbers in use elsewhere."""
    while process.leases:
        locks.unlock(process.leases.pop())  # the guard has it open, too


# This machine as a backend.


# The runtime lies beside the engine, as the wheel puts it.
RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"
INSIDE = RUNTIME.with_name("inside.py")


class LocalBackend(Backend):
    """The user's own machine.

    Parameters
    ----------
    home
        Where jobs are kept.
    processes
        In the supervisor of a job: its tasks' processes.
    starter
        Likewise: starts those of another attempt.
    grace
        Seconds between SIGTERM and SIGKILL for jobs submitted here; None takes the configured.
    """

    name = "local"
    title = "this machine"
    no_gpus = NO_GPUS
    tasks_here = True

    def __init__(
        self,
        home: Path,
        processes: Sequence[Process] = (),
        starter: Starter | None = None,
        *,
        grace: float | None = None,
    ) -> None:
        super().__init__(home)
        self.queue = Queue(home)
        self._processes = processes
        self._starter = starter
        self._grace = grace

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield how many GPUs this machine has, and where that is known from."""
        yield from local_checks(cls(Path(config.value("home"))).gpus({}), config)

    @classmethod
    def machine_path(cls, path: str, option: str) -> Path:
        """Return a path of this machine; all are."""
        return local_path(path, option)

    @property
    def inventory(self) -> Inventory:
        """The GPUs that may be used."""
        from submarine_engine.config import load_config  # noqa: PLC0415 - no supervisor needs it

        return inventory(load_config().value("local_gpus"))

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what this machine cannot do, and choose the number of GPUs where it is open."""
        spec = check_spec(spec, self.inventory)
        if not is_shared():
            return spec
        from submarine_engine.clusters.local.shared import shared_machine  # noqa: PLC0415 - seldom

        shared = shared_machine()
        return shared.check(spec) if shared else spec

    def prepare(
        self,
        spec: JobSpec,
        bundle: Bundle,  # noqa: ARG002 - it is on this machine
        tell: Callable[[str], object],  # noqa: ARG002 - nothing takes long
    ) -> dict[str, Any]:
        """Return what a supervisor has to know, and of which GPUs the job may get its own."""
        from submarine_engine.config import load_config  # noqa: PLC0415 - no supervisor needs it

        config = load_config({"grace": self._grace})
        devices = self.inventory.devices if spec.gpus else ()
        return {
            "grace": config.value("grace"),
            "pool": [device.id for device in devices],
            "ahead": config.value("imports_idle") if _is_shared(spec, config) else None,
        }

    def stage(
        self,
        staged: JobPaths,
        job: KeptJob,
        secrets: Mapping[str, str],
        tell: Callable[[str], object],  # noqa: ARG002 - nothing takes long
    ) -> None:
        """Write ``launch.json``, with the user's environment, and the tasks' plans."""
        spec, launch, workdir = job.spec, job.launch, job.record["workdir"]
        for task in spec.tasks:
            make_private(staged.task(task).logdir)
            make_private(staged.task(task).artifacts)
            plan = store.task_plan(
                spec,
                task,
                job_id=job.paths.job_id,
                bundle=str(job.paths.bundle),
                entry=launch["entry"],
                workdir=workdir,
                home=launch["home"],
            )
            ahead = {}
            if launch["ahead"] is not None and task == spec.tasks[0]:  # all import much the same
                watch = spec.tries is not None
                ahead = {"ahead": {"idle": launch["ahead"], "watch": watch}}
            write_json(staged.task(task).plan, {**plan, "moments": True, "metrics": False, **ahead})
        given, kept = resolve_paths(spec, Path(workdir), local_path)
        own = {
            task: job_environment(
                os.environ,
                {**spec.env, **secrets},
                job_id=job.paths.job_id,
                task=job.paths.task(task),
                vcores=role.resources.vcores,
                input_path=given,
                checkpoint_path=kept or job.paths.checkpoints,
            )
            for role in spec.roles
            for task in role.tasks
        }
        shared = dict(set.intersection(*({*one.items()} for one in own.values())))
        told = {
            "grace": launch["grace"],
            "pool": launch["pool"],
            "ahead": launch["ahead"] is not None,
            "elastic": spec.elastic is not None,
            "grow_after": launch["grow_after"],
            "python": sys.executable,
            "command": [sys.executable, "-u", str(RUNTIME)],
            "environment": shared,
            "tasks": {
                task: {
                    "gpus": role.resources.gpus or 0,
                    "environment": {k: own[task][k] for k in own[task] if k not in shared},
                }
                for role in spec.roles
                for task in role.tasks
            },
        }
        # In ASCII: a variable need not be UTF-8, and comes as surrogates then.
        write_aside(launch_file(staged), json.dumps(told).encode())

    def save(self, asked: SaveRequest, path: str) -> Saved:
        """Bring the model of a running job to a folder of this machine, see `Cluster.save`."""
        from submarine_engine.clusters import saving  # noqa: PLC0415 - no supervisor needs it

        paths = asked.paths
        record = read_json(paths.record) or {}
        target = saving.FolderTarget(local_path(path, "save to").absolute())
        kept = record.get("spec", {}).get("checkpoint_path")
        place = paths.checkpoints
        if kept:
            place = Path(record["workdir"]) / local_path(kept, "--checkpoint_path")
        storage = saving.FolderStorage(place) if kept or place.is_dir() else None
        hook = saving.MessageHook(asked, lambda task: paths.task(task).root)
        return saving.save(asked, target, hook, storage)

    def own_checkpoints(self, paths: JobPaths) -> str | None:
        """Return the job's own folder of checkpoints."""
        return str(paths.checkpoints)

    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:  # noqa: ARG002 - the leases say it
        """Return this machine's GPUs and who holds each; `Gpu.memory` in mebibytes.

        Raises
        ------
        ConfigError
            ``SUBMARINE_LOCAL_GPUS`` is no number.
        """
        devices = self.inventory.devices
        holders = self.queue.holders([device.id for device in devices])
        return [
            Gpu(
                id=device.id,
                name=device.name,
                host=machine.host(),
                memory=device.memory and device.memory >> 20,
                job_id=(holder := holders[device.id]) and (holder.job_id or None),
                holder=holder and (holder.user or None),
            )
            for device in devices
        ]

    def request(self, job: KeptJob) -> Request:
        """Return what follows the processes of this supervisor's job, and starts new ones."""

        def room() -> int:
            wanted = self._wanted(job)
            return self.queue.spare(wanted.pool) // wanted.step if wanted.more else 0

        if job.attempt > 1:
            self._processes = [process.again() for process in self._processes]
            self._processes += self._more(job)
            order = {task: place for place, task in enumerate(job.spec.tasks)}
            self._processes.sort(key=lambda process: order[process.task])
        return LocalRequest(job, self._processes, self._starter, room)

    def _wanted(self, job: KeptJob) -> Ticket:
        """Return the GPUs that an elastic job would have besides those that it has."""
        whole = Ticket.of(job.paths.job_id, job.spec, job.launch.get("pool", ()))
        more = whole.gpus + whole.more - sum(len(one.gpus) for one in self._processes)
        return whole._replace(gpus=0, more=more if whole.more else 0)

    def _more(self, job: KeptJob) -> list[Process]:
        """Return tasks that an elastic job has not had so far, with GPUs that nobody waits for."""
        if not (wanted := self._wanted(job)).more:
            return []
        taken: dict[str, int] = {}
        with suppress(OSError, ClusterError):  # then it goes on as it is
            taken = self.queue.take_spare(wanted)
        gpus, had = list(taken), {process.task for process in self._processes}
        fresh = [task for task in job.spec.tasks if task not in had]
        found = []
        for number, task in enumerate(fresh[: len(gpus) // wanted.step]):
            mine = tuple(gpus[number * wanted.step :][: wanted.step])
            place = job.spec.tasks.index(task)
            container = f"{job.paths.job_id[-5:]}-{place}-{job.attempt}"
            leases = [taken[gpu] for gpu in mine]
            limit = _limit_of(job.spec, task)
            found.append(Process(task, container, limit, leases, gpus=mine))
        return found


def _is_shared(spec: JobSpec, config: Config) -> bool:
    """Return whether a job may be forked from a process that has imported its libraries."""
    if spec.roles[0].command is not None:
        return False
    isolation = spec.options.get("isolation")
    if isolation is None:
        return spec.notebook is not None and bool(config.value("imports_ahead"))
    return bool(isolation == "shared")


# A supervisor after its start: it hosts the job's `JobRun`, then starts the next in the queue.


_LAST_WORD_TRIES = 60  # after a minute of them a full disk stays full, or nobody sees to it now
_BETWEEN_TRIES = 1  # seconds: room comes as others end or clean up, not within less


def supervise(  # noqa: PLR0913 - what `supervisor` has found out by then
    home: str,
    job_id: str,
    pid: int,
    started: tuple[float, float],
    *,
    leases: list[int],
    grace: float,
    fork_task: ForkTask,
    ahead: str = "",
    own: tuple[int, int] | None = None,
) -> None:
    """See a job through, and then to the next in the queue.

    Parameters
    ----------
    home
        Where all jobs are kept.
    job_id
        Which of them.
    pid
        The process of the job's only task: our child, and the leader of its session. 0 for a job
        of several tasks, which are started here.
    started
        When it was started: wall and monotonic clock.
    leases
        Descriptors of the GPU leases, in the order of the tasks.
    grace
        Seconds between SIGTERM and SIGKILL.
    fork_task
        `supervisor.fork_task`.
    ahead
        The folder of the zygote for jobs like this one, see `zygotes`; empty for none.
    own
        The job's own zygote where it was forked from that: descriptor and process.
    """
    paths = JobPaths(Path(home), job_id)
    wake = Wake(paths)
    spec = JobSpec.from_json((read_json(paths.record) or {})["spec"])
    status = fold(event for event, _ in store.read_events(paths.events)[0])
    processes = [_process_of(spec, task, leases) for task in status.tasks]
    starter = Starter(paths, spec, fork_task, ahead)
    if own:
        starter.adopt(*own)
    if pid:
        processes[0].pid, processes[0].started = pid, Moment(*started)
    elif not starter.start_first(processes):
        return
    _sign(paths, processes)
    backend = LocalBackend(Path(home), processes, starter)
    run = JobRun(backend, paths, lambda: 0, {"grace": grace, **starter.launch})
    for _ in range(_LAST_WORD_TRIES):
        over = False
        try:
            over = run.run(wake)
        except OSError:  # not even the last words have room: once more, then
            pass
        except Exception:  # noqa: BLE001 - a job is not lost for one bad turn: as the keeper has it
            import traceback  # noqa: PLC0415 - seldom

            traceback.print_exc()
        with suppress(OSError, ClusterError):  # else the scheduler sees to them
            Queue(Path(home)).grant()
        if over or not paths.root.exists():
            break
        time.sleep(_BETWEEN_TRIES)
    starter.close()
    from submarine_engine.clusters.store import sweep  # noqa: PLC0415 - it need not hurry

    with suppress(OSError):
        sweep(Path(home))
    if ahead:
        from submarine_engine.clusters.local import zygotes  # noqa: PLC0415 - likewise

        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            zygotes.prepare(Path(ahead), paths, spec.tasks[0])


def _process_of(spec: JobSpec, task: TaskStatus, leases: list[int]) -> Process:
    """Return a task's process, not started; its leases are the first of those that are left."""
    mine, leases[:] = leases[: len(task.gpus)], leases[len(task.gpus) :]
    limit = _limit_of(spec, task.task)
    return Process(task.task, task.container, limit, mine, gpus=task.gpus)


def _limit_of(spec: JobSpec, task: str) -> int | None:
    """Return how many bytes of memory a task may use; None for any."""
    memory = next(role for role in spec.roles if task in role.tasks).resources.memory
    return memory * _MIB if memory else None


class Starter:
    """Starts the tasks of a job: of several all, and those of each further attempt.

    Parameters
    ----------
    paths, spec
        The job.
    fork_task
        `supervisor.fork_task`.
    ahead
        The folder of the zygote for jobs like this one; empty where each task is a process of its
        own from the beginning.
    """

    def __init__(
        self, paths: JobPaths, spec: JobSpec, fork_task: ForkTask, ahead: str = ""
    ) -> None:
        self._paths = paths
        self._spec = spec
        self._fork_task = fork_task
        self._own: Mapping[str, Mapping[str, str]] = {}  # of several: what is each task's alone
        self.launch: dict[str, Any] = {}  # of an elastic job: what its next attempts have to know
        self._zygote: OwnZygote | None = None
        if ahead and (spec.tries is not None or len(spec.tasks) > 1):
            from submarine_engine.clusters.local.zygotes import OwnZygote  # noqa: PLC0415 - as above

            self._zygote = OwnZygote(Path(ahead), paths, spec)

    def adopt(self, descriptor: int, pid: int) -> None:
        """Take the job's own zygote, which was forked as the job began.

        Parameters
        ----------
        descriptor
            A connected socket to the job's own zygote.
        pid
            Its process.
        """
        if self._zygote is not None:
            self._zygote.adopt(descriptor, pid)

    def fork_ahead(self) -> None:
        """See to it that what the job imports is imported when it is begun again."""
        if self._zygote is not None:
            self._zygote.fork_ahead()

    def close(self) -> None:
        """Start no more."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def start_first(self, processes: Sequence[Process]) -> bool:
        """Start all tasks; False where another supervisor has begun the job.

        Parameters
        ----------
        processes
            The job's tasks, not started; their processes are noted in them.
        """
        launch = read_json(launch_file(self._paths))
        try:
            launch_file(self._paths).unlink()  # as `supervisor._start` does, and why
        except FileNotFoundError:
            return False
        if launch is None:
            return False
        self._own = {task: told["environment"] for task, told in launch["tasks"].items()}
        if launch.get("elastic"):
            self.launch = {name: launch[name] for name in ("pool", "grow_after")}
            if not self._plan(processes):
                return True
        self._start(processes)
        if self._spec.tries is None:
            self.close()
        return True

    def start_again(self, processes: Sequence[Process], attempt: int) -> None:
        """Start the tasks of another attempt, with plans that say so.

        Parameters
        ----------
        processes
            The tasks of that attempt, not started; their processes are noted in them.
        attempt
            Its number, which the plans give.
        """
        if not self._plan(processes, attempt):
            return
        if self._zygote is not None:
            self._zygote.hurry()
        self._start(processes)
        _sign(self._paths, processes)

    def start_beside(self, process: Process) -> None:
        """Start what lets the user into a task, see `submarine_runtime.inside`.

        It is the task's by its environment, so it counts as the task's, and is ended with it.

        Parameters
        ----------
        process
            The task's; nothing is done where it has not been started or has ended.

        Raises
        ------
        ClusterError
            The machine can start no more.
        """
        if not process.pid or process.exit_status is not None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        logs: list[int] = []
        try:
            logs.append(os.open(self._paths.supervisor_log, flags, 0o600))
            logs.append(os.dup(logs[0]))
            root = str(self._paths.task(process.task).root)
            command = [sys.executable, "-I", "-S", str(INSIDE), root, str(process.pid)]
            self._fork_task(command, self._environment(process), tuple(logs), [])
        except OSError as error:
            for descriptor in logs:
                os.close(descriptor)
            raise ClusterError(f"nothing can be started beside the task: {error}") from error

    def _plan(self, processes: Sequence[Process], attempt: int = 1) -> bool:
        """Write the tasks' plans anew; False where they are given up."""
        try:
            for process in processes:
                plan = self._paths.task(process.task).plan
                told = json.loads(read_foreign(plan, _LARGEST_PLAN))
                write_json(plan, {**told, "attempt": attempt, "peers": len(processes)})
        except (OSError, ValueError, TypeError, RecursionError) as error:
            # A full disk, or the code of the attempt before was at it: then none is started.
            for process in processes:
                self._give_up(process, error)
            return False
        return True

    def _start(self, processes: Sequence[Process]) -> None:
        asked = {process.task: self._ask_zygote(process) for process in processes}
        for process in processes:
            process.started = Moment.now()
            logs: tuple[int, ...] = ()
            try:
                if asking := asked[process.task]:
                    process.pid = asking()
                if not process.pid:
                    logs = open_logs(self._paths.task(process.task))
                    root = str(self._paths.task(process.task).root)
                    command = [sys.executable, "-u", str(RUNTIME), root]
                    environment = self._environment(process)
                    process.pid = self._fork_task(command, environment, logs, process.leases)
            except OSError as error:
                for descriptor in logs:
                    os.close(descriptor)
                self._give_up(process, error)

    def _environment(self, process: Process) -> dict[str, str]:
        own = self._own.get(process.task, {})
        return {**os.environ, **own, **gpu_environment(process.gpus)}

    def _ask_zygote(self, process: Process) -> Callable[[], int] | None:
        """Have a task forked where that can be; return what waits for its process.

        All are asked for first: the forks of large processes take their time side by side.
        """
        if self._zygote is None:
            return None
        logs: tuple[int, ...] = ()
        try:
            logs = open_logs(self._paths.task(process.task))
            environment = self._environment(process)
            return self._zygote.fork(process.task, environment, logs, process.leases)
        except OSError:  # a fresh one would not be started either, and says so
            return None
        finally:
            for descriptor in logs:
                os.close(descriptor)

    def _give_up(self, process: Process, error: Exception) -> None:
        """Count a task as failed; the others end as if it had failed a moment later."""
        why = (isinstance(error, OSError) and error.strerror) or "its plan cannot be read"
        process.unstarted = isinstance(error, OSError) and error.errno in NO_ROOM
        process.exit_status = CANNOT_RUN
        with suppress(OSError):
            *others, log = open_logs(self._paths.task(process.task))
            try:
                os.write(log, f"cannot be started: {why}\n".encode())
            finally:
                for descriptor in (*others, log):
                    os.close(descriptor)


def _sign(paths: JobPaths, processes: Sequence[Process]) -> None:
    """Say who runs the job, for whoever finds it without its supervisor."""
    sessions = [process.pid for process in processes if process.pid]
    leaders = [process_stat(session) for session in sessions]
    begun: list[tuple[int | None, int | None]] = [
        (session, leader.start if leader else None)
        for session, leader in zip(sessions, leaders, strict=True)
    ]
    (first, began), *others = begun or [(None, None)]
    signature = {"pid": os.getpid(), "session": first, "session_start": began, "others": others}
    with suppress(OSError):
        paths.lock.write_text(json.dumps(signature))
