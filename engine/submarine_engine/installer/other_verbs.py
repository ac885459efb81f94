"""What the verbs ``cluster …`` do for a cluster of one's own that is no Hadoop."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.cli.output import FAILED, OK, Output
from submarine_engine.errors import CommandError
from submarine_engine.history import default_home
from submarine_engine.installer.kubernetes import (
    KUBERNETES_NAME,
    KubernetesCluster,
    KubernetesPlan,
)
from submarine_engine.installer.slurm import SLURM_NAME, SlurmCluster, SlurmPlan

if TYPE_CHECKING:
    from submarine_engine.command.parser import Command

OtherCluster = SlurmCluster | KubernetesCluster
"""What is no Hadoop."""

_KINDS = ("yarn", SLURM_NAME, KUBERNETES_NAME)
# What only some of them know, as click keeps it, and why the others do not.
_ONLY = {
    "hdfs": ("yarn", "neither HDFS nor Kerberos"),
    "secure": ("yarn", "neither HDFS nor Kerberos"),
    "kubernetes_version": (KUBERNETES_NAME, "no version of Kubernetes"),
}


def meant(command: Command) -> OtherCluster | None:
    """Return the cluster that a verb is about; None where it is about a YARN cluster.

    Parameters
    ----------
    command
        ``cluster up slurm``, ``cluster up kubernetes``, or any verb with the ``--name`` of one.

    Raises
    ------
    CommandError
        There is no such kind of cluster, or it knows no such option.
    """
    kind, name = command.values.get("kind"), command.values.get("name")
    if kind not in {None, *_KINDS}:
        raise CommandError(
            f"there is no kind of cluster {kind!r}", fix="write yarn, slurm or kubernetes"
        )
    kind = kind or _kind_of(name)
    for option, (only, why) in _ONLY.items():
        if option in command.values and only != kind:
            raise CommandError(
                f"a cluster of the kind {kind} has {why}", where=f"--{option}", fix="leave it out"
            )
    if kind == SLURM_NAME:
        return SlurmCluster(name=name or SLURM_NAME)
    if kind == KUBERNETES_NAME:
        return KubernetesCluster(name=name or KUBERNETES_NAME)
    return None


def _kind_of(name: str | None) -> str:
    """Return the kind of the cluster that is there by a name; a Hadoop unless it is another."""
    for kind in (SLURM_NAME, KUBERNETES_NAME):
        if name and (default_home() / "clusters" / name / f"{kind}.json").exists():
            return kind
    return "yarn"


def up(cluster: OtherCluster, command: Command, output: Output) -> int:
    """Start it; return when a job could run.

    Parameters
    ----------
    cluster
        Which.
    command
        The verb, with the nodes, GPUs and version that are asked for.
    output
        Where it is told, in words or as JSON.
    """
    given = command.values
    nodes, gpus = given.get("nodes"), given.get("gpus")
    plan: SlurmPlan | KubernetesPlan
    if isinstance(cluster, KubernetesCluster):
        plan = cluster.up(nodes, gpus, given.get("kubernetes_version"), report=output.note)
    else:
        plan = cluster.up(nodes, gpus, report=output.note)
    if output.json:
        output.data(_shape(cluster, plan))
        return OK
    kind = _kind(cluster)
    output.line(f"The cluster {cluster.name!r} is up: {_plan_words(plan)}.")
    programs = f'eval "$(submarine cluster env --name {cluster.name})"'
    by = f"--cluster {kind}, %submarine use {kind}, SUBMARINE_CLUSTER={kind}"
    output.line(f"\nJobs go there by {by}.")
    if kind == KUBERNETES_NAME:  # whatever cluster kubectl has been told of before stays its own
        output.line(f"For kubectl, and where it knows another cluster already: {programs}")
    else:
        output.line(f"For sbatch and squeue: {programs}")
    output.line(f"It ends by `submarine cluster down --name {cluster.name}`.")
    return OK


def others(name: str) -> str:
    """Return which clusters of one's own there are beside one, in words; empty for none.

    Parameters
    ----------
    name
        The one that is not there.
    """
    files = (default_home() / "clusters").glob("*/*.json")
    kinds = {"cluster", SLURM_NAME, KUBERNETES_NAME}
    found = sorted({file.parent.name for file in files if file.stem in kinds} - {name})
    return f"; there is {' and '.join(found)} (--name)" if found else ""


def env(cluster: OtherCluster, output: Output) -> int:
    """Write what to set, for ``eval``.

    Parameters
    ----------
    cluster
        Which.
    output
        Where it is written, in words or as JSON.
    """
    if output.json:
        output.data(cluster.environment())
    else:
        output.line(exports(cluster.environment(), cluster.layout.bin))
    return OK


def exports(environment: Mapping[str, str], programs: Path) -> str:
    """Return lines for a shell; what it has in its PATH stays there, after a cluster's programs.

    Parameters
    ----------
    environment
        The variables by name; what PATH has among them does not matter.
    programs
        The folder of the cluster's programs.
    """
    lines = []
    for name, value in environment.items():
        if name == "PATH":
            lines.append(f'export PATH={shlex.quote(str(programs))}:"$PATH"')
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(lines)


def status(cluster: OtherCluster, output: Output) -> int:
    """Show the daemons, and whether a job could run.

    Parameters
    ----------
    cluster
        Which.
    output
        Where it is written, in words or as JSON.
    """
    daemons, problems, plan = cluster.daemons(), cluster.problems(), cluster.plan
    if plan is None:
        problems = [f"there is no cluster {cluster.name!r}"]
    if output.json:
        rows = [{"name": d.name, "pid": d.pid, "log": str(d.log)} for d in daemons]
        shape = _shape(cluster, plan) if plan else {"name": cluster.name}
        output.data({**shape, "ready": not problems, "problems": problems, "daemons": rows})
    else:
        if daemons:
            output.table(("daemon", "pid"), [(d.name, str(d.pid or "ended")) for d in daemons])
        again = f"submarine cluster up {_kind(cluster)} --name {cluster.name}"
        for problem in problems:
            output.note(f"{problem}; `{again}` mends it")
        if plan and not problems:
            output.line(f"\na job could run: {_plan_words(plan)}")
    return FAILED if problems else OK


def _kind(cluster: OtherCluster) -> str:
    return KUBERNETES_NAME if isinstance(cluster, KubernetesCluster) else SLURM_NAME


def _plan_words(plan: SlurmPlan | KubernetesPlan) -> str:
    told = f"{plan.nodes} node{'s' * (plan.nodes > 1)}, {plan.gpus} GPUs each, declared"
    return f"{told}, Kubernetes {plan.version}" if isinstance(plan, KubernetesPlan) else told


def _shape(cluster: OtherCluster, plan: SlurmPlan | KubernetesPlan) -> dict[str, object]:
    version = {"version": plan.version} if isinstance(plan, KubernetesPlan) else {}
    return {
        "name": cluster.name,
        "nodes": plan.nodes,
        "gpus": plan.gpus,
        **version,
        "environment": cluster.environment(),
    }
