"""Clusters by name: ``local``, and whatever joins by the entry point ``submarine.clusters``."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from submarine_engine.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from submarine_engine.clusters.base import Cluster, ClusterKind

# As its entry point says. The default is there without a search through the installed packages.
_BUILT_IN = {"local": "submarine_engine.clusters.local:LocalCluster"}

ANY = "any"
"""Stands for one of several, which `submarine_engine.clusters.choice` chooses for each job."""


def cluster_names() -> list[str]:
    """Return the names that `open_cluster` knows."""
    return sorted({*_BUILT_IN, *(point.name for point in _entry_points())})


def cluster_choices() -> list[str]:
    """Return what jobs may be told to go to: `cluster_names`, and `ANY`."""
    return [*(name for name in cluster_names() if name != ANY), ANY]


def configured_names() -> list[str]:
    """Return the names of the clusters that the user has: `Cluster.configured` says so."""
    points = [point for point in _entry_points() if point.name not in _BUILT_IN]
    return sorted({*_BUILT_IN, *(point.name for point in points if _is_configured(point))})


def open_cluster(name: str = "local") -> Cluster:
    """Return the cluster of that name.

    Raises
    ------
    ConfigError
        No cluster has that name, or it is `ANY`.
    """
    kind = cluster_kind(name)
    from submarine_engine.clusters.base import Cluster  # noqa: PLC0415 - `kind` has loaded it

    if issubclass(kind, Cluster):
        return kind()
    from submarine_engine.clusters.backend import Backend  # noqa: PLC0415 - of backends alone
    from submarine_engine.clusters.driver import KeptCluster  # noqa: PLC0415 - likewise
    from submarine_engine.history import default_home  # noqa: PLC0415 - likewise

    if not issubclass(kind, Backend):
        raise ConfigError(
            f"what the cluster {name!r} names is neither a `Cluster` nor a `Backend`",
            where=f"{kind!r}",
            fix='see the page "Write a cluster" of the documentation',
        )
    return KeptCluster(kind(default_home()))


def cluster_kind(name: str) -> type[ClusterKind]:
    """Return the class of a cluster: of a `Cluster`, or of a `Backend` that a keeper drives.

    Parameters
    ----------
    name
        As `open_cluster` has it.

    Raises
    ------
    ConfigError
        No cluster has that name, or packages that it needs are not installed.
    """
    if name == ANY:
        raise ConfigError(
            "it is no cluster of its own: one of several is chosen for each job",
            where=f"--cluster {ANY}",
            fix=f"name one here: {', '.join(configured_names())}",
        )
    if name in _BUILT_IN:
        from importlib import import_module  # noqa: PLC0415 - no supervisor needs it

        module, _, kind = _BUILT_IN[name].partition(":")
        built_in: type[ClusterKind] = getattr(import_module(module), kind)
        return built_in
    return _joined(name, tuple(sys.path))


@lru_cache(maxsize=32)
def _joined(name: str, path: tuple[str, ...]) -> type[ClusterKind]:  # noqa: ARG001 - of the cache
    """Return the class of a cluster that has joined by its entry point.

    Each job of a sweep opens its cluster, and the search reads a file of every installed package:
    that was half of what submitting one takes. A name that is not found is looked for again.
    """
    for point in _entry_points():
        if point.name == name:
            found: type[ClusterKind] = point.load()
            return found
    raise ConfigError(
        f"there is no cluster {name!r}", fix=f"choose one of {', '.join(cluster_choices())}"
    )


def _is_configured(point: EntryPoint) -> bool:
    try:
        kind: type[ClusterKind] = point.load()
    except (ConfigError, ImportError, AttributeError):
        return False  # its packages are not installed, or are of a release that had other names
    except Exception:  # noqa: BLE001 - whoever opens it is told why; it stops none of the others
        return True
    try:
        return kind.configured()
    except (ConfigError, ImportError):  # likewise, where it looks for them as late as here
        return False
    except Exception:  # noqa: BLE001 - as above: an `AttributeError` is a mistake in it now
        return True


def _entry_points() -> EntryPoints:
    # Late: every supervisor passes here, and this import is slower than the rest of it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group="submarine.clusters")
