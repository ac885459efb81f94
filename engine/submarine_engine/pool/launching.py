"""From a function to a pool: its workers' bundle, its folder, and the job that runs it."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from submarine_runtime import worker

from submarine_engine import api
from submarine_engine.api import PreparedCall, prepare_call
from submarine_engine.bundle import BuildOptions, Cell
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.base import Cluster
from submarine_engine.config import load_config
from submarine_engine.errors import CommandError, UnsupportedError
from submarine_engine.future import Job
from submarine_engine.history import default_home
from submarine_engine.job import JobSpec
from submarine_engine.pool.controller import control
from submarine_engine.pool.folder import PoolFolder

LOCAL = "local"
"""Where controllers run: on the machine of whoever asks."""

_TAKEN_OVER = 3
"""How often a controller whose process is killed is begun again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What a pool is to be, before anything is asked for.

    Parameters
    ----------
    function
        What each call calls.
    options
        The workers', as `submarine_engine.submit` has them, and ``time_limit``, the pool's.
    forks
        Whether each call runs in a fork of its own.
    max_gpus, max_workers
        How many GPUs, or workers, the pool may have at once.
    source
        The class of its source, ``module:Class``: it is given the folder.
    told
        What else its controller has to know.
    serve
        What the workers' script ends in, called with the function, classes of the arguments, and
        `keywords`.
    keywords
        Its own.
    cell
        Of a notebook, that defines the function, where none was executed that does.
    """

    function: Callable[..., Any]
    options: Mapping[str, Any]
    source: str
    forks: bool = True
    max_gpus: int | None = None
    max_workers: int | None = None
    told: Mapping[str, Any] | None = None
    serve: Callable[..., None] = worker.serve
    keywords: Mapping[str, Any] | None = None
    cell: Cell | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPool:
    """A pool that is ready to be made: nothing has been asked for yet.

    Parameters
    ----------
    spec
        The workers', with every number that was left to the cluster.
    most
        How many workers there may be.
    """

    call: PreparedCall
    cluster: Cluster
    spec: JobSpec
    most: int
    plan: PoolPlan

    @property
    def names(self) -> frozenset[str]:
        """What the workers' script defines: arguments refer to it by name."""
        tree = ast.parse(self.call.bundle.script)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return frozenset(node.name for node in tree.body if isinstance(node, kinds))

    def make(self) -> PoolFolder:
        """Make the pool's folder.

        Raises
        ------
        SubmissionError
            It cannot be written.
        """
        told = {
            **(self.plan.told or {}),
            "source": self.plan.source,
            "cluster": self.cluster.name,
            "most": self.most,
            "workdir": str(Path.cwd()),
            "time_limit": self.plan.options.get("time_limit"),
        }
        return PoolFolder.new(default_home(), told, self.spec, self.call.bundle)


def prepare(plan: PoolPlan, names: Collection[str] = ()) -> PreparedPool:
    """Make the bundle of a pool's workers, and see whether the cluster can run them.

    Parameters
    ----------
    plan
        What the pool is to be.
    names
        Of the program, that the workers' script has to define besides what the function needs.

    Raises
    ------
    CommandError
        An option is not possible.
    BundleError
        The function or what it needs cannot travel.
    UnsupportedError
        A call would be run by several tasks, or its result remembered.
    SubmissionError, ClusterError
        The cluster cannot run the workers.
    """
    check_function(plan.function)
    options = {key: value for key, value in plan.options.items() if value is not None}
    options.pop("time_limit", None)  # the controller's
    options.setdefault("name", api.function_name(plan.function))
    if "num_workers" in options:  # as the command line has it
        options["workers"] = options.pop("num_workers")
    if options.pop("cache", False):
        raise UnsupportedError(
            "results of a pool's calls are not remembered",
            where="cache",
            fix="leave it out, or use launch() and submit()",
        )
    variables = vars(sys.modules["__main__"])
    known = [variables[name] for name in sorted(names)]
    own = plan.keywords or {}
    keywords = {**options, **own, **({} if plan.forks else {"forks": False})}
    args = (plan.function, *known)
    here = api.notebook()
    if here is not None:
        call: PreparedCall = here.prepare(plan.serve, args, keywords, cell=plan.cell)
        cluster, call = here.placed(call)
    else:
        call = api.prepare(plan.serve, args, keywords, of=plan.function)
        cluster, call = call.placed(load_config().value("cluster"))
    spec = call.spec.each_rank_a_task()
    _check_ranks(plan, spec)
    spec = cluster.check(spec)
    return PreparedPool(
        call=call, cluster=cluster, spec=spec, most=_most(plan, spec, cluster), plan=plan
    )


