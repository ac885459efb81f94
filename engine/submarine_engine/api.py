"""Jobs from plain programs: `launch` waits for the result, `submit` returns the job.

A function and its arguments become a bundle, the bundle a job; while a program waits, the job's log
is written to its own streams.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
import tokenize
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle import BuildOptions, Bundle, Cell, build_call
from submarine_engine.bundle.own_modules import set_in
from submarine_engine.clusters.choice import cluster_for, room_of
from submarine_engine.config import DEFAULT, Config, load_config
from submarine_engine.declared import Declared, declared, job_options
from submarine_engine.errors import ArgumentsError, BundleError, CommandError
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts, noted
from submarine_engine.job import RESOURCES_GROUP, JobSpec, OptionInfo, Resources, Role, options_of
from submarine_engine.logs import FIRST, PlainDisplays, Renderer, check_task, follow

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.events import Display
    from submarine_engine.lifecycle import JobStatus


# A job on the console of a plain program.


class Console(Renderer):
    """Writes a job's text to the program's own streams, and to stderr what it waits for."""

    def __init__(self) -> None:
        self.interrupts = Interrupts()
        self._cancel_asked = False
        self._waiting = ""
        self.job: Job | None = None
        self._displays = PlainDisplays()

    def status(self, status: JobStatus) -> None:
        """Say what the job waits for, when that changes."""
        if (words := waiting_words(status)) not in ("", self._waiting):
            self.note(f"waiting: {words}")
            self._waiting = words

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - told in the text
        """Write text of the job to the stream of the same name.

        Parameters
        ----------
        task
            Which task's.
        stream
            ``stdout`` or ``stderr``.
        text
            What it wrote.
        """
        first, own = (sys.stdout, sys.stderr) if stream == "stderr" else (sys.stderr, sys.stdout)
        first.flush()
        own.write(text)
        own.flush()

    def display(self, item: Display) -> None:
        """Write what the job showed, as text."""
        if text := self._displays.text(item):
            self.text(item.task, "stdout", text)

    def tick(self) -> None:
        """Cancel the job once the program was interrupted."""
        if self.interrupts.pending and self.cancel():
            self.note("cancelling … (interrupt again to leave at once)")

    def cancel(self) -> bool:
        """Ask the job to end, once; return whether it was asked now."""
        if self._cancel_asked or not self.job:
            return False
        self.job.cancel("interrupted")
        self._cancel_asked = True  # not before: an interrupt in between has it asked again
        return True

    def note(self, text: str) -> None:
        """Say something beside the job's own text."""
        job = f"job {self.job.id}: " if self.job else ""
        sys.stdout.flush()
        sys.stderr.write(f"submarine: {job}{text}\n")
        sys.stderr.flush()


def waiting_words(status: JobStatus) -> str:
    """Return what a job of `status` waits for: the cluster's words, else its place.

    Empty where it does not wait.
    """
    if status.ahead is None or status.state.final:
        return ""
    return status.waiting_reason or f"{status.ahead} ahead in the queue"


@contextmanager
def cancelling_on_interrupt(job: Job, console: Console) -> Iterator[None]:
    """Let the first interrupt cancel `job` and the second one leave.

    Parameters
    ----------
    console
        Where the job is shown: it gets the job and notes the interrupts.

    Raises
    ------
    KeyboardInterrupt
        There was one; on leaving the block.
    """
    console.job = job
    with noted(console.interrupts):
        try:
            yield
        except KeyboardInterrupt:
            console.cancel()  # the second interrupt may come before the first was taken up
            raise
    if console.interrupts.pending:
        raise KeyboardInterrupt(f"job {job.id} was cancelled")


# A function call as a job: which keywords are the job's, and what is asked for.


_WORKERS = "workers"  # not num_workers, which loaders of data take
_CACHE = "cache"
OPTIONS = (
    "cluster",
    _WORKERS,
    _CACHE,
    *(said.name for kind in (Resources, JobSpec) for _, said in options_of(kind) if said.keyword),
)
"""Keywords of `launch` and `submit` that say how the job runs, on any cluster."""


def job_keywords(cluster: object = None) -> dict[str, OptionInfo | None]:
    """Return the keywords that say how a job runs; all others are the function's.

    Parameters
    ----------
    cluster
        The job's, or its name. Keywords that only somebody else's cluster declares are its jobs'.
    """
    found: dict[str, OptionInfo | None] = dict.fromkeys(OPTIONS)
    found |= {option.name: option for option, _ in job_options() if option.keyword}
    name = getattr(cluster, "name", cluster)
    if name not in (None, *declared()):
        of_it = declared(search=True).get(str(name), Declared())
        found |= {option.name: option for option in of_it.options if option.keyword}
    return found


