"""Small pictures of what a job uses and reports, as they stand on its card."""

from __future__ import annotations

from collections.abc import Sequence

from submarine_engine.metrics import Curve

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.sweeps import corners, picture, placed

_SIZE = 120, 20


def curves_node(curves: Sequence[Curve]) -> Node | None:
    """Return a list of pictures, one of each of `curves`; None where there is nothing to draw."""
    return node("ul", "curves", *map(_curve, curves)) if curves else None


def _curve(curve: Curve) -> Node:
    edges = [(curve.points[0][0], edge) for edge in (curve.least, curve.most) if edge is not None]
    place = placed([*edges, *curve.points], _SIZE)
    line = Node("polyline", {"points": corners(map(place, curve.points))})
    drawn = picture("spark", _SIZE, f"{curve.name} over time, now {curve.last}", line)
    return node(
        "li", "curve", node("span", "name", curve.name), " ", drawn, " ",
        node("span", "quiet", curve.last),
    )  # fmt: skip
