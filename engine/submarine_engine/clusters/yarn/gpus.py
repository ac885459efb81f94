"""The cluster's GPUs as the ResourceManager accounts them: free and total, and who holds what."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from submarine_engine.clusters.base import Gpu, GpuRoom, GpuShare
from submarine_engine.clusters.yarn.hadoop_json import GPU, at, clean_line, listed, number
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.scheduler import (
    DEFAULT,
    Application,
    Node,
    Queue,
    alive,
    fits,
    read_nodes,
    read_scheduler,
)
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    import ssl

    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.job import JobSpec

_NODE_TIMEOUT = 1.5  # seconds: somebody waits for the table, and one dead node must not hold it up
_AT_ONCE = 16
_LARGEST_ANSWER = 1 << 20
_MOST_APPLICATIONS = 200  # one question each
_MOST_JOBS = 16  # for more there is another look


class Device(NamedTuple):
    """What a NodeManager tells of one GPU; `memory` in MiB."""

    minor: int
    uuid: str
    name: str
    memory: int | None


class Devices(NamedTuple):
    """The GPUs of a node; `assigned` says which container has which (by minor number).

    `assigned` is None where the NodeManager does not isolate GPUs, and so gives none by name.
    """

    found: Sequence[Device] = ()
    assigned: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """GPUs of one container."""

    container: str
    gpus: int
    application: Application


def cluster_gpus(rm: ResourceManager, home_jobs: Mapping[str, str] | None = None) -> list[Gpu]:
    """Return every GPU of the nodes that are up, and who holds each.

    Parameters
    ----------
    rm
        The ResourceManager.
    home_jobs
        Jobs of this home by the containers that they hold; applications made for one job tell it
        by their tags.

    Returns
    -------
    list of Gpu
        By host. Ids are UUIDs where the NodeManager tells which container has which GPU, else
        numbers: then only how many each one holds is known.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    nodes = [node for node in read_nodes(rm.get("/ws/v1/cluster/nodes")) if node.total.get(GPU)]
    nodes = [node for node in nodes if node.up or node.used.get(GPU)]
    if not nodes:
        return []
    holdings = _holdings(rm) if any(node.used.get(GPU) for node in nodes) else {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(nodes))) as pool:
        told_by = list(pool.map(lambda node: node_devices(node, rm.web_user, rm.node_tls), nodes))
    jobs = home_jobs or {}
    return [
        gpu
        for node, found in zip(nodes, told_by, strict=True)
        for gpu in node_gpus(node, found, holdings.get(node.id, []), jobs)
    ]


def node_gpus(
    node: Node, devices: Devices, holdings: Sequence[Holding], jobs: Mapping[str, str]
) -> Iterator[Gpu]:
    """Yield the GPUs of one node with their holders.

    Parameters
    ----------
    node
        Which node.
    devices
        Its GPUs, as it names them.
    holdings
        Which containers hold GPUs there.
    jobs
        The ids of this home's jobs by container.
    """
    count = node.total.get(GPU, 0)
    if devices.assigned is not None and len(devices.found) >= count:
        by_container = {holding.container: holding for holding in holdings}
        for device in devices.found:
            container = devices.assigned.get(device.minor)
            holding = by_container.get(container or "")
            yield _gpu(node, device.uuid, device, container, holding, jobs)
        return
    held = [holding for holding in holdings for _ in range(holding.gpus)][:count]
    unknown = max(0, min(count, node.used.get(GPU, 0)) - len(held))
    for index in range(count):
        one = devices.found[index] if index < len(devices.found) else None
        holding = held[index] if index < len(held) else None
        container = holding.container if holding else "?" if index < len(held) + unknown else None
        yield _gpu(node, str(index), one, container, holding, jobs)


def _gpu(  # noqa: PLR0913, PLR0917 - the columns of one line
    node: Node,
    gpu_id: str,
    device: Device | None,
    container: str | None,
    holding: Holding | None,
    jobs: Mapping[str, str],
) -> Gpu:
    application = holding.application if holding else None
    holder = None
    if container is not None:
        holder = "an application that you may not see"
        if application is not None:
            holder = f"{application.user}: {application.name} ({application.id})"
    return Gpu(
        id=gpu_id,
        name=device.name if device else "GPU",
        host=node.host,
        memory=device.memory if device else None,
        job_id=jobs.get(container or "") or (application.job_id if application else None),
        holder=holder,
        queue=application.queue.removeprefix("root.") if application else None,
    )


def _holdings(rm: ResourceManager) -> dict[str, list[Holding]]:
    """Return who holds GPUs, by node."""
    found: dict[str, list[Holding]] = {}
    holders = [application for application in alive(rm) if application.used.get(GPU)]
    for application in sorted(holders, key=lambda one: one.started)[:_MOST_APPLICATIONS]:
        for container in _containers(rm, application.id):
            gpus = gpus_of(container)
            if gpus:
                holding = Holding(clean_line(container.get("containerId"), 100), gpus, application)
                node = clean_line(container.get("nodeId") or container.get("assignedNodeId"), 200)
                found.setdefault(node, []).append(holding)
    return found


