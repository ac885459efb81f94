"""What front ends ask of a cluster, and what every cluster promises.

`Cluster` is the seam between what to run and where it runs. A stream of a job is read in batches
from a `Cursor`, so that any process can go on where another stopped.
"""

from __future__ import annotations

import json
import os
import stat
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from submarine_engine.errors import UnsupportedError
from submarine_engine.findings import NOTE, OK, Check

if TYPE_CHECKING:
    from submarine_runtime.channel import Channel

    from submarine_engine.artifacts import JobArtifacts
    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.storage import Storage
    from submarine_engine.config import Config
    from submarine_engine.events import Display, Event, LogChunk
    from submarine_engine.job import JobSpec
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.metrics import JobMetrics
    from submarine_engine.stacks import Stacks
    from submarine_engine.waterfall import Startup


class AnswerPipe:
    """The way to a question that waits for its answer.

    While it is open the job waits. Its end without an answer is an ``EOFError`` in the job.

    Parameters
    ----------
    pipe
        A descriptor to write to, which this takes over.
    """

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    @classmethod
    def take(cls, path: Path) -> AnswerPipe | None:
        """Open the named pipe of a question; None where nobody waits behind it.

        Parameters
        ----------
        path
            The pipe, in the task's folder.
        """
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        line = cls(pipe)
        status = os.fstat(pipe)
        if not stat.S_ISFIFO(status.st_mode) or status.st_uid != os.getuid():
            line.close()
            return None
        os.set_blocking(pipe, True)
        with suppress(OSError):
            os.write(pipe, b"taken\n")
        return line

    def answer(self, text: str | None) -> None:
        """Give the answer; None for the end of the input. Without effect where it came too late.

        Parameters
        ----------
        text
            What was answered.
        """
        data = json.dumps(text).encode() + b"\n"
        with suppress(OSError):
            while data:
                data = data[os.write(self.pipe, data) :]

    def close(self) -> None:
        """Leave the job without an answer, where it has none yet."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


# What is told of a model that was saved while its job runs.


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A model that was saved while its job runs.

    Parameters
    ----------
    path
        The folder that holds its files now: of this machine, or ``hdfs://…``.
    by
        ``hook``: the function that the training code gave to `submarine_runtime.on_save`;
        ``checkpoint``: the last checkpoint was copied.
    source
        The task whose function it was, or the name of the checkpoint.
    files, size
        How many files, and their bytes.
    """

    path: str
    by: str
    source: str
    files: int
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    @property
    def words(self) -> str:
        """What was saved, in words."""
        what = f"by the code of {self.source}"
        if self.by == "checkpoint":
            what = f"a copy of the checkpoint {self.source}"
        return f"{what}: {self.files} file{'s' * (self.files != 1)}, {self.size:,} bytes"


