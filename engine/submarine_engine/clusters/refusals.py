"""What clusters of other machines refuse alike, before they are asked for a job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from submarine_engine.clusters.environment import file_address, refuse_reserved
from submarine_engine.errors import ResourcesError

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec, Role


class Largest(NamedTuple):
    """The most that one node has of each: GPUs, mebibytes of memory, vcores."""

    gpus: int
    memory: int
    vcores: int


def refuse_foreign(spec: JobSpec) -> None:
    """Refuse what a job may not bring to another machine.

    Parameters
    ----------
    spec
        What the user asked for.

    Raises
    ------
    UnsupportedError
        A variable is the cluster's own, or a path one of another machine.
    """
    refuse_reserved(spec.env)
    file_address(spec.input_path or "", "--input_path")
    file_address(spec.checkpoint_path or "", "--checkpoint_path")


def completed(spec: JobSpec, most: int) -> JobSpec:
    """Return a job with the usual GPUs for each task of which nothing is said.

    Parameters
    ----------
    spec
        What the user asked for.
    most
        How many GPUs a node has that may run it; 1 where nobody can see that.
    """
    roles = (
        replace(role, resources=replace(role.resources, gpus=min(role.usual_gpus, most)))
        if role.resources.gpus is None
        else role
        for role in spec.roles
    )
    return replace(spec, roles=tuple(roles))


def refuse_larger(role: Role, largest: Largest, fix: str) -> None:
    """Refuse a task that fits no node at all.

    Parameters
    ----------
    role
        What its tasks ask for.
    largest
        The most that one node has.
    fix
        How the user sees the nodes, after the advice to ask for less.

    Raises
    ------
    ResourcesError
        It asks for more.
    """
    asked = role.resources
    for count, what, most in (
        (asked.gpus, "GPUs", largest.gpus),
        (asked.memory, "MiB of memory", largest.memory),
        (asked.vcores, "vcores", largest.vcores),
    ):
        if count and count > most:
            raise ResourcesError(
                f"the job asks for {count} {what} on one node, and the largest one has {most}",
                where=role.name,
                fix=f"ask for less, or for more tasks (--num_workers); {fix}",
            )


__all__ = ["Largest", "completed", "refuse_foreign", "refuse_larger"]
