"""Every option, once: its name, what its value is, and its help.

Options that say what a job is are declared by `JobSpec` and `Resources`, beside the fields that
they give a value; those that only one cluster knows by that cluster; the others here. ``job run``
is Hadoop Submarine's own (the names with underscores are from the Quick Start Guide of
``hadoop-yarn-submarine`` 3.2), with short forms for people.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from submarine_engine.command import values
from submarine_engine.declared import job_options
from submarine_engine.errors import CommandError
from submarine_engine.job import (
    HOW_GROUP,
    JOB_GROUP,
    RESOURCES_GROUP,
    JobSpec,
    OptionInfo,
    Resources,
    options_of,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

TERMINAL = "terminal"
NOTEBOOK = "notebook"
EVERYWHERE = frozenset({TERMINAL, NOTEBOOK})
IN_TERMINAL = frozenset({TERMINAL})
IN_NOTEBOOK = frozenset({NOTEBOOK})


@dataclass(frozen=True, slots=True)
class Front:
    """Who asks; the ``obj`` of every click context.

    Parameters
    ----------
    surface
        ``terminal`` or ``notebook``; None where what has a meaning in either is taken.
    jobs
        Gives ids and names of jobs, for completion.
    """

    surface: str | None = None
    jobs: Callable[[], Iterable[str]] = tuple

    def sees(self, what: Any) -> bool:  # noqa: ANN401 - a verb, an option or an argument
        """Return whether `what`, a verb or a parameter of one, has a meaning here."""
        return self.surface is None or self.surface in what.surfaces


class Kind(click.ParamType):  # type: ignore[type-arg] # older clicks know no argument
    """A kind of value.

    Parameters
    ----------
    name
        What stands for the value in help.
    read
        Text to value; raises `CommandError`.
    candidates
        For completion: what may stand in place of a text; None where anything may.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[str], Any] = values.read_text,
        candidates: Callable[[Front, str], Iterable[str]] | None = None,
    ) -> None:
        self.name = name
        self.read = read
        self.candidates = candidates

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        """Read a value; an error says of which option and verb."""
        try:
            return self.read(value)
        except CommandError as error:
            what = f"{param.flag}: {error.what}" if isinstance(param, Parameter) else error.what
            where = getattr(ctx and ctx.command, "text", "")
            raise CommandError(what, where=where, fix=error.fix) from error

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - as click has it
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return what may stand in place of `incomplete`."""
        return items(self.candidates(ctx.obj, incomplete) if self.candidates else ())


def items(words: Iterable[str]) -> list[CompletionItem]:
    """Return `words` as click completes them."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only completion needs it

    return [CompletionItem(word) for word in words]


def starting(words: Iterable[str], incomplete: str) -> list[str]:
    """Return those of `words` that begin with `incomplete`; dashes and underscores are the same."""
    folded = incomplete.replace("_", "-")
    return [word for word in dict.fromkeys(words) if word.replace("_", "-").startswith(folded)]


def _clusters(_: Front, text: str) -> list[str]:
    from submarine_engine.clusters import cluster_choices  # noqa: PLC0415 - searches packages

    return starting(cluster_choices(), text)


def _resources(_: Front, text: str) -> list[str]:
    done, comma, last = text.rpartition(",")
    return [done + comma + each for each in starting(("memory=", "vcores=", "gpu="), last)]


def _paths(_: Front, text: str) -> list[str]:
    folder, _slash, name = text.rpartition("/")
    base = f"{folder}/" if "/" in text else ""
    try:
        found = sorted(os.scandir(Path(base or ".").expanduser()), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        base + entry.name + ("/" if entry.is_dir() else "")
        for entry in found
        if entry.name.startswith(name) and (name or not entry.name.startswith("."))
    ]


