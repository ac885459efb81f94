"""What the ResourceManager tells: nodes, queues, applications; and why a job waits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from submarine_engine.clusters.yarn.hadoop_json import (
    GPU,
    MEMORY,
    VCORES,
    Amounts,
    amounts,
    at,
    clean_line,
    in_words,
    lacking,
    listed,
    number,
    plus,
    some,
    usage,
)

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.job import JobSpec


# The cluster's nodes, as the ResourceManager tells them (``/ws/v1/cluster/nodes``).


_UP = "RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: `state` is YARN's, `report` what its health script or disks say.

    `web` is its NodeManager's ``host:port``; `labels` the node labels it has.
    """

    id: str
    host: str
    web: str = ""
    state: str = _UP
    report: str = ""
    total: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @property
    def up(self) -> bool:
        """Whether it takes containers."""
        return self.state == _UP

    @property
    def free(self) -> dict[str, int]:
        """What it has left."""
        return plus(self.total, self.used, -1)

    def room(self, wanted: Mapping[str, int], there: Mapping[str, int]) -> int:
        """Return how many containers of `wanted` fit in `there` of it."""
        fits = [there.get(name, 0) // value for name, value in wanted.items() if value > 0]
        return max(0, min(fits, default=0))


def read_nodes(document: object) -> tuple[Node, ...]:
    """Read `document`, the answer of ``/ws/v1/cluster/nodes``, by host; nonsense gives none."""
    found = [_node(one) for one in listed(document, "nodes", "node")]
    return tuple(sorted(found, key=lambda node: (node.host, node.id)))


def _node(one: Mapping[str, object]) -> Node:
    used = amounts(one.get("usedResource"))
    total = amounts(one.get("totalResource"))
    if used is None:  # before Hadoop 3.0
        used = {
            MEMORY: number(one.get("usedMemoryMB")),
            VCORES: number(one.get("usedVirtualCores")),
        }
    if total is None:
        left = {
            MEMORY: number(one.get("availMemoryMB")),
            VCORES: number(one.get("availableVirtualCores")),
        }
        total = plus(used, amounts(one.get("availableResource")) or left)
    labels = one.get("nodeLabels")
    return Node(
        id=clean_line(one.get("id"), 200),
        host=clean_line(one.get("nodeHostName") or one.get("id"), 200),
        web=clean_line(one.get("nodeHTTPAddress"), 200),
        state=clean_line(one.get("state"), 40),
        report=clean_line(one.get("healthReport"), 200),
        total=total,
        used=used,
        labels=tuple(map(str, labels)) if isinstance(labels, list) else (),
    )


def with_label(nodes: Iterable[Node], label: str) -> tuple[Node, ...]:
    """Return the nodes that take containers and have that label; without one, all that take any.

    A container without a label may go to a labelled node where the label is not exclusive, and
    the nodes do not tell whether it is.
    """
    return tuple(node for node in nodes if node.up and (not label or label in node.labels))


def largest(nodes: Sequence[Node]) -> str:
    """Return in words what of `nodes` the one with the most GPUs, then memory, has in all."""
    if not nodes:
        return "none"
    node = max(nodes, key=lambda one: [one.total.get(name, 0) for name in (GPU, MEMORY, VCORES)])
    return f"{node.host} with {in_words(node.total)}"


def none_up(nodes: Sequence[Node]) -> str:
    """Return in words why none of the cluster's `nodes` takes containers."""
    if not nodes:
        return "the cluster has no node"
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state.lower()] = states.get(node.state.lower(), 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    report = next((node.report for node in nodes if node.report), "")
    return f"no node of the cluster takes containers ({counted})" + (report and f": {report}")


# The ResourceManager's queues, as its scheduler tells them (``/ws/v1/cluster/scheduler``).
#
# The three schedulers of Hadoop tell different things: the capacity scheduler all of it, the fair
# scheduler no states and no access lists, the FIFO scheduler nothing but its one queue.


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
    share
        How much of the cluster it is guaranteed, in percent; None where that is not told.
    loses
        Whether its containers may be preempted for another queue that has less than it is owed;
        so it is with none where the cluster does not preempt.
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
    share: float | None = None
    loses: bool = False
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
        """Return the queue of the path `wanted` or, where only one leaf has it, of that name.

        The ResourceManager knows no other way to call one: ``root.a.b`` or ``b``, not ``a.b``.
        """
        for queue in self.queues:
            if queue.path == wanted:
                return queue
        named = [queue for queue in self.queues if queue.name == wanted]
        named = [queue for queue in named if queue.leaf] or named
        return named[0] if len(named) == 1 else None

    def owed(self, queue: Queue) -> dict[str, int] | None:
        """Return what a queue may still take of what it is guaranteed; None where nobody tells."""
        whole = next((one.most for one in self.queues if one.path == "root"), None)
        if queue.share is None or queue.used is None or whole is None:
            return None
        mine = {name: int(value * queue.share / 100) for name, value in whole.items()}
        return plus(mine, queue.used, -1)

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
    """Read `document`, the answer of ``/ws/v1/cluster/scheduler``; nonsense gives no queues."""
    info = at(document, "scheduler", "schedulerInfo")
    kind = clean_line(at(info, "type"), 40).removesuffix("Scheduler")
    if kind == "capacity":
        return Scheduler(kind, tuple(_capacity(info, "", ())))
    if kind == "fair":
        return Scheduler(kind, tuple(_fair(at(info, "rootQueue"), 0)))
    if kind == "fifo":
        return Scheduler(kind, (Queue(path=DEFAULT, state=clean_line(at(info, "qstate"), 40)),))
    return Scheduler("", ())


def _capacity(info: Any, above: str, acls: tuple[str, ...]) -> Iterator[Queue]:  # noqa: ANN401 - foreign JSON
    name = clean_line(at(info, "queueName"), 200)
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
        state=clean_line(info.get("state"), 40),
        leaf=not parent,
        makes_children=parent and _makes_children(info),
        most=partitions.get("") or amounts(info.get("maxEffectiveCapacity")),
        used=usage(resources, "used", "") or amounts(info.get("resourcesUsed")),
        share=_percent(info.get("absoluteCapacity")),
        loses=info.get("preemptionDisabled") is False,
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


def _percent(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= 100 else None  # noqa: PLR2004 - as it is told


def _fair(info: object, depth: int) -> Iterator[Queue]:
    path = clean_line(at(info, "queueName"), 400)
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


# What a job asks for, and whether there is room for it now.


def fits(spec: JobSpec, nodes: Sequence[Node], scheduler: Scheduler) -> bool:
    """Whether all containers of a job would find room in what is free now.

    Parameters
    ----------
    spec
        The job.
    nodes
        All of the cluster's.
    scheduler
        The queues, as they are now.
    """
    each = _containers(spec)
    wanted = asked_for(spec)
    queue = scheduler.find(spec.queue or DEFAULT)
    path = queue.path if queue and not spec.options.get("node_label") else ""
    while path:
        found = scheduler.find(path)
        if found and found.most is not None and found.used is not None:
            room = plus(found.most, found.used, -1)
            if lacking({name: value for name, value in wanted.items() if name in room}, room):
                return False
        path = path.rpartition(".")[0]
    free = [node.free for node in with_label(tuple(nodes), spec.options.get("node_label", ""))]
    for one in sorted(each, key=lambda one: (one[GPU], one[MEMORY]), reverse=True):
        needed = {name: value for name, value in one.items() if value}
        place = next((n for n, there in enumerate(free) if not lacking(needed, there)), None)
        if place is None:
            return False
        free[place] = plus(free[place], one, -1)
    return True


def asked_for(spec: JobSpec) -> dict[str, int]:
    """Return what all containers of the job `spec` ask for together."""
    wanted: dict[str, int] = {}
    for one in _containers(spec):
        wanted = plus(wanted, one)
    return wanted


def _containers(spec: JobSpec) -> list[dict[str, int]]:
    return [
        {GPU: asked.gpus or 0, MEMORY: asked.memory or 0, VCORES: asked.vcores or 0}
        for role in spec.roles
        for asked in [role.resources] * role.count
    ]


# The applications of a cluster that are not over (``/ws/v1/cluster/apps``).


JOB_TAG = "submarine-job:"

_ALIVE = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One application: `used` it holds, `pending` it waits for, `diagnostics` the RM's words."""

    id: str
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    kind: str = ""
    diagnostics: str = ""
    tags: tuple[str, ...] = ()
    priority: int = 0
    started: int = 0
    used: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """Whether it waits for containers, or will as soon as its application master is up."""
        return self.state != "RUNNING" or any(value > 0 for value in self.pending.values())

    @property
    def job_id(self) -> str | None:
        """The Submarine job that it is for, by its tags."""
        found = (tag[len(JOB_TAG) :] for tag in self.tags if tag.startswith(JOB_TAG))
        return next(found, None)

    def before(self, other: Application) -> bool:
        """Whether the scheduler serves it before `other` of the same queue."""
        return (-self.priority, self.started, self.id) < (-other.priority, other.started, other.id)


def read_application(one: Mapping[str, Any]) -> Application:
    """Read one application of the ResourceManager's answer."""
    resources = one.get("resourceInfo")
    return Application(
        id=clean_line(one.get("id"), 80),
        name=clean_line(one.get("name"), 80),
        user=clean_line(one.get("user"), 80),
        queue=clean_line(one.get("queue"), 400),
        state=clean_line(one.get("state"), 40),
        kind=clean_line(one.get("applicationType"), 40),
        diagnostics=clean_line(one.get("diagnostics"), 1000),
        tags=tuple(tag.strip() for tag in str(one.get("applicationTags") or "").split(",")),
        priority=number(one.get("priority")),
        started=number(one.get("startedTime")),
        used=usage(resources, "used"),
        pending=usage(resources, "pending"),
    )


def alive(rm: ResourceManager, queue: str = "") -> list[Application]:
    """Return the applications that are not over, those of one queue (its path) where it is given.

    Parameters
    ----------
    rm
        The ResourceManager.
    queue
        A queue's path; empty for all queues.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    query = {
        "states": _ALIVE,
        "deSelects": "resourceRequests",
        **({"queue": queue} if queue else {}),
    }
    found = [
        read_application(one)
        for one in listed(rm.get("/ws/v1/cluster/apps", **query), "apps", "app")
    ]
    return [one for one in found if not queue or in_queue(one, queue)]


def one(rm: ResourceManager, app_id: str) -> Application:
    """Return an application, whatever became of it; raises as `alive` does.

    Parameters
    ----------
    rm
        The ResourceManager.
    app_id
        The application's id.
    """
    found = at(rm.get(f"/ws/v1/cluster/apps/{quote(app_id, safe='')}"), "app")
    return read_application(found if isinstance(found, Mapping) else {"id": app_id})


def in_queue(application: Application, queue: str) -> bool:
    """Whether an application is in the queue of that path; old releases tell its name alone."""
    return application.queue in (queue, queue.rsplit(".", 1)[-1])


# Why a job waits, and whether one more application master would make others wait.


_ORDER = (GPU, MEMORY, VCORES)
_HELD_BACK = re.compile(r"not yet activated\.\s*(?P<why>.*?)\s*(?:Details\s*:|$)")
# What Hadoop's own default asks for a master (yarn.app.mapreduce.am.resource.mb): room for one is
# left, since the scheduler lets only the first master of a queue go beyond the limit.
_ROOM_FOR_OTHERS = {MEMORY: 1536, VCORES: 1}


def waiting_reason(
    rm: ResourceManager, app_id: str | None, spec: JobSpec, *, ahead: int = 0
) -> tuple[int, str]:
    """Return how many jobs are ahead of one that waits, and why it waits, in words.

    Parameters
    ----------
    rm
        The ResourceManager.
    app_id
        Its application; None while it has none.
    spec
        The job, with every role's resources a number.
    ahead
        Jobs of the same application that asked before it.

    Returns
    -------
    tuple
        For example ``(2, "queue default: 4/4 GPUs in use, 2 jobs ahead")``.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    mine = one(rm, app_id) if app_id else None
    scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
    nodes = read_nodes(rm.get("/ws/v1/cluster/nodes"))
    wanted = (mine.queue if mine else "") or spec.queue or DEFAULT
    queue = scheduler.find(wanted)
    others = alive(rm, queue.path if queue else wanted)
    ahead += sum(
        other.waits and (mine is None or (other.id != mine.id and other.before(mine)))
        for other in others
    )
    why = _why(mine, spec, nodes, scheduler, queue)
    place = f", {ahead} {'job' if ahead == 1 else 'jobs'} ahead" if ahead else ""
    stopped = "" if not queue or queue.state in ("", "RUNNING") else f" ({queue.state.lower()})"
    return ahead, f"queue {clean_line(wanted, 80).removeprefix('root.')}{stopped}: {why}{place}"


def _why(
    mine: Application | None,
    spec: JobSpec,
    nodes: tuple[Node, ...],
    scheduler: Scheduler,
    queue: Queue | None,
) -> str:
    label = spec.options.get("node_label", "")
    usable = with_label(nodes, label)
    if not usable:
        return f"no node with the label {label!r} takes containers" if label else none_up(nodes)
    if mine is not None:
        held_back = _HELD_BACK.search(mine.diagnostics)
        if held_back and mine.state == "ACCEPTED":
            return held_back_words(held_back["why"], queue)
    wanted = _wanted(spec)
    reasons = [
        *_full_queues(wanted, scheduler, queue, label),
        *_full_user(wanted, mine, queue),
        *_full_nodes(wanted, usable),
        *_scattered(spec, usable),
    ]
    if reasons:
        return reasons[0]
    if mine is not None and mine.state == "ACCEPTED" and mine.diagnostics:
        return f"its application is starting: {_starting_words(mine.diagnostics)}"
    return f"{_use(wanted, usable)}; it is being placed"


def _starting_words(diagnostics: str) -> str:
    """Return what of the ResourceManager's words is for people: no time, no figures."""
    words = re.sub(r"^\[[^\]]*\]\s*", "", diagnostics).partition("Details :")[0]
    return clean_line(words, 200).rstrip(" .")


def held_back_words(why: str, queue: Queue | None) -> str:
    """Return in words that an application master may not start yet, with the queue's figures.

    Parameters
    ----------
    why
        The ResourceManager's words.
    queue
        The application's; None where it is not known.
    """
    said = clean_line(why, 200).rstrip(". ")
    words = f"its application master waits, the ResourceManager says: {said}"
    if queue is None or not queue.am_limit or not queue.am_used:
        return words
    limit, used = queue.am_limit, queue.am_used
    figures = [
        f"{used.get(name, 0)} of {some(name, limit[name])}"
        for name in (MEMORY, VCORES)
        if name in limit
    ]
    return f"{words} (masters hold {' and '.join(figures)})"


def _wanted(spec: JobSpec) -> dict[str, int]:
    total: dict[str, int] = {}
    for role in spec.roles:
        total = plus(total, _each(role.resources), role.count)
    return total


def _each(asked: object) -> dict[str, int]:
    names = {GPU: "gpus", MEMORY: "memory", VCORES: "vcores"}
    found = {name: getattr(asked, field, None) or 0 for name, field in names.items()}
    return {name: value for name, value in found.items() if value}


def _full_queues(
    wanted: Amounts, scheduler: Scheduler, queue: Queue | None, label: str
) -> Iterator[str]:
    """Yield what the queue, or one above it, has no room for."""
    path = queue.path if queue and not label else ""
    while path:
        found = scheduler.find(path)
        if found and found.most is not None and found.used is not None:
            lack = lacking(wanted, plus(found.most, found.used, -1))
            for name in (name for name in _ORDER if name in lack):
                whose = "" if found is queue else f"queue {found.path} above it has "
                yield f"{whose}{_of(name, found.used, found.most)} in use"
        path = path.rpartition(".")[0]


def _full_user(wanted: Amounts, mine: Application | None, queue: Queue | None) -> Iterator[str]:
    if mine is None or queue is None or mine.user not in queue.shares:
        return
    used, limit = queue.shares[mine.user]
    for name in _ORDER:
        # The scheduler stops a user who is over the limit, and lets one container go over it.
        if name in wanted and 0 < limit.get(name, 0) < used.get(name, 0):
            yield f"{mine.user} holds {_of(name, used, limit)} that one user may hold in it"


def _full_nodes(wanted: Amounts, nodes: tuple[Node, ...]) -> Iterator[str]:
    total, used = _sums(nodes)
    lack = lacking(wanted, plus(total, used, -1))
    for name in (name for name in _ORDER if name in lack):
        yield f"{_of(name, used, total)} of the cluster in use"


def _scattered(spec: JobSpec, nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield a role for whose containers there is room in all, but not on any one node."""
    for role in spec.roles:
        each = _each(role.resources)
        room = sum(node.room(each, node.free) for node in nodes)
        if room < role.count:
            name = next((name for name in _ORDER if name in each), MEMORY)
            free = ", ".join(f"{node.host} {max(0, node.free.get(name, 0))}" for node in nodes[:5])
            yield f"no node has {some(name, each.get(name, 0))} free beside the rest ({free} free)"


def _use(wanted: Mapping[str, int], nodes: tuple[Node, ...]) -> str:
    total, used = _sums(nodes)
    name = GPU if wanted.get(GPU) else MEMORY
    return f"{_of(name, used, total)} of the cluster in use"


def _sums(nodes: tuple[Node, ...]) -> tuple[dict[str, int], dict[str, int]]:
    total: dict[str, int] = {}
    used: dict[str, int] = {}
    for node in nodes:
        total, used = plus(total, node.total), plus(used, node.used)
    return total, used


def _of(name: str, used: Amounts, total: Amounts) -> str:
    return f"{used.get(name, 0)}/{some(name, total.get(name, 0))}"


def master_fits(
    rm: ResourceManager, queue: str | None, memory_mb: int, user: str | None = None
) -> bool:
    """Whether one more application master leaves other applications room to start.

    Judged by the queue's limits of masters and of applications; where the scheduler tells none,
    it fits. Room for a master of Hadoop's default size is left to others.

    Parameters
    ----------
    rm
        The ResourceManager.
    queue
        Name or path; None for ``default``.
    memory_mb
        What the master asks for, with one vcore.
    user
        Whose it is, since a queue may limit the masters of one user; None for who asks.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    found = read_scheduler(rm.get("/ws/v1/cluster/scheduler")).find(queue or DEFAULT)
    return found is None or masters_that_fit(found, memory_mb, user or rm.user) > 0


def masters_that_fit(queue: Queue, memory_mb: int, user: str = "") -> int:
    """Return how many such masters `queue` has room for beside one of another application.

    Parameters
    ----------
    queue
        Which queue.
    memory_mb
        What a master asks for.
    user
        Whose masters; empty for anybody's.
    """
    if queue.max_applications is not None and queue.applications + 1 >= queue.max_applications:
        return 0
    if queue.pending:
        return 0
    if queue.am_limit is None or queue.am_used is None:
        return _MANY
    each = {MEMORY: memory_mb, VCORES: 1}
    fits = _times(each, _left(queue.am_limit, plus(queue.am_used, _ROOM_FOR_OTHERS)))
    if user in queue.users and queue.user_am_limit:
        fits = min(fits, _times(each, _left(queue.user_am_limit, queue.users[user])))
    return fits


def _left(limit: Amounts, used: Amounts) -> dict[str, int]:
    """Return what is left of a limit, of those resources that it limits."""
    return {name: most - used.get(name, 0) for name, most in limit.items()}


def _times(each: Amounts, room: Amounts) -> int:
    fits = (room[name] // value for name, value in each.items() if name in room)
    return max(0, min(fits, default=_MANY))


_MANY = 1 << 20
