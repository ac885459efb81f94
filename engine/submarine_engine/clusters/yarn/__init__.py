"""Hadoop YARN: jobs as GPU containers, through skein.

The class is loaded when it is first used: `submarine_engine` itself needs no cluster client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.cluster import YarnCluster

__all__ = ["YarnCluster"]


def __getattr__(name: str) -> object:
    if name == "YarnCluster":
        from submarine_engine.clusters.yarn.cluster import YarnCluster  # noqa: PLC0415 - late

        return YarnCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