NAME = Kind("NAME")
PATH = Kind("PATH", candidates=_paths)
COMMAND = Kind("COMMAND")
COUNT = Kind("N", values.read_count)
WORKERS = Kind("N", values.read_workers)
GANG = Kind("WHICH", values.read_gang, lambda _, text: starting(values.GANGS, text))
CONDITION = Kind("WHEN", values.read_condition, lambda _, text: starting(values.CONDITIONS, text))
BY = Kind("WHAT", values.read_by, lambda _, text: starting(values.USAGE_BY, text))
BYTES = Kind("BYTES", values.read_count)
SIZE = Kind("SIZE", values.read_size)
SECONDS = Kind("SECONDS", values.read_seconds)
RESOURCES = Kind("LIST", values.read_resources, _resources)
CLUSTER_NAME = Kind("CLUSTER", candidates=_clusters)
JOB = Kind("JOB", candidates=lambda front, text: starting(front.jobs(), text))
TASK = Kind("TASK", candidates=lambda _, text: starting(("all", "first", "worker-"), text))
PORTS = Kind("PORT[:LOCAL]", values.read_ports)
SWITCH = Kind("")
"""A flag that may also be written ``--flag true``, ``--flag false`` and ``--no-flag``."""

KINDS = {
    "name": NAME,
    "path": PATH,
    "count": COUNT,
    "memory": Kind("SIZE", values.read_memory),
    "duration": Kind("TIME", values.read_seconds),
    "setting": Kind("KEY=VALUE", values.read_pair),
    "link": Kind("NAME=URL", values.read_pair),
    "secret": NAME,
    "webhook": Kind("URL"),
    "variable": NAME,
    "switch": SWITCH,
}
"""The kinds that `OptionInfo.kind` names."""


class Parameter:
    """What options and arguments have in common."""

    flag: str
    surfaces: frozenset[str]


