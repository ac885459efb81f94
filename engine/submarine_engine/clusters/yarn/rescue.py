"""Logs and results of a container whose node shows them no more: from log aggregation."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.yarn.aggregated import Aggregation, aggregation, fetch_aggregated
from submarine_engine.clusters.yarn.logpage import LogsGoneError
from submarine_engine.clusters.yarn.master import FINAL
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.container import Container
    from submarine_engine.clusters.yarn.keeper import Services

_PATIENCE = 60.0
_BETWEEN = 0.5
_MISSES = 10


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
            if _is_lost(services, container.node) and (missed := missed + 1) > _MISSES:
                return report  # nobody gathers these logs
            if not over and container.drain():
                return report
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


def _is_lost(services: Services, address: str) -> bool:
    """Return whether the ResourceManager counts on no node of that address."""
    return address not in (node.get("nodeHTTPAddress") for node in services.rm.nodes())
