"""What a new cluster writes, and nothing else.

A `Backend` is one cluster of a kind. Some of its methods are called in the user's own process: may
this job run, what does the driver have to know of it, whose are the GPUs. The others are called by
the keeper, the one process that drives a home's jobs: it gives a `Request` for each job.

Whatever a `Request` does to the cluster is done by the job's id, and can be done again: a keeper
may be killed between any two instructions, and the next one adopts what carries the id before it
asks anew. What is to be done when is not a backend's to say: `submarine_engine.lifecycle.decide`
says it for all of them.
"""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from submarine_engine.clusters import base, locks
from submarine_engine.clusters.base import ClusterKind, GpuRoom, gpu_checks, room_on
from submarine_engine.clusters.machine import spawn_detached
from submarine_engine.errors import UnsupportedError
from submarine_engine.history import is_job_id, make_private, read_json, write_json
from submarine_engine.lifecycle import FRAMES_WITHIN, HELLO_WITHIN, MISSED
from submarine_engine.secret_values import note_values

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Gpu, GpuShare, Saved
    from submarine_engine.clusters.container import Container
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.inside import Credentials
    from submarine_engine.clusters.log_mirror import LogSource
    from submarine_engine.clusters.saving import SaveRequest
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.config import Config
    from submarine_engine.findings import Check
    from submarine_engine.history import JobPaths, TaskPaths
    from submarine_engine.job import JobSpec
    from submarine_engine.lifecycle import JobStatus


Allocated = base.Allocated
AllocatedByTask = Mapping[str, Allocated]


class Counted(NamedTuple):
    """What a cluster counts as a job's at one moment.

    Parameters
    ----------
    held
        The ids of containers; those of other jobs may be among them.
    over
        Whether the cluster has ended everything that is the job's, given or not.
    """

    held: frozenset[str] | set[str]
    over: bool = False


class KeptJob(NamedTuple):
    """A job on record, as a request for it is made.

    Parameters
    ----------
    paths
        Its files on this machine. A backend may keep a file of its own there, by its own name.
    spec
        What is to run, with every role's resources a number. Besides its ``env``, tasks get what
        `submarine_engine.secret_values.noted_values` reads of the job's folder, by a way that
        nobody else can look at. Where its number of workers may change (`JobSpec.elastic`), the
        request chooses one for each attempt, see `Request.ask`.
    launch
        What `Backend.prepare` and `Backend.deliver` returned, besides ``entry``, ``home``,
        ``grace``, ``session``.
    record
        The content of ``record.json``.
    attempt
        How often the job has been begun, this time included. Its tasks get plans of this number
        (`submarine_engine.clusters.store.task_plan`), and containers of other names than before.
    """

    paths: JobPaths
    spec: JobSpec
    launch: Mapping[str, Any]
    record: Mapping[str, Any]
    attempt: int = 1


