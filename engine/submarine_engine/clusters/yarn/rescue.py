"""Logs and results of a container whose node shows them no more: from log aggregation."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.yarn.aggregated import Aggregation, aggregation, fetch_aggregated
from submarine_engine.clusters.yarn.foreign import at, number
from submarine_engine.clusters.yarn.logpage import LogsGoneError
from submarine_engine.clusters.yarn.master import FINAL
from submarine_engine.clusters.yarn.nodehttp import NodeConnection
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.container import Container
    from submarine_engine.clusters.yarn.keeper import Services

_PATIENCE = 60.0
_BETWEEN = 0.5
_MISSES = 10
_NODE = 2.0
_LARGEST = 1 << 20


def rescue(services: Services, app_id: str, container: Container) -> dict[str, Any] | None:
    """Bring home what log aggregation has of a container; the application's last report.

    Waits for an application that is ending, and for its logs to be gathered. A log that nobody has
    any more is left as it is.
    """
    until = time.monotonic() + _PATIENCE
    report: dict[str, Any] | None = None
    missed = 0
    while time.monotonic() < until:
        with suppress(ClusterError):
            report = services.rm.application(app_id)
            over = report["state"] in FINAL
            if over and aggregation(report) is not Aggregation.WAITING:
                break
            lost = _is_lost(services, container.node)
            missed += lost
            if missed > _MISSES:
                return report  # nobody gathers these logs
            if not over and _drained(container):
                return report
            missed += not lost and _has_forgotten(services, container)
        time.sleep(_BETWEEN)
    with suppress(ClusterError, LogsGoneError):
        source = fetch_aggregated(
            container.id,
            hadoop=services.conf.folder,
            scratch=container.files.root,
            names=("ALL",),
        )
        try:
            container.see(source)
            container.drain()
        finally:
            source.close()
    return report


def _drained(container: Container) -> bool:
    with suppress(ClusterError):
        return container.drain()
    return False


def _has_forgotten(services: Services, container: Container) -> bool:
    """Return whether the node has begun anew since the container began.

    One that restarts without recovery knows nothing of its containers, and so of their logs.
    """
    if container.started is None:
        return False
    connection = NodeConnection(container.node, user=services.conf.user, timeout=_NODE)
    try:
        connection.get("/ws/v1/node/info")
        told = json.loads(connection.body(_LARGEST))
    except ValueError:
        return False
    finally:
        connection.close()
    return number(at(told, "nodeInfo", "nmStartupTime")) / 1000 > container.started.wall


def _is_lost(services: Services, address: str) -> bool:
    """Return whether the ResourceManager counts on no node of that address."""
    return address not in (node.get("nodeHTTPAddress") for node in services.rm.nodes())
