"""The vocabulary: what a job is, as plain validated data.

Every class here is immutable, knows nothing of clusters or front ends, and round-trips through
JSON by ``to_json`` / ``from_json``. The JSON carries ``"version"``; a reader refuses versions that
it does not know instead of guessing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from submarine_runtime.home import NOTHING
from submarine_runtime.rendezvous import AUTO, FRAMEWORKS

from submarine_engine import webhooks
from submarine_engine.errors import CommandError

SPEC_VERSION = 1

ROLE_NAMES = ("chief", "worker", "ps", "evaluator", "tensorboard")
_WITHOUT_GPU = ("ps", "tensorboard")

NO_OUTPUTS = (NOTHING,)
"""`JobSpec.outputs` of ``-o none``: nothing but the result is to come back."""

RANK_EACH_GPU = "gpu"
"""`JobSpec.ranks_per_task` where each GPU of a worker is to have a rank of its own."""

# Kept out: "/" and ":" (folders, HDFS), spaces (the queue's file), and what shells, HTML or YARN's
# pages would take for their own.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,@~-]{0,63}")
_ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_MOST_RETRIES = 1000
# Launchers that start a process for each GPU by themselves.
_LAUNCHER = re.compile(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate\s+launch|accelerate\.commands"
    r"|deepspeed|horovodrun|mpirun|mpiexec)\b"
)
_KIND_WORDS = {int: "whole number", bool: "truth value", str: "text"}

FLOW_MARK = "SUBMARINE_FLOW"
"""The variable of a node's job that says of which flow, run, node and try it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionInfo:
    """The option of ``job run`` that gives a field its value; declared there, and nowhere else.

    The option of the terminal and of the magics, Zeppelin's properties, the keyword of `launch`,
    help and completion are made of it, see `submarine_engine.command.options`. It is plain data, so
    that a `launch` loads no command line.

    Parameters
    ----------
    kind
        What its value is, by its name in `submarine_engine.command.options.KINDS`.
    help
        One sentence.
    group
        The heading that help lists it under.
    name
        As it is written, without dashes; as the field where empty.
    short
        One letter that means the same.
    repeat
        Whether it may be given more than once.
    keyword
        Whether it is a keyword of `launch` and `submit`, too.
    choices
        The only values there are; any where empty.
    passed_over
        Whether a cluster that does not know it takes the job all the same: it says how the job is
        run, and nothing of what the job does.
    """

    kind: str
    help: str
    group: str
    name: str = ""
    short: str = ""
    repeat: bool = False
    keyword: bool = True
    choices: tuple[str, ...] = ()
    passed_over: bool = False

    def check(self, value: object) -> None:
        """Refuse a value that the option cannot have.

        Parameters
        ----------
        value
            As `JobSpec.options` has it.

        Raises
        ------
        CommandError
            It is none of the choices, or of another type.
        """
        right = {"count": int, "memory": int, "switch": bool}.get(self.kind, str)
        if not isinstance(value, right) or (isinstance(value, bool) and right is not bool):
            raise CommandError(
                f"{self.name}={value!r} is no {_KIND_WORDS[right]}", where=f"--{self.name}"
            )
        if self.choices and value not in self.choices:
            raise CommandError(
                f"there is no {self.name.replace('_', ' ')} {value!r}",
                fix=f"write --{self.name} {', '.join(self.choices[:-1])} or {self.choices[-1]}",
            )


JOB_GROUP = "The job"
RESOURCES_GROUP = "Resources of each worker"
HOW_GROUP = "How to run it"


def _option(
    kind: str,
    help: str,  # noqa: A002 - as it is called everywhere
    group: str = JOB_GROUP,
    **more: Any,  # noqa: ANN401 - of `OptionInfo`
) -> dict[str, OptionInfo]:
    """Return the metadata of a field whose value an option gives."""
    return {"option": OptionInfo(kind=kind, help=help, group=group, **more)}


