"""Clusters by name: ``local``, and whatever joins by the entry point ``submarine.clusters``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_engine.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from submarine_engine.clusters.base import Cluster


def cluster_names() -> list[str]:
    """Return the names that `open_cluster` knows."""
    return sorted({"local", *(point.name for point in _entry_points())})


def configured_names() -> list[str]:
    """Return the names of the clusters that the user has: `Cluster.configured` says so."""
    points = [point for point in _entry_points() if point.name != "local"]
    return sorted({"local", *(point.name for point in points if _is_configured(point))})


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
    for point in _entry_points():
        if point.name == name:
            kind: type[Cluster] = point.load()
            return kind()
    raise ConfigError(
        f"there is no cluster {name!r}", fix=f"choose one of {', '.join(cluster_names())}"
    )


def _is_configured(point: EntryPoint) -> bool:
    try:
        kind: type[Cluster] = point.load()
    except (ConfigError, ImportError):  # its packages are not installed
        return False
    return kind.configured()


def _entry_points() -> EntryPoints:
    # Late: every supervisor passes here, and this import is slower than the rest of it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group="submarine.clusters")
