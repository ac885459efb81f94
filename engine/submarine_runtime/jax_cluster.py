"""Lets ``jax.distributed.initialize()`` work without arguments in a job of several tasks.

JAX reads the coordinator's address from a variable, and asks its list of kinds of clusters (Slurm,
Open MPI) for the rest. `task` has ours put on that list as JAX is imported; JAX is not imported for
it.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime.display_hooks import after_import

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def join() -> None:
    """Have ``jax.distributed.initialize()`` know the job, now or as soon as JAX is imported."""
    name = "jax._src.clusters.cluster"
    if name in sys.modules:  # a forked task: it was imported ahead
        _join_list(sys.modules[name])
    else:
        after_import(name, _join_list)


def _join_list(module: ModuleType) -> None:
    base = getattr(module, "ClusterEnv", None)
    known = getattr(base, "_cluster_types", None)
    if base is None or not isinstance(known, list):
        return  # another JAX: who gives it no argument is told what is missing, by JAX itself

    def address(*_told: object, **_more: object) -> str:
        return os.environ["JAX_COORDINATOR_ADDRESS"]

    told: dict[str, Any] = {
        "is_env_present": lambda: "JAX_PROCESS_ID" in os.environ,
        "get_coordinator_address": address,
        "get_process_count": lambda: int(os.environ["JAX_NUM_PROCESSES"]),
        "get_process_id": lambda: int(os.environ["JAX_PROCESS_ID"]),
    }
    methods = [(name, staticmethod(method)) for name, method in told.items()]
    ours = type(base)("SubmarineCluster", (base,), {"name": "submarine", **dict(methods)})
    # The first that is there is taken: the job may run inside a Slurm allocation.
    known[:] = [ours, *(one for one in known if one is not ours)]