class Request(ABC):
    """One job, asked of a cluster and followed there: what a keeper does in a thread for each.

    All of it may be asked anew by another keeper, after a kill at any place: what the job has is
    known by its id, on the cluster or by a note that was written before the cluster was asked.

    There is one for each attempt. All that an attempt before had is over, and none of it is adopted
    for this one: what is noted or found has to tell of which attempt it is.
    """

    ends_with_job: bool = False
    """Whether what carries the containers is over as soon as they are."""

    is_woken: bool = False
    """Whether whoever hosts the job is woken when a task ends, and so need not look often."""

    cause: str = ""
    """Why the job has to be ended though nobody asked for that: a limit; empty where it may run."""

    def follow(self, paths: JobPaths, task: str, gpus: int) -> TaskRun:
        """Return how a task is followed: by copies of its files, unless a cluster knows better.

        Parameters
        ----------
        paths, task
            Which, and whose.
        gpus
            How many it is asked for with.
        """
        from submarine_engine.clusters.container import Container  # noqa: PLC0415 - of such clusters

        return Container(paths, task, gpus, self)

    @property
    def begun(self) -> bool:
        """Whether the cluster may know of the job. True where that is not known."""
        return True

    @property
    def master(self) -> tuple[float, float] | None:
        """When the cluster's own process for the job was asked for, and when it ran.

        Of a process that is needed before the first container comes: seconds of this machine's wall
        clock. None where there is none, or it does not run yet.
        """
        return None

    @abstractmethod
    def ask(self) -> AllocatedByTask | None:
        """Ask for the job's containers, unless they are asked for, and return those it has.

        Called at each turn, so it returns at once: it adopts, asks, or looks what has come.

        An elastic job begins with as many workers as there is room for at once, none more than
        `Role.count` and no fewer than `Role.least`; its tasks are told of `JobSpec.sized` then.

        Returns
        -------
        mapping or None
            The containers by task; None while the job cannot begin with what it has. Those of an
            elastic job are all that this attempt has, from the first time on.

        Raises
        ------
        SubmissionError, ClusterError
            The cluster does not run the job, for good: that ends it. An error that passes is none.
        """

    @abstractmethod
    def count(self) -> Counted:
        """Return what the cluster counts as the job's.

        Raises
        ------
        ClusterError
            It does not answer now.
        """

    @abstractmethod
    def signal(self, container: str, *, kill: bool) -> None:
        """Ask a container's task to end (SIGTERM), or kill all of it.

        Parameters
        ----------
        container
            Its id, as `Allocated.id` has it.
        kill
            Whether it is killed (SIGKILL) with all that it has started.

        Raises
        ------
        ClusterError
            It cannot be told now; it is tried again.
        """

    @abstractmethod
    def withdraw(self) -> None:
        """Ask for nothing any more, and end what the job has; raises as `signal`.

        Where it returns, the job will get nothing.
        """

    @abstractmethod
    def source(self, container: Allocated) -> LogSource:
        """Return where the files of a container can be read: see `LogSource`.

        Parameters
        ----------
        container
            As `ask` returned it.
        """

    @abstractmethod
    def waiting(self) -> tuple[int, str]:
        """Return how many jobs are ahead, and what the job waits for, in words.

        Raises
        ------
        ClusterError
            The cluster does not answer now.
        """

    @property
    def trouble(self) -> str:
        """What is wrong while the job waits, and may come right yet; empty where nothing is.

        It is said to people at once, as a warning: what a job usually waits for, `waiting` says.
        """
        return ""

    def room(self) -> int:
        """Return how many workers more an elastic job could have now, besides those that it has.

        0 where another job waits for what is free, and on clusters that cannot tell. Called about
        once a second; the job is begun again with more where there is room for a while.

        Raises
        ------
        ClusterError
            The cluster does not answer now.
        """
        return 0

    def is_fresh(self, container: str) -> bool:  # noqa: ARG002 - of clusters that lag
        """Return whether a container is so new that `count` need not know it yet.

        Parameters
        ----------
        container
            Its id.
        """
        return False

    def is_over(self, task: str) -> bool:  # noqa: ARG002 - where the task's files say it
        """Return whether the cluster says that a task's container has ended.

        Parameters
        ----------
        task
            Which task, as ``worker-0``.
        """
        return False

    @property
    def stopped(self) -> str:
        """In words, that somebody ended the job by the cluster's own means; empty for nobody.

        It is cancelled then, and not begun again. Asked where all of its tasks are over, or `ask`
        has refused it.
        """
        return ""

    @property
    def forgotten(self) -> bool:
        """Whether the cluster knows the job no more: what its tasks have left is all there is.

        Asked of tasks that are over, and have left no word of how they ended.
        """
        return False

    def is_lost(self, container: TaskRun, *, wanted: bool) -> bool:  # noqa: ARG002 - where nobody can tell
        """Return whether the cluster ended a task: its node is gone, or it was preempted.

        Asked of tasks that are over, and have no last word of their own. A job with ``--retries``
        is begun again for that without counting.

        Parameters
        ----------
        container
            The task.
        wanted
            Whether the driver had tasks of the job ended, and maybe this one.
        """
        return False

    def words(self, task: str, *, patient: bool) -> str:  # noqa: ARG002 - of clusters that tell
        """Return what the cluster says of a container's end; empty where nothing.

        Parameters
        ----------
        task
            Whose container it is.
        patient
            Whether it is worth a wait: the container was asked to end, and not by us.
        """
        return ""

    def recover(self, container: Container) -> None:  # noqa: B027 - where a source shows all
        """Bring home what the container's source does not show any more, where it is elsewhere.

        Parameters
        ----------
        container
            The task, as its driver follows it.
        """

    @abstractmethod
    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring small messages to tasks, and return what the tasks have said so far.

        Called for jobs of several tasks once each has its container, again and again until all are
        there, for any task that somebody asks something while it runs, and for a pool's workers: a
        part of their calls may have half a megabyte. Nothing of it needs to outlive the containers.
        See `submarine_engine.clusters.exchange`.

        Parameters
        ----------
        messages
            By task and name. Each may be said again, by another keeper too, and replaces what was
            there of its name.

        Returns
        -------
        mapping
            By task and name; none is wanted where there was something to bring, but for how much of
            a pool's calls a task has (`CallCarrier`). All of it is the word of a stranger, and
            none longer than `exchange.LARGEST` bytes and one.

        Raises
        ------
        ClusterError
            Not all could be brought now, or heard; it is tried again.
        """

    def renew_access(self, tasks: Collection[str]) -> None:  # noqa: B027 - where access has an end
        """Renew the credentials by which running tasks read and write; called at each turn.

        Parameters
        ----------
        tasks
            Those that have their containers, and are not over.

        Raises
        ------
        SubmarineError
            That cannot be done now; it is tried again.
        """

    def end_sidecars(self) -> None:  # noqa: B027 - of clusters that have any
        """End the job's sidecars, a TensorBoard for one: its own containers are all over."""

    def give_back(self) -> None:  # noqa: B027 - where something is kept for another attempt
        """Give back what was kept for another attempt: the job is over, and says so next."""

    def keep(self, task: TaskPaths) -> None:  # noqa: B027 - of clusters with a storage
        """Keep the results of a job that is over on the cluster, too; nobody waits for that.

        Parameters
        ----------
        task
            The files of the task of rank 0, on this machine.
        """

    def forget(self) -> None:  # noqa: B027 - where something is left
        """Remove what is left of a job that is over, and whose files are home."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened here; the job may run on."""


