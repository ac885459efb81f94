"""`sweep`: a function, what to search, and what to search for; the job that does it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from submarine_runtime import trials as runtime

from submarine_engine import api
from submarine_engine.api import Console, cancelling_on_interrupt
from submarine_engine.bundle.model import Cell
from submarine_engine.errors import CommandError
from submarine_engine.logs import follow
from submarine_engine.pool.launching import PoolPlan, check_function, control_job, count, prepare
from submarine_engine.sweeps.found import Found
from submarine_engine.sweeps.plan import FIRST_FAILURES, SweepPlan, objectives_of
from submarine_engine.sweeps.record import SweepRecord
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.study import import_optuna

_SOURCE = "submarine_engine.sweeps.source:Trials"

_ELSEWHERE = {
    "n_trials": "trials",
    "num_samples": "trials",
    "count": "trials",
    "max_evals": "trials",
    "metric": "minimize= or maximize",
    "mode": "minimize= or maximize",
    "direction": "minimize= or maximize",
    "directions": "minimize= and maximize",
    "n_jobs": "max_gpus",
    "scheduler": "pruner",
    "search_alg": "sampler",
    "method": "sampler",
}
"""What Optuna, Ray, W&B and hyperopt call it, and how it is called here."""


def sweep(  # noqa: PLR0913 - the options of a search, each by its name
    function: Callable[..., Any],
    space: Mapping[str, Any] | str | Space | None = None,
    /,
    *,
    trials: int | None = None,
    minimize: str | Sequence[str] | None = None,
    maximize: str | Sequence[str] | None = None,
    sampler: str | None = None,
    pruner: str = "median",
    seed: int | None = None,
    max_gpus: int | None = None,
    min_gpus: int = 1,
    forks: bool = True,
    metric_from_log: bool = False,
    first_failures: int = FIRST_FAILURES,
    wait: bool = True,
    cell: Cell | None = None,
    **options: Any,  # noqa: ANN401 - of the workers' jobs
) -> Found:
    """Try `function` with many parameters on the cluster's GPUs; Optuna chooses which.

    A trial's value is what `function` returns (a number, or a dict that has it), or else what it
    has reported last (`submarine_runtime.report`). The sweep takes each GPU as it falls free, and
    gives GPUs away as other jobs wait for them.

    Parameters
    ----------
    function
        What each trial calls, with one keyword for each name of the space. What is the same for all
        goes in by `functools.partial`.
    space
        ``{"rate": loguniform(1e-4, 1e-1), "units": [32, 64, 128]}``, or the same as text.
    trials
        How many; all points of a grid unless given.
    minimize, maximize
        The name of what is searched for, or several.
    sampler
        How the next parameters are chosen: ``tpe``, ``random``, ``grid``, ``cmaes``, ``nsgaii``.
        TPE for one objective, NSGA-II for several, unless given.
    pruner
        When a trial is given up for what it reports: ``median``, ``halving``, ``hyperband``,
        ``none``.
    seed
        The same one chooses the same parameters for the same values.
    max_gpus, min_gpus
        The most that all trials hold together, all of the cluster's unless given; and how many they
        keep while other jobs wait.
    forks
        Whether each trial runs in a process of its own; else all of a worker run in one.
    metric_from_log
        Read values from lines like ``loss: 0.12`` where nothing is returned or reported.
    first_failures
        The sweep ends where so many trials, its first ones, fail.
    wait
        Whether to show the log and wait for the end.
    cell
        Of a notebook, that defines the function, where none was executed that does.
    options
        Of each trial, as `submit` has them: ``gpus=1, memory="8G"``, ``workers=2`` for the ranks of
        each; ``time_limit`` is that of the whole, ``retries`` how often a trial that fails is run
        again before it counts as failed.

    Returns
    -------
    Found
        ``found.best.params``, ``found.best.value``, ``found.results()``.

    Raises
    ------
    CommandError
        The space or an option is not possible.
    BundleError
        The function or what it needs cannot travel.
    SubmissionError
        The cluster refuses the job.
    JobFailedError, JobCancelledError
        The sweep has failed, or was cancelled; `open_sweep` has what it found.
    """
    check_function(function)
    if foreign := [name for name in options if name in _ELSEWHERE]:
        raise CommandError(
            f"sweep() has no {', '.join(foreign)}",
            fix="; ".join(f"for {name}= write {_ELSEWHERE[name]}=" for name in foreign),
        )
    if space is None:
        raise CommandError(
            "nobody said what is to be searched",
            fix='give a space: sweep(train, {"rate": loguniform(1e-4, 1e-1)}, …). Each trial gets '
            "its values as arguments, def train(rate): none is asked for by trial.suggest_float",
        )
    searched = Space.of(space)
    _check_arguments(function, searched)
    plan = SweepPlan(
        objectives=objectives_of(minimize, maximize),
        trials=trials,
        sampler=sampler,
        pruner=pruner,
        seed=seed,
        gpus=options.get("gpus"),
        max_gpus=max_gpus,
        min_gpus=min_gpus,
        from_log=metric_from_log,
        first_failures=first_failures,
    )
    plan.total(searched)
    if "retries" in options:
        count("retries", options["retries"], 0)
    import_optuna(plan.searches_by)
    found = _begin(function, searched, plan, options, cell, forks=forks)
    return _followed(found) if wait else _shown(found)


def _begin(  # noqa: PLR0913 - what `sweep` was given, each by its name
    function: Callable[..., Any],
    space: Space,
    plan: SweepPlan,
    options: Mapping[str, Any],
    cell: Cell | None,
    *,
    forks: bool,
) -> Found:
    """Make the sweep's folder, and submit the job that runs it."""
    keywords: dict[str, Any] = {"objectives": [name for name, _ in plan.objectives]}
    if space.objects:
        keywords["choices"] = space.objects
    if plan.from_log:
        keywords["from_log"] = True
    # Of a trial, not of its worker's job, which runs many.
    retries = options.get("retries") or 0
    prepared = prepare(
        PoolPlan(
            function=function,
            options={name: value for name, value in options.items() if name != "retries"},
            source=_SOURCE,
            forks=forks,
            max_gpus=plan.max_gpus,
            serve=runtime.serve,
            cell=cell,
            keywords=keywords,
        )
    )
    each = prepared.spec.gpus or 0
    plan = replace(plan, gpus=each)
    least = plan.min_gpus // each if each else 0
    # More workers than trials would have nothing to do.
    most = min(prepared.most, plan.total(space))
    told = {"least": min(least, most), "retries": retries}
    prepared = replace(prepared, most=most, plan=replace(prepared.plan, told=told))
    folder = prepared.make()
    asked = prepared.spec.checkpoint_path
    here = prepared.cluster.tasks_here
    pool = folder.root.name
    own = str(folder.root / "checkpoints") if here else prepared.cluster.own_checkpoints(pool)
    record = SweepRecord(
        folder=folder.root,
        name=prepared.spec.name,
        plan=plan,
        space=space,
        objects=tuple(space.objects),
        checkpoints=f"{asked}/{pool}" if asked else own,
    )
    record.write()
    job = control_job(folder, shown=False)
    record.with_job(job.id)
    return Found(folder.root, space)