_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call that is ready to be submitted.

    Parameters
    ----------
    cluster
        As it was given; None for the configured one.
    logs
        Whose log `launch` shows, of several tasks: as `submarine_engine.logs.follow` has it.
    cache
        Whether its result may be remembered, ``"refresh"`` to run it in any case.
    function
        What is called, by its module and name.
    """

    spec: JobSpec
    bundle: Bundle
    cluster: Cluster | str | None
    logs: str = FIRST
    cache: bool | str = False
    function: str = ""

    def placed(
        self, default: str, tell: Callable[[str], object] | None = None
    ) -> tuple[Cluster, PreparedCall]:
        """Return where it is to run, chosen for it where it may be any of several.

        Parameters
        ----------
        default
            The name of the cluster, unless the call itself says.
        tell
            As `submarine_engine.clusters.choice.cluster_for` has it.

        Raises
        ------
        ConfigError, SubmissionError, ClusterError
            As `submarine_engine.clusters.choice.cluster_for`.
        """
        named = self.cluster or default
        if not isinstance(named, str):
            return named, self
        where, spec = cluster_for(named, self.spec, tell)
        return where, replace(self, spec=spec, cluster=where)

    def submit(self, cluster: Cluster) -> Job:
        """Submit it from here, or return the job that had its result already.

        Parameters
        ----------
        cluster
            Where it is to run.

        Raises
        ------
        SubmarineError
            As `Cluster.submit`.
        """
        here = Path.cwd()
        if not self.cache:
            return Job(cluster, cluster.submit(self.spec, self.bundle, workdir=here))
        from submarine_engine import cache  # noqa: PLC0415 - opted in to

        origin = f"{self.spec.notebook or here} {self.function}"
        caching = cache.Caching(self.cache == "refresh", origin)
        return cache.submit(cluster, self.spec, self.bundle, workdir=here, caching=caching)


def prepare_call(  # noqa: PLR0913 - as `build_call` has them, each by its name
    function: Callable[..., Any],
    args: Sequence[object],
    keywords: Mapping[str, Any],
    *,
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    build: BuildOptions,
    cluster: str | None = None,
    logs: str | None = None,
) -> PreparedCall:
    """Make spec and bundle of ``function(*args, **keywords)``; nothing is asked of a cluster.

    Parameters
    ----------
    keywords
        The function's, and the job's (`job_keywords`), as they were given.
    cluster
        The name of the cluster that the call is for, unless a keyword says.
    cells, namespace, build
        As for `submarine_engine.bundle.build`. The secrets are those of the job's option.
    logs
        As `launch` has it.

    Raises
    ------
    CommandError
        An option is not possible, or the function has a parameter of that name.
    ArgumentsError
        The function does not take these arguments.
    BundleError
        The function or what it needs cannot travel.
    """
    if not callable(function):
        raise CommandError(
            f"{function!r} is no function", fix="give the function, then its arguments: f, 1, 2"
        )
    known = job_keywords(keywords.get("cluster") or cluster)
    options = {name: keywords[name] for name in known if keywords.get(name) is not None}
    _refuse_ambiguous(function, options if logs is None else {**options, "logs": logs})
    kwargs = {name: value for name, value in keywords.items() if name not in known}
    _refuse_arguments(function, args, kwargs, known)
    of_cluster = {
        name: _value(said, options[name])
        for name, said in known.items()
        if said and options.get(name, "") != ""
    }
    for name, value in of_cluster.items():
        if said := known[name]:
            said.check(value)
    spec = replace(_spec(function, options), options=of_cluster)
    check_task(logs, [task for role in spec.roles for task in role.tasks], "logs=")
    build = replace(build, secrets=spec.secrets)
    bundle = build_call(function, args, kwargs, cells, namespace, options=build)
    spec = replace(spec, asks=build.answered)
    return PreparedCall(
        spec=spec,
        bundle=bundle,
        cluster=options.get("cluster"),
        cache=_caching(options.get(_CACHE, False)),
        function=_called(function),
        logs=logs or FIRST,
    )


def _refuse_arguments(
    function: Callable[..., Any],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    known: Collection[str],
) -> None:
    """Refuse before a GPU is asked for what the call would refuse."""
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        return  # what else can be called tells its parameters wrongly now and then
    if hasattr(function, "__signature__"):
        return
    # What wraps a function may take other arguments than that one.
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        called = function.__name__
        names = {*known, *signature.parameters}
        unknown = [name for name in kwargs if name not in signature.parameters]
        meant = _meant(unknown[0], names) if unknown else ""
        taken = ", ".join(f"{one}" for one in signature.parameters.values())
        raise ArgumentsError(
            f"{called}() {error}", fix=f"{meant}it takes {called}({taken})"
        ) from None


def _meant(unknown: str, names: Collection[str]) -> str:
    """Return what may have been meant by a keyword; a cell's options have names of their own."""
    from submarine_engine.command.options import IN_CALLS  # noqa: PLC0415 - loads click

    if unknown in IN_CALLS:
        return f"{IN_CALLS[unknown]}; "
    near = difflib.get_close_matches(unknown, names, n=1)
    return f"did you mean {near[0]}? " if near else ""