class KeeperFolder:
    """Where a keeper has its lock, its bell, and the list of jobs that are not over.

    ::

        <home>/<cluster>/<key>/
            keeper.lock     flock held by the keeper as long as it lives
            keeper.log      its own stderr
            bell            named pipe: who submits or cancels rings here
            open/<job id>   an empty file for each job that is not over; executable once a keeper
                            has begun with it, so that the cluster may know of it

    Parameters
    ----------
    home
        Where all jobs are kept.
    name
        The cluster's.
    key
        As `Backend.key`.
    """

    def __init__(self, home: Path, name: str, key: str) -> None:
        self.home = home
        self.name = name
        self.key = key
        self.root = home / name / key
        self.lock = self.root / "keeper.lock"
        self.log = self.root / "keeper.log"
        self.bell = self.root / "bell"
        self.open = self.root / "open"

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises
        ------
        OSError
            It cannot be made.
        """
        for folder in (self.root, self.open):
            make_private(folder)

    def open_jobs(self) -> list[str]:
        """Return the ids of the jobs that are not over, oldest first."""
        found = []
        with suppress(FileNotFoundError):
            for path in self.open.iterdir():
                if not is_job_id(path.name):  # somebody else's, as a file system's own
                    continue
                with suppress(FileNotFoundError):  # it is over just now
                    found.append((path.stat().st_mtime_ns, path.name))
        return [job_id for _, job_id in sorted(found)]

    def is_open(self, job_id: str) -> bool:
        """Return whether a job is handed to the keeper, and not over.

        Parameters
        ----------
        job_id
            The job's id.
        """
        return (self.open / job_id).exists()

    def hand(self, job_id: str) -> None:
        """Hand a job to the keeper.

        Parameters
        ----------
        job_id
            The job's id; it is on record.

        Raises
        ------
        OSError
            The folder cannot be written.
        """
        self.make()
        (self.open / job_id).touch(mode=0o600)

    def take_up(self, job_id: str) -> None:
        """Note that a keeper begins with a job: from now on the cluster may know of it.

        By a bit of its mode: that keeps its place in the order, and needs no room on a full disk.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with suppress(OSError):  # it is over just now; no trouble with that is the job's
            (self.open / job_id).chmod(0o700)

    def is_taken_up(self, job_id: str) -> bool:
        """Return whether a keeper has ever begun with a job.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with suppress(FileNotFoundError):
            return bool((self.open / job_id).stat().st_mode & 0o100)
        return False

    def close(self, job_id: str) -> None:
        """Take a job out that is over.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with suppress(OSError):
            (self.open / job_id).unlink()

    def adopt(self, paths: JobPaths) -> bool:
        """Queue a job on record whose submitter died before it did so; return whether it was one.

        Parameters
        ----------
        paths
            The job's files.

        Raises
        ------
        OSError
            The job's folder cannot be read, or the keeper's not be written.
        """
        if self.is_open(paths.job_id) or not locks.is_free(paths.lock):
            return False
        launch = read_json(paths.root / "launch.json")
        if launch is None or launch.get("keeper") != self.key:
            return False
        self.hand(paths.job_id)
        return True

    def ring(self) -> None:
        """Wake the keeper; nothing where none listens."""
        with suppress(OSError):
            descriptor = os.open(self.bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"!")
            finally:
                os.close(descriptor)

    def lives(self) -> bool:
        """Return whether there is a keeper."""
        return not locks.is_free(self.lock)

    def ensure_keeper(self, environment: Mapping[str, str]) -> None:
        """Start a keeper where none lives, and wake the one that does.

        Parameters
        ----------
        environment
            See `Backend.keeper_environment`.

        Raises
        ------
        OSError
            The machine can start no more processes, or the folder cannot be written.
        """
        self.make()
        lock = locks.take(self.lock)
        if lock is None:
            self.ring()
            return
        try:
            arguments = [str(self.home), self.name, self.key, str(lock)]
            spawn_detached(
                [sys.executable, "-m", "submarine_engine.clusters.keeper", *arguments],
                {**environment, "SUBMARINE_HOME": str(self.home)},
                log=self.log,
                keep=[lock],
            )
        finally:
            locks.drop(lock)