def _containers(rm: ResourceManager, app_id: str) -> list[Mapping[str, object]]:
    path = f"/ws/v1/cluster/apps/{quote(app_id, safe='')}/appattempts"
    try:
        attempts = listed(rm.get(path), "appAttempts", "appAttempt")
        newest = max(attempts, key=lambda one: number(one.get("id")), default={})
        attempt = str(at(newest, "appAttemptId") or "")
        if not attempt:
            return []
        return listed(rm.get(f"{path}/{quote(attempt, safe='')}/containers"), "container")
    except ClusterError:  # it ended meanwhile, or may not be seen
        return []


def gpus_of(container: Mapping[str, object]) -> int:
    """Return how many GPUs a container holds, by the ResourceManager's word."""
    entries = listed(container, "allocatedResources", "entry")
    return sum(number(one.get("value")) for one in entries if one.get("key") == GPU)


def node_devices(node: Node, user: str | None = "", tls: ssl.SSLContext | None = None) -> Devices:
    """Ask a NodeManager for its GPUs; none where it does not answer.

    Parameters
    ----------
    node
        Which node.
    user
        Who asks, where there is no Kerberos.
    tls
        What its certificate is checked with, where its pages are https.
    """
    try:
        connection = NodeConnection(node.web, user=user, timeout=_NODE_TIMEOUT, tls=tls)
        try:
            connection.get(f"/ws/v1/node/resources/{quote(GPU, safe='')}")
            return read_devices(json.loads(connection.body(_LARGEST_ANSWER)))
        finally:
            connection.close()
    except (ClusterError, ValueError, RecursionError):
        return Devices()


def read_devices(document: object) -> Devices:
    """Read `document`, a NodeManager's answer of ``/ws/v1/node/resources/yarn.io%2Fgpu``."""
    found = [
        Device(
            number(one.get("minorNumber")),
            clean_line(one.get("uuid"), 80),
            clean_line(one.get("productName"), 80) or "GPU",
            number(at(one, "gpuMemoryUsage", "totalMemoryMiB")) or None,
        )
        for one in listed(document, "gpuDeviceInformation", "gpus")
    ]
    if not listed(document, "totalGpuDevices"):
        return Devices(found)
    given = {number(one.get("minorNumber"), -1) for one in listed(document, "totalGpuDevices")}
    assigned = {
        number(one.get("minorNumber"), -1): clean_line(one.get("containerId"), 100)
        for one in listed(document, "assignedGpuDevices")
    }
    return Devices([device for device in found if device.minor in given], assigned)


def gpu_shares(rm: ResourceManager) -> list[GpuShare]:
    """Return what every node and every queue of `rm` has of the GPUs, and has free now.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    nodes = read_nodes(rm.get("/ws/v1/cluster/nodes"))
    nodes = tuple(node for node in nodes if node.up and node.total.get(GPU))
    free = sum(node.free[GPU] for node in nodes)
    shares = [GpuShare("node", node.host, node.free[GPU], node.total[GPU]) for node in nodes]
    for queue in read_scheduler(rm.get("/ws/v1/cluster/scheduler")).leaves:
        most, used = (queue.most or {}).get(GPU, 0), (queue.used or {}).get(GPU, 0)
        if most or used:
            name = queue.path.removeprefix("root.")
            shares.append(GpuShare("queue", name, max(0, min(most - used, free)), most))
    return shares


def gpu_room(rm: ResourceManager, spec: JobSpec) -> GpuRoom:
    """Return how many GPUs jobs like this one could have now, and for how many anybody waits.

    What waits in another queue that may take no more is not counted: it would get none of ours.

    Parameters
    ----------
    rm
        The ResourceManager.
    spec
        One of such jobs.

    Raises
    ------
    ClusterError
        The ResourceManager does not answer.
    """
    nodes = read_nodes(rm.get("/ws/v1/cluster/nodes"))
    scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
    mine = scheduler.find(spec.queue or DEFAULT)
    wanted = sum(_may_get(queue, of_ours=queue is mine) for queue in scheduler.leaves)
    each = spec.gpus or 0
    fit = 0
    while fit < _MOST_JOBS and fits(_times(spec, fit + 1), nodes, scheduler):
        fit += 1
    return GpuRoom(fit * each, wanted)


def _may_get(queue: Queue, *, of_ours: bool) -> int:
    """Return for how many GPUs a queue waits that it may still take: of its own any."""
    waiting = queue.waiting.get(GPU, 0)
    if of_ours or queue.most is None or queue.used is None or GPU not in queue.most:
        return waiting
    return max(0, min(waiting, queue.most[GPU] - queue.used.get(GPU, 0)))


def _times(spec: JobSpec, count: int) -> JobSpec:
    roles = (replace(role, count=role.count * count) for role in spec.roles)
    return replace(spec, roles=tuple(roles))