def _refuse_ambiguous(function: Callable[..., Any], options: Mapping[str, object]) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins do not tell
        return
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in parameters:
        name = parameter.name
        if (
            name in options
            and name not in bound
            and parameter.kind
            not in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
                parameter.POSITIONAL_ONLY,
            )
        ):
            called = getattr(function, "__name__", "the function")
            raise CommandError(
                f"`{name}` is an option of the job and a parameter of {called}, too",
                where=f"{name}=…" if name == "notify" else f"{name}={options[name]!r}",
                fix=f"bind the parameter first: functools.partial({called}, {name}=…)",
            )


def _caching(value: object) -> bool | str:
    if isinstance(value, bool):
        return value
    if value == "refresh":
        return "refresh"
    raise CommandError(
        f"cache={value!r} is not possible", fix='write cache=True, or cache="refresh" to run anew'
    )


def _called(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}.{kind.__qualname__}"


def function_name(function: Callable[..., Any]) -> str:
    """Return what a job is called by its function."""
    while isinstance(function, functools.partial):
        function = function.func
    called = _NOT_IN_A_NAME.sub("-", getattr(function, "__name__", "")).strip("-._")
    return called[:64] or "job"


def _spec(function: Callable[..., Any], options: Mapping[str, Any]) -> JobSpec:
    resources = Resources(**_fields(Resources, options))
    given = {"name": function_name(function), **_fields(JobSpec, options)}
    workers = options.get(_WORKERS)
    least, count = (None, 1) if workers in (None, "") else _workers(workers)
    return JobSpec(roles=(Role(resources=resources, count=count, least=least),), **given)


def _workers(given: object) -> tuple[int | None, int]:
    """Return the fewest workers, None for no fewer, and the most."""
    if isinstance(given, (tuple, list)):
        given = ":".join(str(_number(_WORKERS, one)) for one in given)
    if isinstance(given, str) and ":" in given:
        from submarine_engine.command.values import read_workers  # noqa: PLC0415 - seldom

        found = read_workers(given)
        return found if isinstance(found, tuple) else (None, found)
    return None, _number(_WORKERS, given)