class SubmitQueue:
    """Jobs that have not asked for their containers yet, first come first.

    Attributes
    ----------
    on_turn
        Is called with the id of each job whose turn comes since another one has left, or asks
        somebody else. The more jobs wait, the longer each rests between two looks: one that would
        only look some time later held up all behind it for that long.
    """

    def __init__(self) -> None:
        self.on_turn: Callable[[str], object] = lambda _: None
        self._lock = threading.Lock()
        self._keys: dict[str, str | None] = {}

    def join(self, job_id: str) -> None:
        """Put a job at the end; nothing where it is queued already.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with self._lock:
            self._keys.setdefault(job_id, None)

    def name(self, job_id: str, key: str) -> None:
        """Say by `key` whom a job will ask; until then all that came later wait for it.

        Parameters
        ----------
        job_id
            The job's id.
        key
            Names whom it asks: jobs of other keys do not wait for it.
        """
        with self._changing():
            if job_id in self._keys:
                self._keys[job_id] = key

    def is_turn(self, job_id: str) -> bool:
        """Return whether no earlier job is still to ask whom this one asks.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with self._lock:
            mine = self._keys.get(job_id)
            for other, key in self._keys.items():
                if other == job_id:
                    return True
                if key is None or key == mine:
                    return False
            return True

    def before(self, job_id: str) -> int:
        """Return how many earlier jobs are still to ask whom this one asks.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with self._lock:
            mine, count = self._keys.get(job_id), 0
            for other, key in self._keys.items():
                if other == job_id:
                    return count
                count += key == mine
            return 0

    def has(self, key: str) -> bool:
        """Return whether a queued job will ask for `key`, or may: it has not said yet.

        Parameters
        ----------
        key
            As `name` has it.
        """
        with self._lock:
            return any(one is None or one == key for one in self._keys.values())

    def leave(self, job_id: str) -> None:
        """Take a job out: it has asked, or never will. Nothing where it is not queued.

        Parameters
        ----------
        job_id
            The job's id.
        """
        with self._changing():
            self._keys.pop(job_id, None)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change the queue, and call `on_turn` for each job whose turn comes by that."""
        with self._lock:
            before = self._first()
            yield
            come = self._first() - before
        for job_id in come:
            self.on_turn(job_id)

    def _first(self) -> set[str]:
        """Return the jobs that nobody holds up."""
        found, keys = set(), set()
        for job_id, key in self._keys.items():
            if key not in keys:
                found.add(job_id)
            if key is None:  # whom it will ask is not known yet
                break
            keys.add(key)
        return found


