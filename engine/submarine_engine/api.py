"""`launch` and `submit`: functions as jobs, from plain programs.

In a notebook they are those of the magics, which know the notebook's cells and show the job's card.
"""

from __future__ import annotations

import sys
import tokenize
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle import Cell
from submarine_engine.calls import OPTIONS, prepare_call
from submarine_engine.clusters import open_cluster
from submarine_engine.config import DEFAULT, Config, load_config
from submarine_engine.console import Console, cancelling_on_interrupt
from submarine_engine.errors import BundleError
from submarine_engine.future import Job
from submarine_engine.logs import follow

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster


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
    docker_image: str | None = None,
    input_path: str | Path | None = None,
    checkpoint_path: str | Path | None = None,
    mode: str | None = None,
    environment: str | Path | None = None,
    node_label: str | None = None,
    priority: int | None = None,
    isolation: str | None = None,
    **kwargs: Any,  # noqa: ANN401 - the function's own
) -> Job:
    """Run ``function(*args, **kwargs)`` as a job, and return the job at once.

    Parameters
    ----------
    function
        What runs in the job, with what it needs of the program or the notebook.
    args, kwargs
        The function's own; they travel with the job.
    gpus, cpus
        How many; None leaves it to the cluster (one GPU where there is one).
    memory
        ``"8G"``, or a number of mebibytes.
    name
        For people; the function's name unless given.
    queue
        Of the cluster's queues; the cluster's own choice unless given.
    cluster
        Where to run; the configured one unless given.
    env
        Environment variables of the job.
    docker_image
        Run in a container of that image, where the cluster can.
    input_path, checkpoint_path
        The job reads them from ``SUBMARINE_INPUT_PATH`` and ``SUBMARINE_CHECKPOINT_PATH``.
    mode, environment, node_label, priority
        How the job comes to its containers on YARN, see `JobSpec`.
    isolation
        ``"fresh"`` or ``"shared"``, on the local cluster, see `JobSpec`.

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
    here = _notebook()
    if here is not None:
        job: Job = here.submit(function, *args, **kwargs, **options)
        return job
    return _submit(function, args, {**kwargs, **options})


def launch(function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
    """Run ``function(*args, …)`` as a job, show its log, and return what the function returned.

    An interrupt cancels the job and waits for its end; a second one leaves at once.

    Parameters
    ----------
    function, args
        As `submit` has them.
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
    here = _notebook()
    if here is not None:
        return here.launch(function, *args, **keywords)
    console = Console()
    job = _submit(function, args, keywords, console.note)
    with cancelling_on_interrupt(job, console):
        follow(job, console)
    results = job.results()
    for warning in results.warnings:
        warnings.warn(warning, stacklevel=2)
    return results.value


def _notebook() -> Any:  # noqa: ANN401 - a module that an entry point names
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
    return open_cluster(config.value("cluster")).room() or limit


def _submit(
    function: Callable[..., Any],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    tell: Callable[[str], object] | None = None,
) -> Job:
    config = load_config()
    cells, root = _program(function)
    call = prepare_call(
        function,
        args,
        keywords,
        cells=cells,
        namespace=vars(sys.modules["__main__"]),
        root=root,
        limit=_limit(config),
    )
    cluster = call.cluster or config.value("cluster")
    where = open_cluster(cluster) if isinstance(cluster, str) else cluster
    if tell is not None:
        where.tell = tell
    return Job(where, where.submit(call.spec, call.bundle, workdir=Path.cwd()))


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
