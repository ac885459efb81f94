"""The ResourceManager's queues, as its scheduler tells them (``/ws/v1/cluster/scheduler``).

The three schedulers of Hadoop tell different things: the capacity scheduler all of it, the fair
scheduler no states and no access lists, the FIFO scheduler nothing but its one queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from submarine_engine.clusters.yarn.foreign import amounts, at, listed, number, told, usage

DEFAULT = "default"

_DEEPEST = 50
_UNLIMITED = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue; amounts are None where the scheduler does not tell them.

    Parameters
    ----------
    path
        ``root.a.b``.
    state
        ``RUNNING``, ``STOPPED`` or ``DRAINING``; empty where it is not told.
    leaf
        Whether applications can be in it.
    makes_children
        Whether the scheduler makes queues below it on demand.
    most, used
        What it may hold at most of the partition without a label, and holds now.
    waiting
        What containers that it has not given yet are asked for with, of that partition.
    largest
        The largest container that it gives.
    am_limit, am_used
        What application masters may hold at most in it, and hold now.
    user_am_limit
        The same for the masters of one user.
    users
        What the application masters of each user hold.
    shares
        What each user holds, and may hold, in all.
    applications, pending, max_applications
        Accepted and running ones; those of them not yet started; how many there may be.
    acls
        Who may submit: the lists of the queue and of all above it.
    labels
        Node labels that its applications may ask for; ``*`` for any.
    partitions
        What it may hold at most, by node label.
    """

    path: str
    state: str = ""
    leaf: bool = True
    makes_children: bool = False
    most: Mapping[str, int] | None = None
    used: Mapping[str, int] | None = None
    waiting: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] | None = None
    am_limit: Mapping[str, int] | None = None
    am_used: Mapping[str, int] | None = None
    user_am_limit: Mapping[str, int] | None = None
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    shares: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = field(default_factory=dict)
    applications: int = 0
    pending: int = 0
    max_applications: int | None = None
    acls: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    partitions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of its path, as people and applications call it."""
        return self.path.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler's kind (``capacity``, ``fair``, ``fifo``, or empty) and all its queues."""

    kind: str
    queues: tuple[Queue, ...]

    def find(self, wanted: str) -> Queue | None:
        """Return the queue of that path or, where only one leaf has it, of that name.

        The ResourceManager knows no other way to call one: ``root.a.b`` or ``b``, not ``a.b``.
        """
        for queue in self.queues:
            if queue.path == wanted:
                return queue
        named = [queue for queue in self.queues if queue.name == wanted]
        named = [queue for queue in named if queue.leaf] or named
        return named[0] if len(named) == 1 else None

    @property
    def leaves(self) -> tuple[Queue, ...]:
        """The queues that applications can be in."""
        return tuple(queue for queue in self.queues if queue.leaf)

    @property
    def strict(self) -> bool:
        """Whether a queue that is not told does not exist, so that it can be refused."""
        made = any(queue.makes_children for queue in self.queues)
        return self.kind == "capacity" and bool(self.leaves) and not made


def read_scheduler(document: object) -> Scheduler:
    """Read the answer of ``/ws/v1/cluster/scheduler``; nonsense gives one without queues."""
    info = at(document, "scheduler", "schedulerInfo")
    kind = told(at(info, "type"), 40).removesuffix("Scheduler")
    if kind == "capacity":
        return Scheduler(kind, tuple(_capacity(info, "", ())))
    if kind == "fair":
        return Scheduler(kind, tuple(_fair(at(info, "rootQueue"), 0)))
    if kind == "fifo":
        return Scheduler(kind, (Queue(path=DEFAULT, state=told(at(info, "qstate"), 40)),))
    return Scheduler("", ())


def _capacity(info: Any, above: str, acls: tuple[str, ...]) -> Iterator[Queue]:  # noqa: ANN401 - foreign JSON
    name = told(at(info, "queueName"), 200)
    path = f"{above}.{name}" if above else name
    if not name or path.count(".") > _DEEPEST:
        return
    acls = (*acls, *_submitters(info))
    below = listed(info, "queues", "queue")
    parent = bool(below) or info.get("queueType") == "parent"
    partitions = {
        str(one.get("partitionName") or ""): amounts(one.get("effectiveMaxResource")) or {}
        for one in listed(info, "capacities", "queueCapacitiesByPartition")
    }
    resources, users = info.get("resources"), listed(info, "users", "user")
    yield Queue(
        path=path,
        state=told(info.get("state"), 40),
        leaf=not parent,
        makes_children=parent and _makes_children(info),
        most=partitions.get("") or amounts(info.get("maxEffectiveCapacity")),
        used=usage(resources, "used", "") or amounts(info.get("resourcesUsed")),
        waiting=usage(resources, "pending", "") or {},
        largest=amounts(info.get("maximumAllocation")),
        am_limit=usage(resources, "amLimit", "") or amounts(info.get("AMResourceLimit")),
        am_used=usage(resources, "amUsed", "") or amounts(info.get("usedAMResource")),
        user_am_limit=amounts(info.get("userAMResourceLimit")),
        users={
            str(user.get("username")): amounts(user.get("AMResourceUsed")) or {} for user in users
        },
        shares={
            str(user.get("username")): (
                amounts(user.get("resourcesUsed")) or {},
                amounts(user.get("userResourceLimit")) or {},
            )
            for user in users
        },
        applications=number(info.get("numApplications")),
        pending=number(info.get("numPendingApplications")),
        max_applications=_limit(info.get("maxApplications")),
        acls=acls,
        labels=_labels(info),
        partitions=partitions,
    )
    for one in below:
        yield from _capacity(one, path, acls)


def _submitters(info: Mapping[str, Any]) -> list[str]:
    return [
        str(one.get("accessControlList") or "")
        for one in listed(info, "queueAcls", "queueAcl")
        if one.get("accessType") in ("SUBMIT_APP", "ADMINISTER_QUEUE")
    ]


def _makes_children(info: Mapping[str, Any]) -> bool:
    eligible = info.get("autoCreationEligibility", "off")
    return info.get("autoCreateChildQueueEnabled") is True or eligible not in ("off", None)


def _labels(info: Mapping[str, Any]) -> tuple[str, ...]:
    labels = info.get("nodeLabels")
    if isinstance(labels, str):
        labels = [labels]
    return tuple(map(str, labels)) if isinstance(labels, list) else ()


def _limit(value: object) -> int | None:
    limit = number(value, -1)
    return limit if 0 <= limit < _UNLIMITED - 1 else None


def _fair(info: object, depth: int) -> Iterator[Queue]:
    path = told(at(info, "queueName"), 400)
    if not path or not isinstance(info, Mapping) or depth > _DEEPEST:
        return
    below = listed(info, "childQueues", "queue") or listed(info, "childQueues")
    below = [one for one in below if one.get("queueName")]
    started, waiting = number(info.get("numActiveApps")), number(info.get("numPendingApps"))
    am_limit = amounts(info.get("amMaxResources")) or {}
    yield Queue(
        path=path,
        leaf=info.get("type") == "fairSchedulerLeafQueueInfo",
        makes_children=True,
        most=amounts(info.get("maxResources")),
        used=amounts(info.get("usedResources")),
        largest=amounts(info.get("maxContainerAllocation")),
        am_limit=am_limit if any(am_limit.values()) else None,  # all zero: not worked out yet
        am_used=amounts(info.get("amUsedResources")),
        applications=started + waiting,
        pending=waiting,
        max_applications=_limit(info.get("maxApps")),
    )
    for one in below:
        yield from _fair(one, depth + 1)