def _fields(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that keywords give a value; an empty text gives none."""
    return {
        field: _value(said, options[said.name])
        for field, said in options_of(kind)
        if said.name in options and options[said.name] != ""
    }


def _value(said: OptionInfo, value: Any) -> Any:  # noqa: ANN401 - as its kind
    if said.kind == "memory" and not isinstance(value, int):
        from submarine_engine.command.values import read_memory  # noqa: PLC0415 - seldom

        return read_memory(str(value))
    if said.kind == "duration":
        from submarine_engine.command.values import read_seconds  # noqa: PLC0415 - seldom

        return value if isinstance(value, (int, float)) else read_seconds(str(value))
    if said.kind == "webhook":  # `JobSpec` looks at it, and shows nothing of it
        return value
    if said.group == RESOURCES_GROUP:  # `Resources` looks at its own numbers
        return value
    check = {"count": _number, "setting": _environment, "secret": _names}.get(said.kind, _text)
    return check(said.name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise CommandError(f"{name}={value!r} is no text", fix=f"give {name} as a string")


def _names(name: str, value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names):
        return tuple(names)
    # What it is may be a secret by mistake: it is not shown.
    raise CommandError(
        f"{name} is no list of names", fix=f'write {name}="NAME" or {name}=["A", "B"]'
    )


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise CommandError(f"{name}={value!r} is no whole number", fix=f"give {name} as 0, 1, 2, …")


def _environment(name: str, value: object) -> dict[str, str]:
    fix = f'write {name}={{"KEY": "VALUE"}}'
    if not isinstance(value, Mapping):
        raise CommandError(f"{name}={value!r} is no mapping", fix=fix)
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise CommandError(f"{name}={{{key!r}: {text!r}}} is no text", fix=fix)
    return dict(value)


# `launch` and `submit`: functions as jobs, from plain programs.
#
# In a notebook they are those of the magics, which know the notebook's cells and show the job's
# card.


def submit(  # noqa: PLR0913 - the options of a job, each by its name
    function: Callable[..., Any],
    /,
    *args: Any,  # noqa: ANN401 - the function's own
    gpus: int | None = None,
    memory: str | int | None = None,
    cpus: int | None = None,
    name: str | None = None,
    queue: str | None = None,
    cluster: Cluster | str | None = None,
    env: Mapping[str, str] | None = None,
    secret: str | Sequence[str] | None = None,
    docker_image: str | None = None,
    input_path: str | Path | None = None,
    checkpoint_path: str | Path | None = None,
    workers: int | str | tuple[int, int] | None = None,
    ranks_per_task: str | None = None,
    framework: str | None = None,
    retries: int | None = None,
    time_limit: str | float | None = None,
    cache: bool | str | None = None,
    hang_after: str | float | None = None,
    idle: str | float | None = None,
    grace: str | float | None = None,
    post_mortem: str | None = None,
    notify: str | None = None,
    **kwargs: Any,  # noqa: ANN401 - the function's own
) -> Job:
    """Run ``function(*args, **kwargs)`` as a job, and return the job at once.

    Parameters
    ----------
    function
        What runs in the job, with what it needs of the program or the notebook.
    args
        The function's own; they travel with the job.
    kwargs
        The function's own likewise, and the options that only one cluster knows: ``mode="cold"`` on
        YARN. ``help(submit)`` lists them.
    gpus, cpus
        How many; None leaves it to the cluster (one GPU where there is one).
    memory
        ``"8G"``, or a number of mebibytes.
    name
        For people; the function's name unless given.
    queue
        Of the cluster's queues; the cluster's own choice unless given.
    cluster
        Where to run; the configured one unless given; ``"any"`` for the first of several whose GPUs
        are free.
    env
        Environment variables of the job.
    secret
        Names of variables whose values come from the environment or the keyring, and are on no
        record.
    docker_image
        Run in a container of that image, where the cluster can.
    input_path, checkpoint_path
        The job reads them from ``SUBMARINE_INPUT_PATH`` and ``SUBMARINE_CHECKPOINT_PATH``.
    workers
        How many tasks run the call together; the result is that of the first. 1 unless given.
        ``(2, 4)`` or ``"2:4"`` begins with 2 where 4 are not free, and goes on with 4 later.
    ranks_per_task
        ``"gpu"`` for a rank for each GPU of a worker.
    framework
        Whose variables tell several workers of each other; all of them unless given.
    retries
        How often the job is begun again where its code fails; it runs once unless given.
    time_limit
        ``"2h"``, or seconds: how long it may go on, all attempts together.
    cache
        Whether to return an earlier job where nothing has changed that its result depends on;
        ``"refresh"`` runs it in any case, and remembers the new result.
    hang_after
        ``"30m"``, or seconds: how long several workers may give no sign of life until they are said
        to hang; 0 for never, ten minutes unless given.
    idle
        ``"10m"``, or seconds: how long its GPUs may do nothing until its model is saved and it is
        asked to end; 0 for any time, the configured time unless given.
    grace
        ``"30s"``, or seconds: how long it has to end when it is asked to; what a step and a
        checkpoint take unless given.
    post_mortem
        ``"off"`` to keep nothing of what its frames held where it fails.
    notify
        The webhook that is told when it has ended, or the name of a secret that holds its address;
        ``"none"`` for nobody. The setting's unless given.

    Raises
    ------
    CommandError
        An option is not possible, or `function` has a parameter of that name, too.
    BundleError
        The function or what it needs cannot travel.
    SubmissionError
        The cluster refuses the job.
    """
    given = locals()
    options = {option: given[option] for option in OPTIONS}
    here = notebook()
    if here is not None:
        job: Job = here.submit(function, *args, **kwargs, **options)
        return job
    return _submit(function, args, {**kwargs, **options})[0]


def _signature() -> inspect.Signature:
    """Return the signature of `submit` with what clusters declare, for help and completion."""
    plain = inspect.signature(submit)
    *own, kwargs = plain.parameters.values()
    types = {"count": int, "memory": str | int, "switch": bool, "path": str | Path}
    declared_ones = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=str((types.get(option.kind, str)) | None),
        )
        for option, _ in job_options()
        if option.keyword
    ]
    return plain.replace(parameters=[*own, *declared_ones, kwargs])


submit.__signature__ = _signature()  # type: ignore[attr-defined] # as `inspect` documents it


def launch(
    function: Callable[..., Any],
    /,
    *args: Any,  # noqa: ANN401 - the function's own
    logs: str | None = None,
    **keywords: Any,  # noqa: ANN401 - likewise
) -> Any:  # noqa: ANN401 - what it returns
    """Run ``function(*args, …)`` as a job, show its log, and return what the function returned.

    An interrupt cancels the job and waits for its end; a second one leaves at once.

    Parameters
    ----------
    function, args
        As `submit` has them.
    logs
        Whose log is shown, of several tasks: ``"first"`` (rank 0's, unless given), ``"all"``, or
        ``"worker-2"``.
    keywords
        The function's own, and the options that `submit` has: ``gpus=2, memory="8G"``.

    Raises
    ------
    JobFailedError, JobCancelledError, JobLostError, ResultError
        As `Job.result`.
    KeyboardInterrupt
        It was interrupted; the job is cancelled.
    CommandError, BundleError, SubmissionError
        As `submit`.
    """
    here = notebook()
    if here is not None:
        return here.launch(function, *args, logs=logs, **keywords)
    console = Console()
    job, which = _submit(function, args, keywords, console.note, logs)
    if job.remembered:
        console.note(f'the result is {job.remembered} ({job.id}); cache="refresh" runs it again')
    with cancelling_on_interrupt(job, console):
        follow(job, console, which=which)
    results = job.results()
    for warning in results.warnings:
        warnings.warn(warning, stacklevel=2)
    return results.value


def notebook() -> Any:  # noqa: ANN401 - a module that an entry point names
    """Return what launches jobs in the notebook that this process is a kernel of, else None.

    The engine knows no front end: whoever is one says so by an entry point.
    """
    shell = sys.modules.get("IPython")  # not imported here: a plain program need not have it
    if shell is None or shell.get_ipython() is None:
        return None
    # Late: this import is slower than all the others.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return next((entry.load() for entry in entry_points(group="submarine.notebooks")), None)


def _limit(config: Config) -> int:
    """Return how many bytes of values may travel."""
    limit: int = config.value("capture_limit")
    if config.origin("capture_limit") != DEFAULT:
        return limit
    return room_of(config.value("cluster")) or limit


def prepare(  # noqa: PLR0913 - as `_submit`, and whose program it is
    function: Callable[..., Any],
    args: Sequence[object],
    keywords: Mapping[str, Any],
    tell: Callable[[str], object] | None = None,
    logs: str | None = None,
    *,
    of: Callable[..., Any] | None = None,
) -> PreparedCall:
    """Make spec and bundle of a call in this program, as `prepare_call` does.

    Parameters
    ----------
    function
        What the job calls.
    args, keywords
        What the function is called with, by place and by name; what says how the job runs is
        among the keywords, see `job_keywords`.
    tell
        Is told which value takes long.
    logs
        Whose log is to be shown.
    of
        The program's own function, where `function` is one that is given it.
    """
    config = load_config()
    cells, root = _program(function if of is None else of)
    return prepare_call(
        function,
        args,
        keywords,
        cells=cells,
        namespace=vars(sys.modules["__main__"]),
        build=BuildOptions(limit=_limit(config), root=root, tell=tell, changes=set_in(root)),
        cluster=config.value("cluster"),
        logs=logs,
    )


def _submit(
    function: Callable[..., Any],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    tell: Callable[[str], object] | None = None,
    logs: str | None = None,
) -> tuple[Job, str]:
    """Return the job, and whose log is to be shown."""
    call = prepare(function, args, keywords, tell, logs)
    where, call = call.placed(load_config().value("cluster"), tell)
    if tell is not None:
        where.tell = tell
    return call.submit(where), call.logs


def _program(function: Callable[..., Any]) -> tuple[list[Cell], Path]:
    """Return the running program as a cell, and the folder that its own modules lie in."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None:
        if getattr(function, "__module__", None) == "__main__":
            raise BundleError(
                "the function was typed at a prompt, its source is in no file",
                where=getattr(function, "__name__", ""),
                fix="put it into a file; in a notebook, use "
                "`from submarine_magics import launch, submit`",
            )
        return [], Path.cwd()
    try:
        with tokenize.open(path) as file:
            source = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError):  # a zip, or not Python at all
        return [], Path.cwd()
    cell = Cell(number=None, source=source, raw=source, file=str(path))
    as_module = getattr(main, "__spec__", None) is not None  # python -m
    return [cell], Path.cwd() if as_module else Path(path).absolute().parent
