"""A job of several containers takes all of them or none.

YARN grants containers one by one, and keeps those that it has granted for whoever asked. Two jobs
that each hold a part of what they need would wait for ever, with idle GPUs. So a gang

* asks only when all of it would fit into what is free now; until then it holds nothing,
* begins when its last container is there: each waits at a gate for that (`application`),
* gives back what it holds where the rest does not come within seconds, since somebody was quicker,
  waits a random time, and begins anew.

Jobs of one container may overtake a gang that waits: what it needs is not kept free for it.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn.foreign import GPU, MEMORY, VCORES, lacking, plus
from submarine_engine.clusters.yarn.nodes import Node, read_nodes, with_label
from submarine_engine.clusters.yarn.scheduler import DEFAULT, Scheduler, read_scheduler
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from submarine_engine.clusters.yarn.container import Container
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.job import JobSpec

GANG = "SUBMARINE_GANG"
"""Set in the containers of a gang: they wait at the gate."""

_LOOK = 1.0
_PATIENCE = 15.0
_BACK_OFF = (5.0, 15.0)
_UNSEEN = 5.0
_RING = 3.0
_RINGS = 5


class Gang:
    """When a job of several containers asks for them, and when it gives them back.

    Parameters
    ----------
    spec
        The job, with every role's resources a number.
    """

    def __init__(self, rm: ResourceManager, spec: JobSpec) -> None:
        self._rm = rm
        self._spec = spec
        self.size = len(spec.tasks)
        self._not_before = 0.0
        self._came = 0
        self._came_at = 0.0
        self._rung: dict[str, tuple[int, float]] = {}
        self._waits = False

    @property
    def is_one(self) -> bool:
        """Whether the job has several containers."""
        return self.size > 1

    @property
    def note(self) -> str:
        """What is said of it while it waits; empty for any other job."""
        return f"it takes all {self.size} containers at once" if self._waits else ""

    def may_ask(self) -> bool:
        """Whether all of it would fit now; looked at once a second."""
        if not self.is_one:
            return True
        now = time.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + _LOOK
        self._waits = True
        with suppress(ClusterError):
            scheduler = read_scheduler(self._rm.get("/ws/v1/cluster/scheduler"))
            nodes = read_nodes(self._rm.get("/ws/v1/cluster/nodes"))
            self._waits = not fits(self._spec, nodes, scheduler)
        return not self._waits

    def is_late(self, came: int) -> bool:
        """Whether `came` containers have waited for the rest for too long.

        It is not to be asked for again for a random time then.
        """
        now = time.monotonic()
        if came != self._came:
            self._came, self._came_at = came, now
        if not 0 < came < self.size or now - self._came_at < _PATIENCE:
            return False
        self._not_before = now + random.uniform(*_BACK_OFF)  # noqa: S311 - no secret
        self._came, self._waits = 0, True
        return True

    def open_gate(self, containers: Sequence[Container]) -> None:
        """Let all begin, once each is there. Said again to those that do not hear it."""
        if not self.is_one or not all(container.id for container in containers):
            return
        now = time.monotonic()
        for one in containers:
            rings, rung_at = self._rung.setdefault(one.id, (0, now))
            unseen = not one.is_live and now - rung_at > _UNSEEN  # nobody sees that it is there
            heard = one.started or one.over or one.released or rings == _RINGS
            if heard or not (one.at_gate or unseen) or (rings and now - rung_at < _RING):
                continue
            self._rung[one.id] = rings + 1, now
            with suppress(ClusterError):
                self._rm.signal(one.id, "OUTPUT_THREAD_DUMP")  # SIGQUIT


def fits(spec: JobSpec, nodes: Sequence[Node], scheduler: Scheduler) -> bool:
    """Whether all containers of a job would find room in what is free now."""
    each = [
        {GPU: asked.gpus or 0, MEMORY: asked.memory or 0, VCORES: asked.vcores or 0}
        for role in spec.roles
        for asked in [role.resources] * role.count
    ]
    wanted: dict[str, int] = {}
    for one in each:
        wanted = plus(wanted, one)
    queue = scheduler.find(spec.queue or DEFAULT)
    path = queue.path if queue and not spec.node_label else ""
    while path:
        found = scheduler.find(path)
        if found and found.most is not None and found.used is not None:
            room = plus(found.most, found.used, -1)
            if lacking({name: value for name, value in wanted.items() if name in room}, room):
                return False
        path = path.rpartition(".")[0]
    free = [node.free for node in with_label(tuple(nodes), spec.node_label or "")]
    for one in sorted(each, key=lambda one: (one[GPU], one[MEMORY]), reverse=True):
        needed = {name: value for name, value in one.items() if value}
        place = next((n for n, there in enumerate(free) if not lacking(needed, there)), None)
        if place is None:
            return False
        free[place] = plus(free[place], one, -1)
    return True
