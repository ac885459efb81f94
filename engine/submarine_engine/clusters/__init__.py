"""Clusters by name: ``local``, and whatever joins by the entry point ``submarine.clusters``."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from submarine_engine.errors import ConfigError

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster


def cluster_names() -> list[str]:
    """Return the names that `open_cluster` knows."""
    return sorted({"local", *(point.name for point in entry_points(group="submarine.clusters"))})


def open_cluster(name: str = "local") -> Cluster:
    """Return the cluster of that name.

    Raises
    ------
    ConfigError
        No cluster has that name.
    """
    if name == "local":  # the default needs no search through the installed packages
        from submarine_engine.clusters.local import LocalCluster  # noqa: PLC0415

        return LocalCluster()
    for point in entry_points(group="submarine.clusters"):
        if point.name == name:
            kind: type[Cluster] = point.load()
            return kind()
    raise ConfigError(
        f"there is no cluster {name!r}", fix=f"choose one of {', '.join(cluster_names())}"
    )
