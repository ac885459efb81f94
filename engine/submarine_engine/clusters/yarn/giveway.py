"""Warm masters stand in nobody's way: an idle one ends where other applications wait to start."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn.scheduler import read_scheduler
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.masters import Masters
    from submarine_engine.clusters.yarn.rest import ResourceManager

_TURN = 1.0


def give_way(masters: Masters, rm: ResourceManager, stop: threading.Event) -> None:
    """End idle masters, one a turn and queue, as long as applications wait there to be activated.

    A queue limits what all application masters in it may hold together
    (``maximum-am-resource-percent`` of YARN's capacity scheduler), warm ones among them. Every
    application is pending for a moment: one that waits is so in two looks a second apart. The
    ResourceManager is asked for nothing while no master is idle.

    Parameters
    ----------
    stop
        Ends it.
    """
    waited: set[str] = set()
    while not stop.wait(_TURN):
        queues = masters.idle_queues()
        wait = waiting(rm, queues) if queues else set()
        for queue in wait & waited:
            masters.end_idlest(queue)
        waited = wait


def waiting(rm: ResourceManager, queues: set[str]) -> set[str]:
    """Return those of the queues in which an application waits; none where the RM is silent."""
    with suppress(ClusterError):
        scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
        found = {name: scheduler.find(name) for name in queues}
        return {name for name, queue in found.items() if queue is not None and queue.pending}
    return set()