# The seam between what to run and where it runs.
#
# A front end never knows which cluster it is on. To add a cluster, subclass `Cluster` and name it
# in the entry point group ``submarine.clusters``.


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has come in a job's stream; the default is the very beginning.

    Parameters
    ----------
    events
        Position in the job's events, of the cluster's own making (local: bytes of the file).
    logs
        Bytes read of each log, by ``TASK/STREAM``; of the displays, by ``TASK/displays``.
    """

    events: int = 0
    logs: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text form, for a card or a URL."""
        return json.dumps({"events": self.events, "logs": dict(self.logs)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """Build from what `to_json` returned.

        Parameters
        ----------
        text
            What `to_json` returned.

        Raises
        ------
        ValueError
            `text` is no cursor.
        """
        try:
            data = json.loads(text)
            logs = {str(key): int(value) for key, value in data["logs"].items()}
            events = int(data["events"])
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"no cursor: {text!r}") from error
        if events < 0 or any(offset < 0 for offset in logs.values()):
            raise ValueError(f"no cursor: {text!r}")
        return cls(events, logs)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a job's stream holds after a cursor.

    Parameters
    ----------
    items
        Events, log chunks and displays, in the order to show them.
    cursor
        Where to go on reading.
    ended
        The job is over and everything of it has been read.
    """

    items: Sequence[Event | LogChunk | Display]
    cursor: Cursor
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as the cluster accounts it.

    Parameters
    ----------
    memory
        Mebibytes.
    job_id
        The job of Submarine's that holds it.
    holder
        Who holds it, in words, where the cluster runs more than Submarine's jobs.
    queue
        The holder's queue, where the cluster has more than one.
    """

    id: str
    name: str
    host: str
    memory: int | None = None
    job_id: str | None = None
    holder: str | None = None
    queue: str | None = None

    @property
    def held_by(self) -> str | None:
        """Who holds it, in words; None where it is free."""
        return self.job_id or self.holder

    @property
    def held_words(self) -> str:
        """All that is known of who holds it, for people; ``free`` where nobody does."""
        known = " · ".join(filter(None, (self.job_id, self.holder))) or "free"
        return f"{known} in {self.queue}" if self.queue else known


@dataclass(frozen=True, slots=True)
class GpuShare:
    """GPUs of one part of a cluster; `kind` of part is ``node`` or ``queue``."""

    kind: str
    name: str
    free: int
    total: int


def node_shares(gpus: Sequence[Gpu]) -> list[GpuShare]:
    """Return what each node has of the GPUs.

    Parameters
    ----------
    gpus
        All of them.
    """
    total = Counter(gpu.host for gpu in gpus)
    free = Counter(gpu.host for gpu in gpus if gpu.held_by is None)
    return [GpuShare("node", host, free[host], total[host]) for host in sorted(total)]


class GpuRoom(NamedTuple):
    """GPUs that a job could have now, and that others wait for.

    Parameters
    ----------
    free
        How many jobs of a kind could have at once, without waiting.
    wanted
        How many have been asked for and not given yet where more may be given, as the cluster
        counts: for whomever. 0 where it does not tell.
    """

    free: int
    wanted: int = 0


def room_on(gpus: Sequence[Gpu], spec: JobSpec) -> GpuRoom:
    """Return how many GPUs jobs like one could have now, a task's all on one host.

    Parameters
    ----------
    gpus
        Those that it may have, held or not.
    spec
        The job, checked.
    """
    free = Counter(gpu.host for gpu in gpus if gpu.held_by is None)
    tasks = [role.resources.gpus or 0 for role in spec.roles for _ in range(role.count)]
    tasks = sorted(filter(None, tasks), reverse=True)
    jobs = 0
    while tasks and _take(tasks, free):
        jobs += 1
    return GpuRoom(jobs * sum(tasks))


def _take(tasks: Sequence[int], free: Counter[str]) -> bool:
    """Take the GPUs of a job's tasks, the largest first; return whether there were enough."""
    for gpus in tasks:
        fitting = [host for host, left in free.items() if left >= gpus]
        if not fitting:
            return False
        free[min(fitting, key=lambda host: free[host])] -= gpus  # where the least is left over
    return True


def gpu_checks(gpus: Sequence[Gpu], fix: str = "") -> Iterator[Check]:
    """Yield what ``submarine doctor`` says of a cluster's GPUs.

    Parameters
    ----------
    gpus
        All of them.
    fix
        What to do where there is none.
    """
    held = sum(gpu.held_by is not None for gpu in gpus)
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    found = f"{len(gpus)} ({names}), {held} held" if gpus else "none"
    yield Check("GPUs", OK if gpus else NOTE, found, "" if gpus else fix)


def _keep_quiet(_text: str) -> None:
    pass


class Allocated(NamedTuple):
    """A container that the cluster gave to a task.

    Parameters
    ----------
    id
        What the cluster calls it: another for each attempt, printable, the same for every driver.
    node
        Where it runs: ``HOST`` or ``HOST:PORT``.
    began
        When it was given, on the cluster's wall clock; 0 where nobody knows.
    """

    id: str
    node: str
    began: float = 0.0


class ClusterKind(ABC):
    """What is asked of a kind of cluster, before there is one: a `Cluster` and a `Backend` are one.

    Attributes
    ----------
    name
        What people choose it by, and what the entry point is called: ``slurm``.
    """

    name: str
    log_label: str = "Log"
    """What people call the page of a job's log: front ends write it on their links."""
    no_gpus: str = ""
    """What to do where it has no GPU, in words."""
    tasks_here: bool = False
    """Whether its tasks run in their jobs' folders of this machine, not in copies of these."""

    @classmethod
    def configured(cls) -> bool:
        """Return whether the user has this cluster at all; asks nobody."""
        return True

    @classmethod
    @abstractmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield what ``submarine doctor`` says of this cluster, with the way out of each trouble.

        Parameters
        ----------
        config
            The settings.

        Raises
        ------
        SubmarineError
            The cluster cannot be opened, or does not answer.
        """

    @classmethod
    def event_schemes(cls) -> tuple[str, ...]:
        """Return the schemes of addresses that it opens, by the two below: ``hdfs``."""
        return ()

    @classmethod
    def open_storage(cls, address: str) -> tuple[Storage, str]:
        """Return the storage of an address of `event_schemes`, and the path that it is there.

        Parameters
        ----------
        address
            Which.

        Raises
        ------
        UnsupportedError, ConfigError, ClusterError
            It cannot.
        """
        raise UnsupportedError(
            f"this cluster keeps no files at {address:.120}",
            where=cls.__name__,
            fix="name a folder of this machine",
        )

    @classmethod  # noqa: B027 - of clusters with a storage
    def let_read_events(cls, places: Sequence[str]) -> None:
        """Let this process read addresses of `event_schemes` through fsspec, for a TensorBoard.

        Parameters
        ----------
        places
            Which.

        Raises
        ------
        UnsupportedError, ConfigError, ClusterError
            It cannot.
        """

    @classmethod
    def machine_path(cls, path: str, option: str) -> Path | None:
        """Return the file of this machine that a job's path means; None where it is elsewhere.

        Parameters
        ----------
        path
            As the option has it.
        option
            Named in the error.

        Raises
        ------
        UnsupportedError
            The cluster takes no such path.
        """
        from submarine_engine.clusters.environment import file_address  # noqa: PLC0415 - rare

        return file_address(path, option)


class Cluster(ClusterKind):
    """Where jobs run.

    Attributes
    ----------
    tell
        Called with a sentence whenever a step of `submit` takes long; a front end sets it.
    asks
        Whether a job can ask who waits for it, see `JobSpec.asks`.
    """

    tell: Callable[[str], object] = staticmethod(_keep_quiet)
    asks: ClassVar[bool] = False

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:  # noqa: ARG003 - of clusters with settings
        """Yield what ``submarine doctor`` says of this cluster: its GPUs.

        Parameters
        ----------
        config
            The settings.
        """
        yield from gpu_checks(cls().gpus())

    def not_known(self) -> str:
        """Return whose jobs it cannot know of that may use the same GPUs, in words; empty: none."""
        return ""

    @abstractmethod
    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what this cluster cannot do, and fill in what was left to it.

        Parameters
        ----------
        spec
            What the user asked for; ``resources.gpus`` may be None.

        Returns
        -------
        JobSpec
            `spec` with every role's ``resources.gpus`` a number.

        Raises
        ------
        UnsupportedError, ResourcesError, ClusterError
            Before anything is asked for.
        """

    @abstractmethod
    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:
        """Check the job, put it on record and in the queue; return its id.

        Parameters
        ----------
        spec
            What to run, with which resources.
        bundle
            The script, and all that travels with it.
        workdir
            Where the user's relative paths begin: the notebook's folder.
        """

    def get_ready(self, notebook: str) -> None:
        """Begin with what the first job of this process will wait for.

        A front end calls it in a thread as soon as a notebook names the cluster, and shows nothing
        of it, errors neither. Jobs that come meanwhile or never are none the worse for it.

        Parameters
        ----------
        notebook
            As `JobSpec.notebook` will have it.
        """

    @abstractmethod
    def read(self, job_id: str, cursor: Cursor, *, limit: int = 1 << 20) -> Batch:
        """Return at once what is new after `cursor`: at most `limit` bytes of logs.

        Of displays, too; but one that is larger comes as a whole.

        Parameters
        ----------
        job_id
            The job's id.
        cursor
            Where to begin; that of the last batch to go on.
        limit
            Bytes of logs at most.
        """

    @abstractmethod
    def status(self, job_id: str) -> JobStatus:
        """Return the job as it stands.

        Parameters
        ----------
        job_id
            The job's id.
        """

    @abstractmethod
    def cancel(self, job_id: str, reason: str = "") -> None:
        """Ask the job to end: SIGTERM, grace, SIGKILL. Returns at once; no-op when it is over.

        Parameters
        ----------
        job_id
            The job's id.
        reason
            Shown with the job's state.
        """

    @abstractmethod
    def kill(self, job_id: str) -> None:
        """End the job's processes at once (SIGKILL).

        Parameters
        ----------
        job_id
            The job's id.
        """

    def save(
        self,
        job_id: str,
        path: str,  # noqa: ARG002 - of clusters that can
        *,
        patience: float | None = None,  # noqa: ARG002 - likewise
    ) -> Saved:
        """Bring the model of a running job to the new folder `path`, while training goes on.

        Parameters
        ----------
        job_id
            The job's id.
        path
            A folder of this machine, absolute, or an address of a storage of the cluster's.
        patience
            Seconds that the job's own function may take; the setting ``save_patience`` unless
            given.

        Raises
        ------
        SaveError
            The job does not run, gives no way to its model, or its own function failed.
        UnsupportedError
            The cluster cannot do it, or not to that path.
        """
        raise UnsupportedError(
            f"the cluster {self.name} cannot save models of running jobs",
            where=f"job {job_id}",
            fix="let the job write its checkpoints to --checkpoint_path",
        )

    def retry(self, job_id: str, *, notebook: bool = False) -> str:  # noqa: ARG002 - of clusters that can
        """Run a job that is over and did not succeed once more, as a new one; return its id.

        The new job has the same script and values, asks for the same, and goes on from the same
        checkpoints. Values of ``--secret`` are looked up anew.

        Parameters
        ----------
        job_id
            The job's id.
        notebook
            Whether the job's notebook asks: the new one waits in the queue as long as that lives.

        Raises
        ------
        JobError
            It is not over, has succeeded, or its script is gone.
        SubmissionError, ClusterError
            As `submit` does.
        UnsupportedError
            The cluster cannot do it.
        """
        raise UnsupportedError(
            f"the cluster {self.name} cannot run a job again",
            where=f"job {job_id}",
            fix="run its cell or its command again, with the same --checkpoint_path",
        )

    def rerun(
        self,
        job_id: str,
        spec: JobSpec,  # noqa: ARG002 - of clusters that can
        bundle: Bundle,  # noqa: ARG002 - likewise
        *,
        workdir: Path,  # noqa: ARG002 - likewise
    ) -> str:
        """Submit what an earlier job ran, from the start; return the new one's id.

        See `submarine_engine.rerun`, which makes the arguments of the earlier job's record. What
        that one keeps secret, the new one does, and its record names it.

        Parameters
        ----------
        job_id
            The earlier job, of this cluster or another of the same home.
        spec, bundle, workdir
            As for `submit`.

        Raises
        ------
        SubmissionError, ClusterError
            As `submit` does.
        UnsupportedError
            The cluster cannot do it.
        """
        raise UnsupportedError(
            f"the cluster {self.name} cannot run a job again",
            where=f"job {job_id}",
            fix="run its cell or its command again",
        )

    def stacks(self, job_id: str) -> Stacks:
        """Return where the tasks of a running job stand, within ten seconds.

        Parameters
        ----------
        job_id
            The job's id.

        Raises
        ------
        JobError
            The job does not run, or nobody answers.
        UnsupportedError
            The cluster cannot do it.
        """
        raise UnsupportedError(
            f"the cluster {self.name} cannot tell the stacks of running jobs",
            where=f"job {job_id}",
            fix="call faulthandler.dump_traceback_later in the job's code",
        )

    def begin_inside(
        self,
        job_id: str,
        asked: Mapping[str, Any],  # noqa: ARG002 - of clusters that can
        task: str | None = None,  # noqa: ARG002 - likewise
    ) -> tuple[str, Channel]:
        """Begin something inside a running task; return the task, and the connection to it.

        Parameters
        ----------
        job_id
            The job's id.
        asked
            What: see `submarine_engine.inside`, which has the words for it.
        task
            Which; that of rank 0 unless given.

        Raises
        ------
        CommandError
            The job has no such task, or the task no such program.
        JobError
            The job does not run, or the task cannot be reached.
        UnsupportedError
            The cluster cannot do it.
        """
        raise UnsupportedError(
            f"the cluster {self.name} lets nobody into running jobs",
            where=f"job {job_id}",
            fix="let the job's own code do it",
        )

    def metrics(self, job_id: str) -> JobMetrics:  # noqa: ARG002 - of clusters that measure
        """Return what a job's tasks have used and reported so far; nothing where nobody measures.

        Parameters
        ----------
        job_id
            The job's id.
        """
        from submarine_engine.metrics import JobMetrics  # noqa: PLC0415 - few jobs are asked

        return JobMetrics({}, {})

    def startup(self, job_id: str) -> Startup | None:  # noqa: ARG002 - of clusters that tell
        """Return where the time of a job's start went; None while none of its code runs.

        Parameters
        ----------
        job_id
            The job's id.
        """
        return None

    def artifacts(self, job_id: str) -> JobArtifacts:  # noqa: ARG002 - of clusters that keep them
        """Return the files that a job's tasks have left, as far as they are here.

        Parameters
        ----------
        job_id
            The job's id.
        """
        from submarine_engine.artifacts import JobArtifacts  # noqa: PLC0415 - few jobs leave any

        return JobArtifacts()

    def take_question(self, job_id: str, task: str, number: int) -> AnswerPipe | None:  # noqa: ARG002 - of clusters that `asks`
        """Take a question of a task to answer it; None where it is over, or somebody else's.

        Parameters
        ----------
        job_id
            The job's id.
        task
            Whose question it is.
        number
            Which of its questions, counted from 1.
        """
        return None

    @abstractmethod
    def results(self, job_id: str, task: str | None = None) -> Path:
        """Return a local folder with a task's ``outcome.json`` and ``results/``.

        Parameters
        ----------
        job_id
            The job's id.
        task
            Which one's; None for that of rank 0, whose results are the job's.
        """

    def warnings(self, job_id: str) -> list[str]:  # noqa: ARG002 - of clusters that have any
        """Return what went wrong beside the job itself, in words, as far as it is known now.

        Parameters
        ----------
        job_id
            The job's id.
        """
        return []

    def room(self) -> int | None:
        """Return how many bytes of values a job may take along where nobody has set a limit.

        None where the configured default is to hold: they would go over a network.
        """
        return None

    @abstractmethod
    def gpus(self) -> list[Gpu]:
        """Return the cluster's GPUs and who holds each."""

    def gpu_shares(self) -> list[GpuShare]:
        """Return what each part of the cluster has of them; none where it has no parts."""
        return []

    def gpu_room(self, spec: JobSpec) -> GpuRoom:
        """Return how many GPUs jobs like this one could have now.

        Parameters
        ----------
        spec
            The job, checked.

        Raises
        ------
        ClusterError
            The cluster does not answer.
        """
        return room_on(self.gpus(), spec)

    def own_checkpoints(self, name: str) -> str | None:  # noqa: ARG002 - of clusters with a storage
        """Return where jobs without ``--checkpoint_path`` can keep what others of them go on from.

        Parameters
        ----------
        name
            What they have in common, of the form of a job's id.

        Returns
        -------
        str or None
            A folder that all of its machines see; None where there is none.
        """
        return None

    @abstractmethod
    def log_url(self, job_id: str) -> str | None:
        """Return the web address of the job's log; None where the cluster has no such page.

        Parameters
        ----------
        job_id
            The job's id.
        """

    def links(self, job_id: str) -> dict[str, str]:  # noqa: ARG002 - of clusters that have pages
        """Return the cluster's web pages of a job as it stands, by what people call them.

        ``log`` is what `log_url` returns, a task's id leads to that task's log; front ends show any
        other one under its name. Asks nobody: it is called often.

        Parameters
        ----------
        job_id
            The job's id.
        """
        return {}
