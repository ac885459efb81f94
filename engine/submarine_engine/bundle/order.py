"""An order in which everything stands below what it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reachable(start: Collection[Node], edges: Callable[[Node], Collection[Node]]) -> set[Node]:
    """Return `start` and everything that `edges` lead to from there."""
    found = set(start)
    todo = list(start)
    while todo:
        for node in edges(todo.pop()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def ordered(
    nodes: Collection[Node],
    needs: Mapping[Node, Collection[Node]],
    wishes: Mapping[Node, Collection[Node]],
) -> list[Node]:
    """Return `nodes` in their order, but each below what it needs.

    Parameters
    ----------
    nodes
        In the order that they should keep where nothing is against it.
    needs
        What must stand above each node. Where nodes need each other in a circle, no order is
        right, and one of these is passed over.
    wishes
        What should stand above it where no need is against it.
    """
    rank = {node: index for index, node in enumerate(nodes)}
    above = {node: reachable([node], lambda n: needs.get(n, ())) for node in nodes}
    done: dict[Node, None] = {}
    active: set[Node] = set()

    def place(node: Node) -> None:
        if node in done or node in active:
            return
        active.add(node)
        for other in sorted(needs.get(node, ()), key=rank.__getitem__):
            place(other)
        for other in sorted(wishes.get(node, ()), key=rank.__getitem__):
            if not above[other] & active:
                place(other)
        active.remove(node)
        done[node] = None

    for node in nodes:
        place(node)
    return list(done)
