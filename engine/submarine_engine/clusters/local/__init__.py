"""The local cluster: jobs on this machine, no daemon, GPUs leased by file locks.

The class is loaded when it is first used: supervisor and keeper start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.clusters.local.cluster import LocalCluster

__all__ = ["LocalCluster"]


def __getattr__(name: str) -> object:
    if name == "LocalCluster":
        from submarine_engine.clusters.local.cluster import LocalCluster  # noqa: PLC0415 - late

        return LocalCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
