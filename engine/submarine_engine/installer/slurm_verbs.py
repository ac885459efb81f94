"""What the verbs ``cluster …`` do for a Slurm of one's own."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from submarine_engine.cli.output import FAILED, OK, Output
from submarine_engine.errors import CommandError
from submarine_engine.history import default_home
from submarine_engine.installer.slurm import SLURM_NAME, SlurmCluster, SlurmPlan

if TYPE_CHECKING:
    from submarine_engine.command.parser import Command

_OF_YARN = ("hdfs", "secure")


def meant(command: Command) -> SlurmCluster | None:
    """Return the Slurm that a verb is about; None where it is about a YARN cluster.

    Parameters
    ----------
    command
        ``cluster up slurm``, or any of them with the ``--name`` of a Slurm.

    Raises
    ------
    CommandError
        There is no such kind of cluster, or it knows no such option.
    """
    kind, name = command.values.get("kind"), command.values.get("name")
    if kind not in {None, "yarn", "slurm"}:
        raise CommandError(f"there is no kind of cluster {kind!r}", fix="write yarn or slurm")
    if kind == "slurm":
        if wrong := [option for option in _OF_YARN if option in command.values]:
            raise CommandError(
                "a Slurm of your own has neither HDFS nor Kerberos",
                where=f"--{wrong[0]}",
                fix="leave it out",
            )
        return SlurmCluster(name=name or SLURM_NAME)
    if kind is None and name and (default_home() / "clusters" / name / "slurm.json").exists():
        return SlurmCluster(name=name)
    return None


def up(cluster: SlurmCluster, command: Command, output: Output) -> int:
    """Start it; return when a job could run."""
    given = command.values
    plan = cluster.up(given.get("nodes"), given.get("gpus"), report=output.note)
    if output.json:
        output.data(_shape(cluster, plan))
        return OK
    output.line(f"The cluster {cluster.name!r} is up: {_told(plan)}.")
    output.line(
        "\nJobs go there by --cluster slurm, %submarine use slurm, SUBMARINE_CLUSTER=slurm."
    )
    output.line(
        f'For sbatch and squeue: eval "$(submarine cluster env --name {cluster.name})"; it ends by '
        f"`submarine cluster down --name {cluster.name}`"
    )
    return OK


def env(cluster: SlurmCluster, output: Output) -> int:
    """Write what to set, for ``eval``."""
    if output.json:
        output.data(cluster.environment())
    else:
        for name, value in cluster.environment().items():
            output.line(f"export {name}={shlex.quote(value)}")
    return OK


def status(cluster: SlurmCluster, output: Output) -> int:
    """Show the daemons, and whether a job could run."""
    daemons, problems, plan = cluster.daemons(), cluster.problems(), cluster.plan
    if output.json:
        rows = [{"name": d.name, "pid": d.pid, "log": str(d.log)} for d in daemons]
        shape = _shape(cluster, plan) if plan else {"name": cluster.name}
        output.data({**shape, "ready": not problems, "problems": problems, "daemons": rows})
    else:
        output.table(("daemon", "pid"), [(d.name, str(d.pid or "ended")) for d in daemons])
        for problem in problems:
            output.note(f"{problem}; `submarine cluster up slurm --name {cluster.name}` mends it")
        if plan and not problems:
            output.line(f"\na job could run: {_told(plan)}")
    return FAILED if problems else OK


def _told(plan: SlurmPlan) -> str:
    return f"{plan.nodes} node{'s' * (plan.nodes > 1)}, {plan.gpus} GPUs each, declared"


def _shape(cluster: SlurmCluster, plan: SlurmPlan) -> dict[str, object]:
    return {
        "name": cluster.name,
        "nodes": plan.nodes,
        "gpus": plan.gpus,
        "environment": cluster.environment(),
    }