class Option(click.Option, Parameter):
    """One option of a verb.

    Parameters
    ----------
    name
        As help writes it, without the leading dashes; dashes and underscores mean the same.
    kind
        What its value is; None for a flag.
    help
        What the verb's help says of it.
    short
        One letter that means the same.
    repeat
        Whether it may be given more than once; its value is a tuple then.
    names
        Its value is one name or more: ``-o a,b``, and in a notebook ``-o a b`` too, where no other
        words can follow.
    group
        The heading that help lists it under.
    surfaces
        Where it has a meaning.
    refused
        Why this release cannot do it, and the way out; empty for an option that works.
    against
        The option that it contradicts, by its key.
    choices
        The only values there are, for completion.
    clusters
        The clusters that it has a meaning on; all where empty.
    meant_by
        What people write for it: an unknown option of that name is answered with this one.
    """

    def __init__(  # noqa: PLR0913 - a declaration, each part by its name
        self,
        name: str,
        kind: Kind | None,
        help: str,  # noqa: A002 - as click has it
        *,
        short: str = "",
        repeat: bool = False,
        names: bool = False,
        group: str = "Options",
        surfaces: frozenset[str] = EVERYWHERE,
        refused: tuple[str, str] | tuple[()] = (),
        against: str = "",
        choices: Sequence[str] = (),
        clusters: Sequence[str] = (),
        meant_by: Sequence[str] = (),
    ) -> None:
        self.flag = f"--{name}" if len(name) > 1 else f"-{name}"
        self.key = name.replace("-", "_")
        self.switch = kind is SWITCH
        spelled = dict.fromkeys((self.flag, f"--{self.key}", f"--{self.key.replace('_', '-')}"))
        if self.switch:
            spelled = {f"{self.flag}/--no-{name}": None}
        elif len(name) == 1:
            spelled = {self.flag: None}
        flag = kind is None or self.switch
        super().__init__(
            [self.key, *spelled, *([f"-{short}"] if short else ())],
            type=None if flag else kind,
            is_flag=flag or None,  # False would let a value be left out
            multiple=repeat,
            help=help,
            hidden=bool(refused),
        )
        self.kind = kind
        self.short = short
        self.names = names
        self.group = group
        self.surfaces = surfaces
        self.refused = refused
        self.against = against
        self.choices = choices
        self.clusters = clusters
        self.meant_by = meant_by

    @classmethod
    def of(cls, said: OptionInfo, clusters: Sequence[str] = ()) -> Option:
        """Return the option that a field of `JobSpec` or `Resources` declares, or clusters do."""
        text = said.help
        if clusters:
            text = f"On {' and '.join(clusters)}: {text[0].lower()}{text[1:]}"
        return cls(
            said.name,
            KINDS[said.kind],
            text,
            short=said.short,
            repeat=said.repeat,
            names=said.kind == "variable",
            group=said.group,
            choices=said.choices,
            clusters=clusters,
        )

    @property
    def signature(self) -> str:
        """How it is written: ``-o, --output NAME``."""
        text = f"-{self.short}, {self.flag}" if self.short else self.flag
        return f"{text} {self.kind.name}" if self.kind and self.kind.name else text

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what its value may be."""
        if self.choices:
            return items(starting(self.choices, incomplete))
        return super().shell_complete(ctx, incomplete)


class Argument(click.Argument, Parameter):
    """A word of a verb that is no option.

    Parameters
    ----------
    name
        Its key; help writes it in capitals.
    kind
        What its value is.
    help
        What the verb's help says of it.
    required
        Whether the verb makes no sense without it.
    repeat
        Whether several may be given; its value is a tuple then.
    surfaces
        Where it has a meaning.
    """

    def __init__(  # noqa: PLR0913 - a declaration, each part by its name
        self,
        name: str,
        kind: Kind,
        help: str,  # noqa: A002 - as for options
        *,
        required: bool = True,
        repeat: bool = False,
        surfaces: frozenset[str] = EVERYWHERE,
    ) -> None:
        super().__init__([name], type=kind, required=required, nargs=-1 if repeat else 1)
        self.help = help
        self.flag = name.upper()
        self.surfaces = surfaces


def find(name: str, options: Iterable[Option]) -> Option | None:
    """Return the option that a word means, None if there is none such.

    One dash or two, dashes or underscores within, it is the same; one letter may be a short form.

    Parameters
    ----------
    name
        As typed, with its dashes and without a value: ``--num-workers``, ``-o``.
    options
        Those that there are; the first that fits is returned.
    """
    bare = name.lstrip("-")
    if len(bare) == 1 and not name.startswith("--"):
        return next((option for option in options if bare in (option.short, option.key)), None)
    key = bare.replace("-", "_")
    for option in options:
        if option.key == key or (option.switch and f"no_{option.key}" == key):
            return option
    return None


_COMMON = "Everywhere"
_ROLES = "Roles"
_SWEEPS = "Sweeps and maps"

HELP = Option("help", None, "Show the help of the verb.", short="h", group=_COMMON)
JSON = Option(
    "json",
    None,
    "Write JSON for programs: one object a line.",
    group=_COMMON,
    surfaces=IN_TERMINAL,
)
VERBOSE = Option(
    "verbose", None, "Show the traceback of an error too.", group=_COMMON, surfaces=IN_TERMINAL
)
COMMON = (HELP, JSON, VERBOSE)

LOGS = Option(
    "logs",
    TASK,
    "Whose log is shown, of several tasks: first (rank 0, unless given), all, or worker-2.",
    group=HOW_GROUP,
    meant_by=("task", "rank"),
)

CLUSTER = Option(
    "cluster",
    CLUSTER_NAME,
    "The cluster to ask; the configuration's `cluster` unless given; any for the first of "
    "several whose GPUs are free.",
    group=JOB_GROUP,
)


def of_clusters(*, search: bool = True) -> list[Option]:
    """Return the options of ``job run`` that only some clusters know.

    Parameters
    ----------
    search
        Whether to look for those of clusters that do not come with Submarine, too.
    """
    return [Option.of(said, clusters) for said, clusters in job_options(search=search)]


OTHER_ROLES = {"ps": "parameter server", "chief": "chief", "evaluator": "evaluator"}
"""Roles beside the workers, and what one of their tasks is called."""


def _of_role(name: str, called: str) -> tuple[Option, ...]:
    return (
        Option(f"num_{name}", COUNT, f"Number of {called}s; 0 unless given.", group=_ROLES),
        Option(f"{name}_resources", RESOURCES, f"Resources of each {called}: memory=4G,vcores=1.",
            group=_ROLES),
        Option(f"{name}_launch_cmd", COMMAND,
            f"A shell command to run in each {called} in place of the script.", group=_ROLES),
    )  # fmt: skip


_flow = partial(Option, group="In a flow", surfaces=IN_NOTEBOOK)
FLOW = (
    _flow("after", NAME,
        "The cell follows the one of that --name; a notebook waits for the job of that name.",
        repeat=True),
    _flow("condition", CONDITION,
        "When it runs, by how those ended: all_success (unless given), all_done, one_failed."),
)  # fmt: skip
_name, *_of_spec = [
    *(Option.of(said) for _, said in options_of(JobSpec)),
    *of_clusters(search=False),
]
_sweep = partial(Option, group=_SWEEPS, surfaces=IN_NOTEBOOK)
SWEEP = (
    _sweep("sweep", COMMAND,
        "Search: run the cell with many values of names that it reads: rate=loguniform(1e-4, 1)."),
    _sweep("map", COMMAND,
        "Run the cell once for each file, whose path is the name: files=data/*.csv."),
    _sweep("trials", COUNT, "How many times."),
    _sweep("minimize", NAME, "What is reported, returned or bound, and to be small: loss."),
    _sweep("maximize", NAME, "What is to be large: accuracy."),
    _sweep("sampler", NAME, "How values are chosen: tpe, random, grid, cmaes, nsgaii."),
    _sweep("pruner", NAME, "When a trial is given up: median, halving, hyperband, none."),
    _sweep("seed", COUNT, "The same one chooses the same values."),
    _sweep("max_gpus", COUNT, "The most GPUs that all trials or calls hold together."),
    _sweep("min_gpus", COUNT, "How many they keep while other jobs wait; 1 unless given."),
    _sweep("metric_from_log", None, "Read values from lines like loss: 0.12 in the log."),
)  # fmt: skip
RUN = (
    _name,
    CLUSTER,
    *(option for option in _of_spec if option.group == JOB_GROUP),
    *(Option.of(said) for _, said in options_of(Resources)),
    Option("worker_resources", RESOURCES, "All three in one: memory=8G,vcores=2,gpu=2.",
        group=RESOURCES_GROUP),
    Option("num_workers", WORKERS,
        "Number of workers, 1 unless given; 2:4 begins with 2 where 4 are not free, with 4 later.",
        group=_ROLES),
    Option("gang", GANG,
        "Whether all workers begin together (all), or as many as there is room for (none).",
        group=_ROLES),
    Option("worker_launch_cmd", COMMAND,
        "A shell command to run in each worker in place of the script.", group=_ROLES),
    *(each for name, called in OTHER_ROLES.items() for each in _of_role(name, called)),
    *(option for option in _of_spec if option.group == HOW_GROUP),
    Option("detach", None, "Return at once; the job goes on by itself.", group=HOW_GROUP),
    Option("wait_job_finish", None,
        "Wait for the job to end. It is what happens without --detach anyway.", group=HOW_GROUP,
        against="detach"),
    LOGS,
    Option("cache", SWITCH,
        "Take an earlier job's result at once where nothing has changed that it depends on.",
        group=HOW_GROUP),
    Option("refresh", None, "With --cache: run it in any case, and remember the new result.",
        group=HOW_GROUP),
    Option("dry-run", None, "Show the script and what would be asked for; ask for nothing.",
        group=HOW_GROUP),
    Option("capture-limit", SIZE,
        "The most that values captured from the notebook may take; 64M unless configured.",
        group=HOW_GROUP, surfaces=IN_NOTEBOOK),
    *FLOW,
    *SWEEP,
)  # fmt: skip


_SERVED = {
    "name", "cluster", "queue", "docker_image", "env", "secret", "gpus", "memory", "cpus",
    "time_limit", "notify",
}  # fmt: skip
NOTEBOOK_SERVER = (
    Option("name", NAME, "What people call it; notebook unless given."),
    *(option for option in RUN if option.key in _SERVED - {"name"}),
    Option("idle", SECONDS,
        "End it once nobody has used it for that long: 90m; 1h unless given, 0 for never."),
    Option("dir", PATH,
        "The folder of its notebooks, which the machines of the cluster have, too. Unless given "
        "the folder that you are in, on this machine; elsewhere files come home as artifacts."),
    Option("port", COUNT, "Its port on the machine where it runs; any that is free unless given."),
    Option("within", SECONDS,
        "How long it may wait for its GPUs: 5m. Then it is cancelled; any time unless given."),
    Option("detach", None, "Return at once; do not wait until it can be used."),
)  # fmt: skip
"""What ``notebook start`` takes, besides the options of clusters."""
KERNEL = (
    *(option for option in RUN if option.key in _SERVED),
    Option("idle", SECONDS,
        "End a kernel once it was not busy for that long: 90m; 1h unless given, 0 for never."),
    Option("within", SECONDS,
        "How long a notebook that is opened waits for the kernel's GPUs; 5m unless given."),
)  # fmt: skip
"""What ``notebook kernel`` takes, likewise."""


_NOT_AGAIN = {"wait_job_finish", "cache", "refresh", "dry_run", "capture_limit"}
RERUN = tuple(
    option for option in RUN if option.key not in _NOT_AGAIN and option not in (*SWEEP, *FLOW)
)
"""What may be otherwise in a job that runs again what another one ran."""

_OF_REPLICAS = ("cluster", "gpus", "memory", "cpus", "queue", "docker_image", "env", "secret")
SERVE = (
    Option("replicas", COUNT, "How many replicas answer; 1 unless given."),
    Option("server", NAME, "What serves: mlserver, which speaks the Open Inference Protocol "
        "(unless given, where it is installed), or mlflow.", choices=("mlserver", "mlflow")),
    *(option for option in RUN if option.key in _OF_REPLICAS),
    Option("detach", None, "Return at once; without it, once all replicas are ready.",
        group=HOW_GROUP),
)  # fmt: skip
"""What may be said of the replicas of a model that is served."""


def find_of_run(name: str) -> Option | None:
    """Return the option of ``job run`` that `name` means, as `find` does, on any cluster."""
    return find(name, RUN) or find(name, of_clusters())


_ROLE = (
    "a call runs in workers alone; a cell, or a file by `submarine job run`, has other roles, too"
)
_COMMAND = "a call runs a function; `submarine job run` runs commands"
_CELL = "a cell and `submarine job run` have it"
IN_CALLS = {
    "num_workers": "write workers=…",
    "gang": "write workers=(1, 4), the fewest and the most",
    "worker_resources": "write gpus=…, memory=… and cpus=…: they are those of each worker",
    **{f"num_{name}": _ROLE for name in OTHER_ROLES},
    **{f"{name}_resources": _ROLE for name in OTHER_ROLES},
    **{f"{name}_launch_cmd": _COMMAND for name in ("worker", *OTHER_ROLES)},
    "detach": "submit() returns at once",
    "wait_job_finish": "launch() waits",
    "output": "let the function return it",
    "logs": "launch() takes it; submit() shows nothing",
    "dry_run": _CELL,
    "quicklink": _CELL,
    "tensorboard": _CELL,
    "refresh": 'write cache="refresh"',
    **{option.key: "sweep() takes it" for option in SWEEP},
    "map": "write map(function, inputs)",
    "after": "wait for the other job: job.result()",
    "condition": "look at how the other job ended: job.status().state",
    "capture_limit": "set it once: `submarine config show` says where",
}
"""What to write in `launch` and `submit` for options of ``job run`` that they do not have."""

_LEAVE = "leave it out"
_KERBEROS = ("your Kerberos ticket says who you are, see kinit", _LEAVE)
_IMAGE = ("all containers of a job start from one image", "give it by --docker_image")
_MXNET = ("there is no scheduler role for MXNet in this release", _LEAVE)
REASONS = {
    "keytab": _KERBEROS,
    "principal": _KERBEROS,
    "distribute_keytab": _KERBEROS,
    "insecure": _KERBEROS,
    "localization": ("files are not copied into containers in this release",
                     "Python files that the code imports travel by themselves; data: --input_path"),
    "worker_docker_image": _IMAGE,
    "ps_docker_image": _IMAGE,
    "tensorboard_docker_image": _IMAGE,
    "tensorboard_resources": ("TensorBoard takes no resources of its own", _LEAVE),
    "conf": ("no cluster of this release takes Hadoop's properties",
             "leave it out; Submarine's own settings: `submarine config show`"),
    "f": ("a job is not read from a YAML file", "write its options on the command line"),
    "saved_model_path": ("a model is served by a command of its own",
                         "submarine serve start PATH --name NAME, once the job has saved it"),
    "num_schedulers": _MXNET,
    "scheduler_resources": _MXNET,
    "scheduler_launch_cmd": _MXNET,
    "scheduler_docker_image": _MXNET,
}  # fmt: skip
"""Options of Hadoop Submarine that this release refuses, each with the reason and the way out.

A pasted command line is never half obeyed. The names are those of Submarine's ``job run`` (its
command line guide, release 0.5).
"""

REFUSED = tuple(
    Option(name, None, f"Refused: {why}. Instead: {way_out}.", refused=(why, way_out))
    for name, (why, way_out) in REASONS.items()
)