def options_of(kind: type) -> Iterator[tuple[str, OptionInfo]]:
    """Yield the fields of `JobSpec` or `Resources` that options give their values, with these.

    Parameters
    ----------
    kind
        `JobSpec` or `Resources`.
    """
    for each in fields(kind):
        if said := each.metadata.get("option"):
            yield each.name, said if said.name else replace(said, name=each.name)


def _to_json(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


class JobState(str, Enum):
    """Where a job is in its life; the last four are final."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether a job in this state will never change again."""
        return self in _FINAL_JOB_STATES


_FINAL_JOB_STATES = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST}
)


class TaskState(str, Enum):
    """Where one task (a numbered member of a role) is in its life."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"

    @property
    def final(self) -> bool:
        """Whether a task in this state will never change again."""
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one container gets.

    Parameters
    ----------
    gpus
        Number of GPUs; None leaves the choice to the cluster (one where there is one, else none).
    memory
        Mebibytes; None leaves the choice to the cluster.
    vcores
        Virtual cores; None leaves the choice to the cluster.

    Raises
    ------
    CommandError
        A number is negative, or memory or vcores is zero.
    """

    gpus: int | None = field(
        default=None,
        metadata=_option(
            "count",
            "GPUs; one where the cluster has any, unless given. 0 for none.",
            RESOURCES_GROUP,
        ),
    )
    memory: int | None = field(
        default=None,
        metadata=_option("memory", "Memory: 8G, 512M, or a number of mebibytes.", RESOURCES_GROUP),
    )
    vcores: int | None = field(
        default=None, metadata=_option("count", "Virtual cores.", RESOURCES_GROUP, name="cpus")
    )

    def __post_init__(self) -> None:
        for name, least in (("gpus", 0), ("memory", 1), ("vcores", 1)):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise CommandError(
                    f"{name}={value!r} is not possible: it must be a whole number, {least} or more",
                    fix=f"leave {name} out for the cluster's default",
                )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: ``{"gpus", "memory", "vcores"}``, null where left open."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Resources:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.
        """
        return cls(gpus=data["gpus"], memory=data["memory"], vcores=data["vcores"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A set of like tasks: their count, the resources of each, and what they run.

    Parameters
    ----------
    name
        One of `ROLE_NAMES`.
    count
        Number of tasks, 1 or more.
    command
        A shell command line to run in the bundle's folder; None runs the bundle's entry script.
    args
        Arguments of the entry script (its ``sys.argv[1:]``); none go with a command.
    least
        With how many tasks it may begin where there is no room for `count`; of workers alone. None
        for no fewer.
    """

    name: str = "worker"
    count: int = 1
    resources: Resources = field(default_factory=Resources)
    command: str | None = None
    args: tuple[str, ...] = ()
    least: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ROLE_NAMES:
            raise CommandError(
                f"there is no role {self.name!r}", fix=f"roles are {', '.join(ROLE_NAMES)}"
            )
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise CommandError(
                f"role {self.name} cannot have {self.count!r} tasks", fix="ask for 1 or more"
            )
        if self.name == "chief" and self.count > 1:
            raise CommandError(f"a job has one chief, not {self.count}", fix="write --num_chief 1")
        if self.least is not None:
            self._check_least(self.least)
        if self.command is not None and not self.command.strip():
            raise CommandError(
                f"the launch command of role {self.name} is empty",
                fix="leave it out to run the script",
            )
        if self.command is not None and self.args:
            raise CommandError(
                f"the launch command of role {self.name} runs in place of the script, which the "
                "arguments are for",
                fix="write them into the command",
            )

    def _check_least(self, least: object) -> None:
        if self.name != "worker":
            raise CommandError(
                f"the number of {self.name} tasks cannot change: the workers' alone can",
                fix=f"give one number for {self.name}",
            )
        if isinstance(least, bool) or not isinstance(least, int) or not 0 < least < self.count:
            raise CommandError(
                f"{least!r} to {self.count} workers is not possible: the first number is the"
                " fewest, 1 or more, and the second is larger",
                fix="write for example 2:4",
            )

    @property
    def usual_gpus(self) -> int:
        """GPUs of each task where they are left open, on a cluster that has any."""
        return 0 if self.name in _WITHOUT_GPU else 1

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of this role's tasks: ``worker-0``, ``worker-1``, …."""
        return tuple(f"{self.name}-{index}" for index in range(self.count))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {each.name: _to_json(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Role:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.
        """
        return cls(
            name=data["name"],
            count=data["count"],
            resources=Resources.from_json(data["resources"]),
            command=data["command"],
            args=tuple(data.get("args", ())),
            least=data.get("least"),
        )


def _of_ranks(worker: Role) -> Role:
    """Return a worker's role with a task for each of its GPUs."""
    asked = worker.resources
    ranks = asked.gpus or 1
    memory, vcores = asked.memory, asked.vcores
    shared = Resources(
        gpus=1,
        memory=memory and max(1, memory // ranks),
        vcores=vcores and max(1, vcores // ranks),
    )
    least = worker.least and worker.least * ranks
    return replace(worker, count=worker.count * ranks, least=least, resources=shared)


def _check_ranks(roles: tuple[Role, ...]) -> None:
    """Refuse a rank for each GPU where that means nothing."""
    where = "--ranks_per_task gpu"
    by_name = {role.name: role for role in roles}
    worker, chief = by_name.get("worker"), by_name.get("chief")
    if worker is None or not worker.resources.gpus:
        raise CommandError(
            "a rank for each GPU of a worker, and no worker is said to have any",
            where=where,
            fix="say how many GPUs each worker has (--gpus 4), or leave --ranks_per_task out",
        )
    if chief is not None and (chief.resources.gpus or 0) > 1:
        raise CommandError(
            f"a chief is one rank, and is to have {chief.resources.gpus} GPUs",
            where=where,
            fix="give it one (--chief_resources gpu=1), or leave the chief out: a worker is rank 0",
        )
    if worker.command and (found := _LAUNCHER.search(worker.command)):
        raise CommandError(
            f"{found[0]} starts a process for each GPU of its task by itself",
            where=where,
            fix="leave --ranks_per_task out, or launch the program itself: python train.py",
        )


def _check_retries(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_RETRIES:
        raise CommandError(
            f"retries={value!r} is not possible: it must be a whole number from 0 to"
            f" {_MOST_RETRIES}",
            fix="leave retries out for a job whose code may run once only",
        )


def _check_time_limit(value: object) -> None:
    right = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not right or not 0 < value < math.inf:  # type: ignore[operator] # NaN fails, too
        raise CommandError(
            f"time_limit={value!r} is not possible: it must be a length of time",
            fix="write for example 2h, 90m or 1d, or seconds",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What to run, with which GPUs; says nothing of where.

    Parameters
    ----------
    name
        For people: ASCII letters, digits and ``. _ - = + , @ ~``, 64 at most. Need not be unique.
    roles
        At least one; each role name once.
    queue, docker_image
        The cluster's queue and container image; None for the cluster's default.
    input_path, checkpoint_path
        Where data is read from and checkpoints are kept; the training code reads them from
        ``SUBMARINE_INPUT_PATH`` and ``SUBMARINE_CHECKPOINT_PATH``.
    framework
        Whose variables tell several tasks of each other: a framework's; all for ``auto``.
    ranks_per_task
        ``gpu`` for a rank for each GPU of a worker, see `each_rank_a_task`; else ``1``.
    tensorboard
        Whether to run TensorBoard beside the job.
    quicklinks
        Links that the job card shows, ``(label, url)``.
    env
        Environment variables of every task.
    secrets
        Names of those whose values are on no record, see `submarine_engine.secret_values`.
    outputs
        Names of variables of the script to bring back besides the result; `NO_OUTPUTS` for none.
    retries
        How often the job is begun again where its code fails. Given, 0 too, it is also begun again
        where the cluster ends it, which does not count; its code runs once unless given.
    time_limit
        Seconds from the first start of its code, after which it is asked to end.
    hang_after
        Seconds without a sign of life after which a job of several tasks is said to hang; 0 for
        never, ten minutes unless given.
    idle
        Seconds for which its GPUs may do nothing, after which its model is saved and it is asked to
        end; 0 for any time, None takes the configured one.
    grace
        Seconds from SIGTERM to SIGKILL; None takes the configured ones, and more where the job's
        loop of steps needs more, see `lifecycle.grace_for`.
    notebook
        The notebook that the job was submitted from, for people.
    post_mortem
        ``on`` to keep what the frames of a failed job held, for `job debug`; else ``off``.
    notify
        Who is told when the job has ended, see `submarine_engine.webhooks`; None for the setting's.
        In JSON an address is its reference.
    options
        Values of the options that only one cluster knows, by name, as `submarine_engine.declared`
        has them. Which there are, and what they may be, is for the cluster to check.
    asks
        Whether whoever submits the job waits for it and answers what its code asks.
    parent
        The job that this one works for, see `submarine_engine.pool`: lists show that one alone.
    chosen
        Which cluster was chosen for it among several, and why, in words; None where it was named.
    workers_on
        The cluster of the jobs that work for this one, where that is another than its own.
    serves
        What the job is there for where it is no computation: ``notebook``, ``kernel`` (see
        `submarine_engine.notebooks`); None for all others.

    Raises
    ------
    CommandError
        A field is not valid; the message names it and the way out.
    """

    name: str = field(
        default="job",
        metadata=_option(
            "name", "What people call the job; from the script, cell or notebook unless given."
        ),
    )
    roles: tuple[Role, ...] = (Role(),)
    queue: str | None = field(default=None, metadata=_option("name", "The cluster's queue."))
    docker_image: str | None = field(
        default=None,
        metadata=_option(
            "name", "The image that containers start from, on clusters that have containers."
        ),
    )
    input_path: str | None = field(
        default=None,
        metadata=_option("path", "Where the data is; the code finds it in SUBMARINE_INPUT_PATH."),
    )
    checkpoint_path: str | None = field(
        default=None,
        metadata=_option(
            "path", "Where checkpoints are kept; the code finds it in SUBMARINE_CHECKPOINT_PATH."
        ),
    )
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata=_option(
            "setting", "An environment variable of every task; repeat it for more.", repeat=True
        ),
    )
    secrets: tuple[str, ...] = field(
        default=(),
        metadata=_option(
            "secret",
            "A secret of the environment or the keyring, by its name: a variable of every task, on "
            "no record; repeat it for more.",
            name="secret",
            repeat=True,
        ),
    )
    framework: str = field(
        default=AUTO,
        metadata=_option(
            "name",
            "Whose variables tell several tasks of each other: one framework's, all (auto), none.",
            choices=FRAMEWORKS,
        ),
    )
    ranks_per_task: str = field(
        default="1",
        metadata=_option(
            "name",
            "Ranks in each worker: 1 (unless given), or gpu for one for each of its GPUs.",
            HOW_GROUP,
            choices=("1", RANK_EACH_GPU),
        ),
    )
    tensorboard: bool = field(
        default=False, metadata=_option("switch", "Run TensorBoard beside the job.", keyword=False)
    )
    quicklinks: tuple[tuple[str, str], ...] = field(
        default=(),
        metadata=_option(
            "link",
            "A link that the job card shows; repeat it for more.",
            name="quicklink",
            repeat=True,
            keyword=False,
        ),
    )
    outputs: tuple[str, ...] = field(
        default=(),
        metadata=_option(
            "variable",
            "Variables of the script to bring back: history, or model,history; or none.",
            HOW_GROUP,
            name="output",
            short="o",
            repeat=True,
            keyword=False,
        ),
    )
    retries: int | None = field(
        default=None,
        metadata=_option(
            "count",
            "Begin the job again if its code fails, so often at most; what the cluster ends is "
            "begun again without counting. Its code runs once unless given.",
            HOW_GROUP,
        ),
    )
    time_limit: float | None = field(
        default=None,
        metadata=_option(
            "duration",
            "End the job that long after its code began, all attempts together: 2h, 90m, 1d.",
            HOW_GROUP,
        ),
    )
    hang_after: float | None = field(
        default=None,
        metadata=_option(
            "duration",
            "Say where the tasks stand after that long without a sign of life from any: 10m unless "
            "given, 0 for never. The job goes on.",
            HOW_GROUP,
        ),
    )
    idle: float | None = field(
        default=None,
        metadata=_option(
            "duration",
            "Save the model and end the job once its GPUs did nothing for that long: 10m, 2h; "
            "0 for never, where a default is configured.",
            HOW_GROUP,
        ),
    )
    grace: float | None = field(
        default=None,
        metadata=_option(
            "duration",
            "How long a job that is asked to end has for that: what a step and a checkpoint take, "
            "5s at least and 60s at most, unless given.",
            HOW_GROUP,
        ),
    )
    post_mortem: str = field(
        default="on",
        metadata=_option(
            "name",
            "Whether what its frames held is kept where the job fails, for `job debug`: on (unless "
            "given) or off.",
            HOW_GROUP,
            choices=("on", "off"),
        ),
    )
    notify: str | None = field(
        default=None,
        repr=False,  # it may be an address, which is a secret
        metadata=_option(
            "webhook",
            "Who is told when the job has ended: a webhook's address, or the name of a secret that "
            "holds one; none for nobody, whatever is configured.",
            HOW_GROUP,
        ),
    )
    options: Mapping[str, Any] = field(default_factory=dict)
    notebook: str | None = None
    asks: bool = False
    parent: str | None = None
    serves: str | None = None
    chosen: str | None = None
    workers_on: str | None = None

    def __post_init__(self) -> None:  # noqa: C901, PLR0912 - one check after another
        if not _NAME.fullmatch(self.name):
            raise CommandError(
                f"{self.name!r} cannot name a job",
                fix="use letters, digits and . _ - = + , @ ~, 64 at most, a letter or digit first",
            )
        names = [role.name for role in self.roles]
        if not names or len(set(names)) != len(names):
            raise CommandError(
                f"a job needs each role once, not {names}", fix="name each role once"
            )
        if not {"chief", "worker"} & set(names):
            raise CommandError(
                f"nobody works in a job of {', '.join(names)} alone: they serve workers until these"
                " are through",
                fix="add a worker: --num_workers 1",
            )
        for key in self.env:
            if not _ENV_KEY.fullmatch(key):
                raise CommandError(
                    f"{key!r} cannot name an environment variable", fix="write --env KEY=VALUE"
                )
        for name, option in options_of(JobSpec):
            if option.choices and (value := getattr(self, name)) is not None:
                option.check(value)
        if self.ranks_per_task == RANK_EACH_GPU:
            _check_ranks(self.roles)
        for name in self.secrets:
            if not _ENV_KEY.fullmatch(name):
                raise CommandError(
                    "what --secret was given is no name of an environment variable",
                    fix="write --secret NAME; its value comes from the environment or the keyring",
                )
        if twice := set(self.secrets) & set(self.env):
            raise CommandError(
                f"{min(twice)} is given by --secret and by --env", fix="leave --env out"
            )
        for output in self.outputs:
            if not _IDENTIFIER.fullmatch(output):
                raise CommandError(f"{output!r} cannot name a variable", fix="write -o NAME")
        if self.retries is not None:
            _check_retries(self.retries)
        if self.time_limit is not None:
            _check_time_limit(self.time_limit)
        if self.hang_after is not None and not 0 <= self.hang_after < math.inf:
            raise CommandError(
                f"hang_after={self.hang_after!r} is not possible: it must be a length of time",
                fix="write for example 10m, or 0 for never",
            )
        if self.idle is not None and not 0 <= self.idle < math.inf:
            raise CommandError(
                f"idle={self.idle!r} is not possible: it must be a length of time",
                fix="write for example 10m, or 0 for never",
            )
        if self.grace is not None and not 0 <= self.grace < math.inf:
            raise CommandError(
                f"grace={self.grace!r} is not possible: it must be a length of time",
                fix="write for example 30s, or 0 to end the job at once",
            )
        if self.notify is not None:
            webhooks.check(self.notify)
        for label, url in self.quicklinks:
            if not label or not url.startswith(("http://", "https://")):
                raise CommandError(
                    f"quicklink {label}={url} is not a web address",
                    fix="write --quicklink NAME=https://…",
                )

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of all tasks, role by role."""
        return tuple(task for role in self.roles for task in role.tasks)

    def each_rank_a_task(self) -> JobSpec:
        """Return the same job with a task of one GPU for each rank, as clusters run it.

        A worker's memory and virtual cores are shared out evenly among its ranks.
        """
        if self.ranks_per_task != RANK_EACH_GPU:
            return self
        roles = tuple(_of_ranks(role) if role.name == "worker" else role for role in self.roles)
        return replace(self, roles=roles, ranks_per_task="1")

    @property
    def gpus(self) -> int | None:
        """GPUs of all tasks together; None while any role leaves it open."""
        if any(role.resources.gpus is None for role in self.roles):
            return None
        return sum(role.count * (role.resources.gpus or 0) for role in self.roles)

    @property
    def elastic(self) -> Role | None:
        """The workers where their number may change from one attempt to the next, else None."""
        return next((role for role in self.roles if role.least is not None), None)

    @property
    def smallest(self) -> JobSpec:
        """The job with the fewest workers that it may begin with; itself where that is fixed."""
        return self if (role := self.elastic) is None else self.sized(role.least or 1)

    @property
    def tries(self) -> int | None:
        """As `retries`; 0 unless given where the number of workers may change."""
        return 0 if self.retries is None and self.elastic is not None else self.retries

    def sized(self, workers: int) -> JobSpec:
        """Return the job with that many workers, no fewer and no more.

        Parameters
        ----------
        workers
            How many.
        """
        roles = (
            replace(role, count=workers, least=None) if role.name == "worker" else role
            for role in self.roles
        )
        return replace(self, roles=tuple(roles))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with ``"version"``."""
        values = {each.name: _to_json(getattr(self, each.name)) for each in fields(self)}
        notify = None if self.notify is None else webhooks.reference(self.notify)
        return {"version": SPEC_VERSION, **values, "notify": notify}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobSpec:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.

        Raises
        ------
        CommandError
            The version is unknown, or a field is not valid.
        """
        if data.get("version") != SPEC_VERSION:
            raise CommandError(
                f"a job spec of version {data.get('version')!r} cannot be read",
                fix=f"this release reads version {SPEC_VERSION}: upgrade submarine-notebook",
            )
        names = {each.name for each in fields(cls)}
        given = {key: value for key, value in data.items() if key in names}
        given["roles"] = tuple(Role.from_json(role) for role in given["roles"])
        given["quicklinks"] = tuple((label, url) for label, url in given["quicklinks"])
        given["outputs"] = tuple(given["outputs"])
        given["secrets"] = tuple(given.get("secrets", ()))
        # What clusters declare by now had a field each, which was null where it was not given.
        former = {k: v for k, v in data.items() if k not in {"version", *names} and v is not None}
        given["options"] = {**former, **given.get("options", {})}
        return cls(**given)
