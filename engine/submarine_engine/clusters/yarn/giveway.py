"""Warm masters stand in nobody's way: an idle one ends where others wait for what it holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn.foreign import GPU, MEMORY, VCORES, Amounts, lacking, plus
from submarine_engine.clusters.yarn.nodes import Node, read_nodes
from submarine_engine.clusters.yarn.scheduler import Queue, Scheduler, read_scheduler
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.masters import Masters
    from submarine_engine.clusters.yarn.rest import ResourceManager

_TURN = 1.0
# What a master may take at most: Hadoop's default rounds 256 MB up to that
# (yarn.scheduler.minimum-allocation-mb).
_MASTER = {MEMORY: 1024, VCORES: 1}


def give_way(masters: Masters, rm: ResourceManager, stop: threading.Event) -> None:
    """End idle masters, one a turn and queue, as long as others wait there for their place.

    A queue limits what all application masters in it may hold together
    (``maximum-am-resource-percent`` of YARN's capacity scheduler), warm ones among them, and they
    hold memory and a vcore that containers may lack. Whatever is asked for waits for a moment: what
    is held back is so in two looks a second apart. The ResourceManager is asked for nothing while
    no master is idle.

    Parameters
    ----------
    stop
        Ends it.
    """
    waited: set[str] = set()
    while not stop.wait(_TURN):
        idle = masters.idle_queues()
        wait = held_back(rm, idle) if idle else set()
        for queue in wait & waited:
            masters.end_idlest(queue)
        waited = wait


def held_back(rm: ResourceManager, idle: Mapping[str, int]) -> set[str]:
    """Return in which queues idle masters keep others waiting; none where the RM is silent.

    Parameters
    ----------
    idle
        How many there are, by queue.
    """
    with suppress(ClusterError):
        scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
        found = {name: scheduler.find(name) for name in idle}
        starting = {name for name, queue in found.items() if queue is not None and queue.pending}
        paths = {name: queue.path for name, queue in found.items() if queue is not None}
        wanting = [queue for queue in scheduler.leaves if _wanted(queue)]
        if not wanting:
            return starting
        nodes = [node for node in read_nodes(rm.get("/ws/v1/cluster/nodes")) if node.up]
        short = (
            name for one in wanting for name in _in_the_way(one, scheduler, nodes, idle, paths)
        )
        return {*starting, *short}
    return set()


def _wanted(queue: Queue) -> Amounts:
    return {name: queue.waiting[name] for name in (MEMORY, VCORES) if queue.waiting.get(name)}


def _in_the_way(
    queue: Queue,
    scheduler: Scheduler,
    nodes: list[Node],
    idle: Mapping[str, int],
    paths: Mapping[str, str],
) -> Iterator[str]:
    """Yield the queues whose idle masters hold what containers of `queue` lack.

    Where GPUs are lacking, or far more than idle masters hold, their end would help nobody.
    """
    wanted = _wanted(queue)
    if queue.waiting.get(GPU) and not any(node.free.get(GPU, 0) > 0 for node in nodes):
        return
    path = queue.path
    while path:
        limit = scheduler.find(path)
        below = {name for name, one in paths.items() if f"{one}.".startswith(f"{path}.")}
        if limit and limit.most is not None and limit.used is not None:
            room = plus(limit.most, limit.used, -1)
            if queue.waiting.get(GPU) and room.get(GPU, 1) <= 0:
                return
            if _would_do(wanted, room, sum(idle[name] for name in below)):
                yield from below
        path = path.rpartition(".")[0]
    count = sum(idle[name] for name in paths)
    if all(lacking(wanted, node.free) for node in nodes) and any(
        _would_do(wanted, node.free, count) for node in nodes
    ):
        yield from paths


def _would_do(wanted: Amounts, room: Amounts, masters: int) -> bool:
    """Return whether that does not fit, and would without so many masters."""
    freed = plus(room, _MASTER, masters)
    return bool(lacking(wanted, room)) and not lacking(wanted, freed)
