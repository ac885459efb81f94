"""Why a job waits, and whether one more application master would make others wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn import applications
from submarine_engine.clusters.yarn.applications import Application
from submarine_engine.clusters.yarn.foreign import (
    GPU,
    MEMORY,
    VCORES,
    Amounts,
    lacking,
    plus,
    some,
    told,
)
from submarine_engine.clusters.yarn.nodes import Node, none_up, read_nodes, with_label
from submarine_engine.clusters.yarn.scheduler import DEFAULT, Queue, Scheduler, read_scheduler

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.job import JobSpec

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
    mine = applications.one(rm, app_id) if app_id else None
    scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
    nodes = read_nodes(rm.get("/ws/v1/cluster/nodes"))
    wanted = (mine.queue if mine else "") or spec.queue or DEFAULT
    queue = scheduler.find(wanted)
    others = applications.alive(rm, queue.path if queue else wanted)
    ahead += sum(
        other.waits and (mine is None or (other.id != mine.id and other.before(mine)))
        for other in others
    )
    why = _why(mine, spec, nodes, scheduler, queue)
    place = f", {ahead} {'job' if ahead == 1 else 'jobs'} ahead" if ahead else ""
    stopped = "" if not queue or queue.state in ("", "RUNNING") else f" ({queue.state.lower()})"
    return ahead, f"queue {told(wanted, 80).removeprefix('root.')}{stopped}: {why}{place}"


def _why(
    mine: Application | None,
    spec: JobSpec,
    nodes: tuple[Node, ...],
    scheduler: Scheduler,
    queue: Queue | None,
) -> str:
    label = spec.node_label or ""
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
    return told(words, 200).rstrip(" .")


def held_back_words(why: str, queue: Queue | None) -> str:
    """Return in words that an application master may not start yet, with the queue's figures."""
    words = f"its application master waits, the ResourceManager says: {told(why, 200).rstrip('. ')}"
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
    """Return how many such masters `queue` has room for beside one of another application."""
    if queue.max_applications is not None and queue.applications + 1 >= queue.max_applications:
        return 0
    if queue.pending:
        return 0
    if queue.am_limit is None or queue.am_used is None:
        return _MANY
    each = {MEMORY: memory_mb, VCORES: 1}
    left = plus(plus(queue.am_limit, queue.am_used, -1), _ROOM_FOR_OTHERS, -1)
    fits = _times(each, left)
    if user in queue.users and queue.user_am_limit:
        fits = min(fits, _times(each, plus(queue.user_am_limit, queue.users[user], -1)))
    return fits


def _times(each: Amounts, room: Amounts) -> int:
    return max(0, min(room[name] // value for name, value in each.items() if name in room))


_MANY = 1 << 20