def _shown(found: Found) -> Found:
    """Show the sweep's card in a notebook, which goes on with its other cells."""
    here = api.notebook()
    if here is not None:
        here.show(found.job)
    return found


def _followed(found: Found) -> Found:
    """Show the sweep's log until it is over."""
    here = api.notebook()
    if here is not None:
        here.follow(found.job)
    else:
        console = Console()
        with cancelling_on_interrupt(found.job, console):
            follow(found.job, console)
    return found.wait()


def _check_arguments(function: Callable[..., Any], space: Space) -> None:
    """Refuse before anything is asked for what each trial would refuse."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins do not tell
        return
    called = f"{getattr(function, '__name__', '') or api.function_name(function)}()"
    kinds = inspect.Parameter
    takes = {
        name: one
        for name, one in signature.parameters.items()
        if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }
    if not any(one.kind is kinds.VAR_KEYWORD for one in signature.parameters.values()):
        if len(takes) == 1 and not takes.keys() & set(space.names):
            (all_in_one,) = takes
            names = ", ".join(space.names)
            whole = ", ".join(f"{name!r}: {name}" for name in space.names)
            or_so = f", or sweep(lambda {names}: {called[:-1]}{{{whole}}}), …)"
            raise CommandError(
                f"{called} has no argument {names}, only {all_in_one}",
                fix=f"take each value as an argument: def {called[:-1]}{names})"
                f"{', none is asked for by trial.suggest_…' if all_in_one == 'trial' else or_so}",
            )
        space.check_names(tuple(takes), called)
    given = function.keywords if isinstance(function, functools.partial) else {}
    lacks = [
        name
        for name, one in signature.parameters.items()
        if one.default is kinds.empty
        and one.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
        and name not in space.names
        and name not in given
    ]
    if lacks:
        bound = ", ".join([called[:-2], *(f"{name}=…" for name in lacks)])
        raise CommandError(
            f"{called} needs {', '.join(lacks)}, too",
            fix=f"put them into the space, or bind them: functools.partial({bound})",
        )
