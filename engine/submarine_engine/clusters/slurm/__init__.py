"""Jobs on Slurm, by the user's own ``sbatch``, ``squeue``, ``scontrol`` and ``scancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.clusters.slurm.backend import SlurmBackend

__all__ = ["SlurmBackend"]


def __getattr__(name: str) -> object:
    if name == "SlurmBackend":  # late: help reads the options beside it at each key
        from submarine_engine.clusters.slurm.backend import SlurmBackend  # noqa: PLC0415

        return SlurmBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