class Backend(ClusterKind):
    """One cluster of a kind.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.

    Attributes
    ----------
    title
        What people call it in a sentence: ``Slurm``.
    """

    title: ClassVar[str]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.submit_queue = SubmitQueue()
        """The jobs that the keeper has taken up, in the order in which they came."""

    # Called in the process of whoever submits or looks.

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield what ``submarine doctor`` says of this cluster: its GPUs.

        Parameters
        ----------
        config
            The settings.
        """
        yield from gpu_checks(cls(Path(config.value("home"))).gpus({}))

    @property
    def key(self) -> str:
        """What tells this cluster from others of its kind: there is a keeper for each."""
        return "default"

    @abstractmethod
    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it; see `Cluster.check`.

        Parameters
        ----------
        spec
            What the user asked for.
        """

    def prepare(
        self,
        spec: JobSpec,  # noqa: ARG002 - of clusters that need it
        bundle: Bundle,  # noqa: ARG002 - likewise
        tell: Callable[[str], object],  # noqa: ARG002 - likewise
    ) -> dict[str, Any]:
        """Make ready what a job needs on the cluster, and return what the keeper has to know of it.

        Nothing is on record yet. What is returned is JSON, and holds no secret.

        Parameters
        ----------
        spec
            What is to run, checked.
        bundle
            The script, and all that travels with it.
        tell
            Called with a sentence where a step takes long.

        Raises
        ------
        SubmissionError, ClusterError
            That refuses the job.
        """
        return {}

    def stage(
        self,
        staged: JobPaths,
        job: KeptJob,
        secrets: Mapping[str, str],
        tell: Callable[[str], object],
    ) -> None:
        """Write what the job's driver needs into its folder, before that is in its place.

        Parameters
        ----------
        staged
            The files as they are written, ``record.json`` and the bundle among them.
        job
            The job as it will be.
        secrets
            The values of its ``--secret``, by name.
        tell
            As `prepare` has it.

        Raises
        ------
        OSError
            The disk is full.
        SubmissionError, ClusterError
            That refuses the job.
        """
        for task in job.spec.tasks:
            make_private(staged.task(task).root)
        delivered = self.deliver(staged.bundle, tell)
        write_json(staged.root / "launch.json", {**job.launch, **delivered})
        note_values(staged.root, secrets)

    def deliver(
        self,
        bundle: Path,  # noqa: ARG002 - of clusters with a storage
        tell: Callable[[str], object],  # noqa: ARG002 - likewise
    ) -> dict[str, Any]:
        """Bring what is large in a bundle to the cluster; return as `prepare` does, and raise so.

        Parameters
        ----------
        bundle
            Its folder, written.
        tell
            As `prepare` has it.
        """
        return {}

    @abstractmethod
    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:
        """Return the cluster's GPUs and who holds each.

        Parameters
        ----------
        held
            The jobs of this home by the ids of the containers that they hold.

        Raises
        ------
        ClusterError
            The cluster does not answer.
        """

    def gpu_shares(self) -> list[GpuShare]:
        """Return what each part of the cluster has of them; raises as `gpus`."""
        return []

    def gpu_room(self, spec: JobSpec, held: Mapping[str, str]) -> GpuRoom:
        """Return how many GPUs jobs like this one could have now; raises as `gpus`.

        Asked about once a second while a map or a sweep runs.

        Parameters
        ----------
        spec
            The job, checked.
        held
            As `gpus` has it.
        """
        return room_on(self.gpus(held), spec)

    def links(self, paths: JobPaths, status: JobStatus) -> dict[str, str]:  # noqa: ARG002 - of clusters with pages
        """Return the web pages of a job, see `Cluster.links`; asks nobody.

        Parameters
        ----------
        paths
            The job's files.
        status
            The job as it stands.
        """
        return {}

    def save(self, asked: SaveRequest, path: str) -> Saved:  # noqa: ARG002 - of clusters that can
        """Bring the model of a running job to a folder, see `Cluster.save`.

        Parameters
        ----------
        asked
            Whose model.
        path
            Where to.
        """
        raise UnsupportedError(
            f"the cluster {self.name} cannot save models of running jobs",
            where=f"job {asked.paths.job_id}",
            fix="let the job write its checkpoints to --checkpoint_path",
        )

    @property
    def credentials(self) -> Credentials | None:
        """What a connection into a task on another machine is made with; None where none can be."""
        return None

    def reach_inside(self, paths: JobPaths, task: str) -> socket.socket | None:  # noqa: ARG002 - of clusters that have
        """Connect to the server beside a running task by the cluster's own means.

        Parameters
        ----------
        paths
            The job's files.
        task
            Which task, as ``worker-0``.

        Returns
        -------
        socket.socket or None
            Its connection; None where this machine reaches the task's socket or machine itself.

        Raises
        ------
        ClusterError
            It cannot be reached now.
        """
        return None

    def own_checkpoints(self, paths: JobPaths) -> str | None:  # noqa: ARG002 - of clusters that have
        """Return where a job without ``--checkpoint_path`` has its checkpoints; None for nowhere.

        Another job that is given that path goes on from there.

        Parameters
        ----------
        paths
            The job's files.
        """
        return None

    def get_ready(self, folder: KeeperFolder, notebook: str) -> None:
        """Begin with what the first job of this process will wait for, see `Cluster.get_ready`.

        Parameters
        ----------
        folder
            How the keeper is reached.
        notebook
            As `JobSpec.notebook` will have it.
        """

    def keeper_environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a keeper.

        Parameters
        ----------
        outer
            That of whoever starts it.
        """
        return dict(outer)

    def folder(self, key: str | None = None) -> KeeperFolder:
        """Return how the keeper of this cluster is reached.

        Parameters
        ----------
        key
            As whoever started a keeper knew it; `Backend.key` unless given.
        """
        return KeeperFolder(self.home, self.name, key or self.key)

    # Called by the keeper.

    idle: float = 30.0
    """Seconds after which a keeper ends that has neither jobs nor anything else to `tend`."""

    lease: float = 30.0
    """Seconds that a job waits on in the queue after its notebook has died."""

    hello_within: float = HELLO_WITHIN
    """Seconds that a task of several has to say hello, once all of them have their containers."""

    missed_within: float = MISSED
    """Seconds for which `observe` may count a container no more without a word of its end."""

    frames_within: float = FRAMES_WITHIN
    """Seconds that a task has to keep its frames once another one has failed; 0 for none."""

    def begin(self, folder: KeeperFolder, stop: threading.Event) -> None:
        """Begin to serve a keeper: called once, before the keeper calls anything else.

        Parameters
        ----------
        folder
            The keeper's.
        stop
            Is set when the keeper ends.
        """

    def tend(self) -> bool:
        """Maintain what outlives jobs, as idle masters, twice a second; whether there is any."""
        return False

    @abstractmethod
    def request(self, job: KeptJob) -> Request:
        """Return what asks for an attempt of a job and follows it, also one that was begun before.

        Called in the job's own thread. Nothing of the job is asked for before `Request.ask`.

        Parameters
        ----------
        job
            The attempt: see `KeptJob.attempt`.

        Raises
        ------
        ClusterError
            It cannot be now; it is tried a few times.
        """

    def give_up(self, paths: JobPaths) -> None:
        """End what the cluster has of a job that cannot be followed, without its request.

        Parameters
        ----------
        paths
            The job's files.
        """

    def end(self) -> None:
        """End whatever `begin` began: the keeper ends."""
