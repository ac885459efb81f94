"""``launch`` and ``submit`` in a notebook: a function as a job, with the card in its cell.

Outside IPython they are those of ``submarine_engine``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython import get_ipython
from submarine_engine import api
from submarine_engine.api import PreparedCall, prepare_call
from submarine_engine.interrupts import noted

from submarine_magics.card import display
from submarine_magics.cell_view import Interrupt, follow_job
from submarine_magics.show import say
from submarine_magics.workbench import Workbench, bench_of

if TYPE_CHECKING:
    from submarine_engine.bundle import BuildOptions, Cell
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.future import Job


def submit(function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Job:  # noqa: ANN401
    """Run ``function(*args, …)`` as a job, and return the job at once.

    Parameters
    ----------
    keywords
        The function's own, and the options of the job that `submarine_engine.submit` has:
        ``gpus=2, memory="8G"``.

    Raises
    ------
    CommandError
        An option is not possible, or `function` has a parameter of that name, too.
    BundleError
        The function or what it needs cannot travel.
    SubmissionError
        The cluster refuses the job.
    """
    shell = get_ipython()
    if shell is None:
        return api.submit(function, *args, **keywords)
    bench = bench_of(shell)
    display.register_table(shell)
    return _submit(bench, _prepare(bench, function, args, keywords))


def launch(
    function: Callable[..., Any],
    /,
    *args: Any,  # noqa: ANN401 - the function's own
    logs: str | None = None,
    **keywords: Any,  # noqa: ANN401 - likewise
) -> Any:  # noqa: ANN401 - what it returns
    """Run ``function(*args, …)`` as a job in this cell, and return what the function returned.

    The card and the log appear in the cell. An interrupt cancels the job and waits for its end; a
    second one leaves at once.

    Parameters
    ----------
    logs
        As `submarine_engine.launch` has it.
    keywords
        As for `submit`.

    Raises
    ------
    JobFailedError, JobCancelledError, JobLostError, ResultError
        As `Job.result`.
    CommandError, BundleError, SubmissionError
        As `submit`.
    """
    shell = get_ipython()
    if shell is None:
        return api.launch(function, *args, logs=logs, **keywords)
    bench = bench_of(shell)
    call = _prepare(bench, function, args, keywords, waits=True, logs=logs)
    with noted(Interrupt()) as interrupt:
        job = _submit(bench, call, interrupt)
        follow_job(job, interrupt, origin=bench.origin(), which=call.logs)
    results = job.results()
    for warning in results.warnings:
        say(warning)
    return results.value


def prepare(
    function: Callable[..., Any],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    *,
    cell: Cell | None = None,
) -> PreparedCall:
    """Make spec and bundle of a call of this notebook, for whoever runs it by a job of its own.

    Parameters
    ----------
    function
        What the job calls.
    args
        Its own.
    keywords
        The function's own, and the job's options.
    cell
        That runs now and defines the first of `args`; None where cells that were executed do.
    """
    shell = get_ipython()
    return _prepare(bench_of(shell), function, args, keywords, cell=cell)


def placed(call: PreparedCall) -> tuple[Cluster, PreparedCall]:
    """Return where a prepared call is to run, as `PreparedCall.placed` does."""
    return call.placed(bench_of(get_ipython()).cluster_name(), say)


def submit_prepared(call: PreparedCall, *, shown: bool = True) -> Job:
    """Submit a prepared call; where it is to be `shown`, a line in this cell follows its job."""
    job = _submit(bench_of(get_ipython()), call)
    if shown:
        display.show_jobs([job])
    return job


def show(job: Job) -> None:
    """Show a job's card in this cell, which follows it by itself."""
    display.show_job(job)


def follow(job: Job) -> None:
    """Show a job's card and log in this cell until it is over; an interrupt cancels it."""
    bench = bench_of(get_ipython())
    with noted(Interrupt()) as interrupt:
        follow_job(job, interrupt, origin=bench.origin())


def _prepare(  # noqa: PLR0913 - as `prepare_call`, each by its name
    bench: Workbench,
    function: Callable[..., Any],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    *,
    waits: bool = False,
    logs: str | None = None,
    cell: Cell | None = None,
) -> PreparedCall:
    answered = waits and not keywords.get("cluster") and bench.answers()

    cells, namespace = bench.cells.cells_so_far(), bench.namespace
    if cell is not None:  # it runs now: what it defines is not in the notebook
        cells = [*bench.cells.cells(), cell]
        namespace = {**namespace, getattr(args[0], "__name__", ""): args[0]}

    def prepare(build: BuildOptions) -> PreparedCall:
        return prepare_call(
            function,
            args,
            keywords,
            cells=cells,
            namespace=namespace,
            build=build,
            cluster=bench.cluster_name(),
            logs=logs,
        )

    call = bench.within_limit(prepare, answered=answered)
    bench.bundle = call.bundle
    return call


def _submit(bench: Workbench, call: PreparedCall, interrupt: Interrupt | None = None) -> Job:
    where, call = placed(replace(call, spec=bench.from_here(call.spec)))
    return bench.submit(where, call.bundle, lambda: call.submit(where), interrupt)