def control_job(folder: PoolFolder, *, shown: bool = True) -> Job:
    """Submit the job that runs a pool.

    Parameters
    ----------
    folder
        The pool's.
    shown
        Whether a line in a notebook's cell follows it: not where its card will.

    Raises
    ------
    SubmissionError
        It cannot be submitted.
    """
    plan = folder.read()
    spec = JobSpec.from_json(plan["spec"])
    time_limit = plan.get("time_limit")
    keywords = {"gpus": 0, "retries": _TAKEN_OVER, "time_limit": time_limit, "name": spec.name}
    keywords["notify"] = spec.notify
    made = prepare_call(
        control,
        (folder.root.name,),
        {key: value for key, value in keywords.items() if value is not None},
        cells=[],
        namespace={},
        build=BuildOptions(),
        cluster=LOCAL,
    )
    elsewhere = None if plan["cluster"] == LOCAL else str(plan["cluster"])
    told = replace(made.spec, chosen=spec.chosen, workers_on=elsewhere)
    made = replace(made, cluster=LOCAL, spec=told)
    here = api.notebook()
    if here is not None:
        job: Job = here.submit_prepared(made, shown=shown)
    else:
        where = open_cluster(LOCAL)
        job = Job(where, where.submit(made.spec, made.bundle, workdir=Path.cwd()))
    folder.note_job(job.id)
    return job


def check_function(function: object) -> None:
    """Refuse what cannot be called.

    Raises
    ------
    CommandError
        It is no function.
    """
    if not callable(function):
        raise CommandError(
            f"{function!r} is no function", fix="give the function, then its inputs: f, inputs"
        )


def count(name: str, value: object, least: int = 1) -> int:
    """Return a number that was given for an option.

    Parameters
    ----------
    name
        The option's.
    value
        What was given.
    least
        The smallest one that is taken.

    Raises
    ------
    CommandError
        It is no whole number, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CommandError(
            f"{name}={value!r} is not possible: it must be a whole number, {least} or more",
            fix=f"leave {name} out for the usual",
        )
    return value


def _check_ranks(plan: PoolPlan, spec: JobSpec) -> None:
    """Refuse what several tasks cannot do as the ranks of each call."""
    if spec.elastic is not None:
        raise UnsupportedError(
            "the number of workers that run a call cannot change",
            where="workers",
            fix="give one number: workers=2",
        )
    if any(role.name != "worker" for role in spec.roles):
        raise UnsupportedError(
            "calls are run by workers alone", where="roles", fix="leave the other roles out"
        )
    if len(spec.tasks) > 1 and not plan.forks:
        raise UnsupportedError(
            "where several workers run each call, each has processes of its own: what a call has"
            " left of their rendezvous would be in the way of the next",
            where="forks=False",
            fix="leave forks out",
        )


def _most(plan: PoolPlan, spec: JobSpec, cluster: Cluster) -> int:
    if plan.max_workers is not None:
        count("max_workers", plan.max_workers)
    each = spec.gpus or 0
    if not each:
        if plan.max_gpus is not None:
            raise CommandError(
                "max_gpus is for calls with GPUs", fix="leave it out, or ask for gpus=1"
            )
        return plan.max_workers or max(1, len(os.sched_getaffinity(0)) // len(spec.tasks))
    if plan.max_gpus is not None and count("max_gpus", plan.max_gpus) < each:
        raise CommandError(
            f"max_gpus={plan.max_gpus} is less than the {each} of one call",
            fix=f"ask for max_gpus={each} or more",
        )
    gpus = plan.max_gpus if plan.max_gpus is not None else len(cluster.gpus())
    most = max(1, gpus // each)
    return min(most, plan.max_workers or most)
