"""Sets the variables by which each framework finds the tasks of its job, from the driver's answer.

`exchange` calls it. No framework is imported. What a framework does not read from a variable it is
told where it is used: JAX as it is imported (`jax_cluster`), XGBoost by `job.xgboost`
(`xgboost_tracker`).
"""

from __future__ import annotations

import os

from submarine_runtime import lean
from submarine_runtime.lean import mode_in

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

AUTO = "auto"
NONE = "none"
READS: dict[str, tuple[str, ...]] = {
    "pytorch": (
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        # torchrun's options, by the names that it reads them from.
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "PET_NNODES",
        "PET_NODE_RANK",
        "PET_NPROC_PER_NODE",
    ),
    "tensorflow": ("TF_CONFIG",),
    "jax": ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
    "xgboost": (),
    "mpi": (
        "SUBMARINE_HOSTFILE",
        "OMPI_MCA_orte_default_hostfile",  # Open MPI 4
        "PRTE_MCA_prte_default_hostfile",  # Open MPI 5
        "HYDRA_HOST_FILE",  # MPICH and Intel's
    ),
}
"""What each framework reads, by its name in ``--framework``."""

FRAMEWORKS = (AUTO, *READS, NONE)
VARIABLES = tuple(name for names in READS.values() for name in names)
"""All that `variables` may set."""

FOR_TORCH, FOR_TENSORFLOW, FOR_JAX, FOR_XGBOOST = range(4)
"""Which of the ports that a task offers is whose. A job may use more than one of them."""

HOSTS = "hosts"
"""File in a task's folder: a line for each rank, its host; MPI's programs read it."""

_OF_TENSORFLOW = ("chief", "worker", "ps", "evaluator")


def chosen(framework: str) -> tuple[str, ...]:
    """Return the frameworks whose variables are set, for a value of ``--framework``."""
    if framework == AUTO:
        return tuple(READS)
    return () if framework == NONE else (framework,)


def enter(folder: str, tasks: dict[str, Any], me: str, framework: str) -> None:
    """Set the variables of this process, and write the file of hosts.

    Those of frameworks that are not meant are taken away: they are of the shell that the job was
    submitted from, and lead elsewhere. With `NONE` all stay as they are.

    Parameters
    ----------
    folder
        The task's.
    tasks, me
        As `variables` has them.
    framework
        As ``--framework`` has it.

    Raises
    ------
    OSError
        The file of hosts cannot be written.
    """
    if framework == NONE:
        return
    found = variables(tasks, me, chosen(framework), f"{folder}/{HOSTS}")
    if "SUBMARINE_HOSTFILE" in found:
        data = "".join(f"{one['host']}\n" for one in ranked(tasks))
        descriptor = os.open(
            f"{folder}/{HOSTS}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode_in(folder)
        )
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(found)


def variables(
    tasks: dict[str, Any],
    me: str,
    frameworks: tuple[str, ...] = tuple(READS),
    hosts: str = HOSTS,
) -> dict[str, str]:
    """Return the variables by which frameworks find the tasks of a job.

    Parameters
    ----------
    tasks
        By task: its ``role``, ``index``, ``rank`` (None for one that is no worker), ``host`` and
        ``ports``.
    me
        Whose variables.
    frameworks
        Whose variables, by their names in `READS`.
    hosts
        Path of the file of hosts.
    """
    ranks = ranked(tasks)
    mine = tasks[me]
    found = {}
    if mine["role"] in _OF_TENSORFLOW:
        found["TF_CONFIG"] = _tf_config(tasks, mine)
    if ranks:
        first = ranks[0]
        for prefix in ("", "PET_"):
            found[f"{prefix}MASTER_ADDR"] = first["host"]
            found[f"{prefix}MASTER_PORT"] = str(first["ports"][FOR_TORCH])
        found["JAX_COORDINATOR_ADDRESS"] = _address(first, FOR_JAX)
        for name in ("WORLD_SIZE", "PET_NNODES", "JAX_NUM_PROCESSES"):
            found[name] = str(len(ranks))
        for name in READS["mpi"]:
            found[name] = hosts
    if mine["rank"] is not None:
        for name in ("RANK", "PET_NODE_RANK", "JAX_PROCESS_ID"):
            found[name] = str(mine["rank"])
        # A task sees its own GPUs alone, the first of them as number 0, whoever else is on its
        # node: so each is the only rank of its own small world.
        found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"] = "0", "1"
        # torchrun starts a process for each GPU of the task.
        gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        found["PET_NPROC_PER_NODE"] = str(len(gpus) or 1)
    wanted = {name for framework in frameworks for name in READS[framework]}
    return {name: value for name, value in found.items() if name in wanted}


def ranked(tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the workers of an answer's tasks, in the order of their ranks."""
    return sorted((one for one in tasks.values() if one["rank"] is not None), key=_rank)


def _tf_config(tasks: dict[str, Any], mine: dict[str, Any]) -> str:
    cluster: dict[str, list[str]] = {}
    for one in sorted(tasks.values(), key=_index):
        if one["role"] in _OF_TENSORFLOW and one["role"] != "evaluator":  # it watches from outside
            cluster.setdefault(one["role"], []).append(_address(one, FOR_TENSORFLOW))
    told = {"type": mine["role"], "index": mine["index"]}
    return lean.dumps({"cluster": cluster, "task": told})


def _rank(one: dict[str, Any]) -> int:
    return int(one["rank"])


def _index(one: dict[str, Any]) -> int:
    return int(one["index"])


def _address(one: dict[str, Any], port: int) -> str:
    host = one["host"]
    return f"[{host}]:{one['ports'][port]}" if ":" in host else f"{host}:{one['ports'][port]}"
