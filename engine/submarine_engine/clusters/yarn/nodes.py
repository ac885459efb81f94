"""The cluster's nodes, as the ResourceManager tells them (``/ws/v1/cluster/nodes``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from submarine_engine.clusters.yarn.foreign import (
    GPU,
    MEMORY,
    VCORES,
    amounts,
    in_words,
    listed,
    number,
    plus,
    told,
)

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
    """Read the answer of ``/ws/v1/cluster/nodes``, by host; nonsense gives none."""
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
        id=told(one.get("id"), 200),
        host=told(one.get("nodeHostName") or one.get("id"), 200),
        web=told(one.get("nodeHTTPAddress"), 200),
        state=told(one.get("state"), 40),
        report=told(one.get("healthReport"), 200),
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
    """Return in words what the node with the most GPUs, then memory, has in all."""
    if not nodes:
        return "none"
    node = max(nodes, key=lambda one: [one.total.get(name, 0) for name in (GPU, MEMORY, VCORES)])
    return f"{node.host} with {in_words(node.total)}"


def none_up(nodes: Sequence[Node]) -> str:
    """Return in words why no node takes containers."""
    if not nodes:
        return "the cluster has no node"
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state.lower()] = states.get(node.state.lower(), 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    report = next((node.report for node in nodes if node.report), "")
    return f"no node of the cluster takes containers ({counted})" + (report and f": {report}")
