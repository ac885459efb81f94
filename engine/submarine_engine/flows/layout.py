"""Where a flow's nodes and edges stand in a picture: in layers, from the top down.

A flow is small, so this is the simple form of the usual way (Sugiyama): a node's layer is the
longest way that leads to it, an edge that passes layers gets a place in each of them, and a few
sweeps bring what is joined above one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from submarine_engine.flows.model import Flow

NODE_WIDTH, NODE_HEIGHT = 184.0, 46.0
"""Of a node's box, in pixels at the size at which the picture is drawn."""

_BETWEEN, _BELOW, _EDGE = 20.0, 58.0, 8.0
_PASSING = 24.0  # pixels that an edge takes in a layer that it passes
_SWEEPS = 4

Point = tuple[float, float]
_Item = tuple[str, str, int]  # a node (its name twice), or an edge in the layer of that number


@dataclass(frozen=True, slots=True)
class Edge:
    """From one node to another that follows it.

    Parameters
    ----------
    source, target
        Names of nodes.
    values
        Names of the values that travel on it; none where one only follows the other.
    points
        The points that it leads through: it comes out below `source`, and goes into the top of
        `target`. Between the points of a pair it leads from one layer to the next, between pairs
        through a layer.
    """

    source: str
    target: str
    values: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture of a flow.

    Parameters
    ----------
    nodes
        The middle of each node's box, by name, in the order in which they can run.
    edges
        All edges, by their targets in that order.
    width, height
        Of the whole picture.
    """

    nodes: Mapping[str, Point]
    edges: tuple[Edge, ...]
    width: float
    height: float


def layout(flow: Flow) -> Layout:
    """Return where the nodes and edges of a flow stand.

    Parameters
    ----------
    flow
        What to draw.
    """
    layer: dict[str, int] = {}
    for node in flow.order:
        layer[node.name] = 1 + max((layer[name] for name in node.follows), default=-1)
    ways = {
        (name, node.name): _way(name, node.name, layer)
        for node in flow.order
        for name in node.follows
    }
    rows: list[list[_Item]] = [[] for _ in range(max(layer.values()) + 1)]
    for name, at in layer.items():
        rows[at].append((name, name, at))
    joined: dict[_Item, list[_Item]] = {}
    for way in ways.values():
        for item in way[1:-1]:
            rows[item[2]].append(item)
        for one, other in pairwise(way):
            joined.setdefault(one, []).append(other)
            joined.setdefault(other, []).append(one)
    across = _across(rows, joined)
    left = min(x - _width(item) / 2 for item, x in across.items()) - _EDGE
    right = max(x + _width(item) / 2 for item, x in across.items()) + _EDGE
    across = {item: x - left for item, x in across.items()}
    reads: dict[tuple[str, str], list[str]] = {}
    for node in flow.order:
        for read in node.reads:
            reads.setdefault((read.node, node.name), []).append(read.name)
    return Layout(
        nodes={name: (across[name, name, at], _middle(at)) for name, at in layer.items()},
        edges=tuple(
            Edge(*ends, values=tuple(reads.get(ends, ())), points=tuple(_points(way, across)))
            for ends, way in ways.items()
        ),
        width=right - left,
        height=_middle(len(rows) - 1) + NODE_HEIGHT / 2 + _EDGE,
    )


def _way(source: str, target: str, layer: Mapping[str, int]) -> list[_Item]:
    passed = range(layer[source] + 1, layer[target])
    between: list[_Item] = [(source, target, at) for at in passed]
    return [(source, source, layer[source]), *between, (target, target, layer[target])]


def _width(item: _Item) -> float:
    return NODE_WIDTH if item[0] == item[1] else _PASSING


def _middle(layer: int) -> float:
    return _EDGE + NODE_HEIGHT / 2 + layer * (NODE_HEIGHT + _BELOW)


def _across(rows: list[list[_Item]], joined: Mapping[_Item, Sequence[_Item]]) -> dict[_Item, float]:
    """Return how far right each item stands; sorts the rows so that few edges cross."""
    x: dict[_Item, float] = {}
    for row in rows:
        x.update(zip(row, _apart(row, [0.0] * len(row)), strict=True))
    for _ in range(_SWEEPS):
        for order, step in ((rows, -1), (rows[::-1], 1)):
            for row in order:
                wanted = {
                    item: _mean([x[each] for each in joined.get(item, ()) if
                                 each[2] == item[2] + step]) for item in row
                }  # fmt: skip
                row.sort(key=lambda item: x[item] if (want := wanted[item]) is None else want)
                wants = [x[item] if wanted[item] is None else wanted[item] or 0.0 for item in row]
                x.update(zip(row, _apart(row, wants), strict=True))
    return x


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _apart(row: Sequence[_Item], wanted: Sequence[float]) -> list[float]:
    """Return places near the wanted ones where nothing of a row covers its neighbour."""
    apart = [(_width(one) + _width(other)) / 2 + _BETWEEN for one, other in pairwise(row)]
    right = list(wanted)
    for at, least in enumerate(apart, 1):
        right[at] = max(right[at], right[at - 1] + least)
    left = list(wanted)
    for at in range(len(apart) - 1, -1, -1):
        left[at] = min(left[at], left[at + 1] - apart[at])
    # Both leave room enough between neighbours, and so does what lies in the middle of them.
    return [(one + other) / 2 for one, other in zip(left, right, strict=True)]


def _points(way: Sequence[_Item], across: Mapping[_Item, float]) -> list[Point]:
    found = []
    for number, item in enumerate(way):
        y = _middle(item[2])
        if number:
            found.append((across[item], y - NODE_HEIGHT / 2))
        if number < len(way) - 1:
            found.append((across[item], y + NODE_HEIGHT / 2))
    return found
