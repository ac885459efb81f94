"""Where nodes and edges of a flow stand in its picture."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.bundle.model import Cell
from submarine_engine.flows.layout import NODE_HEIGHT, NODE_WIDTH, layout
from submarine_engine.flows.model import Flow, Node, Read


def flow_of(*follows):
    """Return a flow of nodes n0, n1, …; each is given the numbers of those that it follows."""
    cells = tuple(Cell(number=at + 1, source="x") for at in range(len(follows)))
    nodes = tuple(
        Node(name=f"n{at}", cells=(at + 1,), after=tuple(f"n{one}" for one in ones))
        for at, ones in enumerate(follows)
    )
    return Flow(name="f", cells=cells, nodes=nodes)


def test_what_follows_stands_below_and_side_by_side_what_may_run_so():
    drawn = layout(flow_of((), (0,), (0,), (1, 2)))
    (_, top), (left, mid), (right, level), (middle, low) = drawn.nodes.values()
    assert top < mid == level < low
    assert right - left >= NODE_WIDTH
    assert abs(middle - (left + right) / 2) < 1


def test_an_edge_names_its_values():
    cells = (Cell(number=1, source="x"), Cell(number=2, source="x"))
    reads = (Read(name="data", node="a"), Read(name="rate", node="a"))
    nodes = (
        Node(name="a", cells=(1,), binds=("data", "rate")),
        Node(name="b", cells=(2,), reads=reads),
    )
    (edge,) = layout(Flow(name="f", cells=cells, nodes=nodes)).edges
    assert (edge.source, edge.target, edge.values) == ("a", "b", ("data", "rate"))


def test_an_edge_that_passes_a_layer_passes_beside_its_nodes():
    drawn = layout(flow_of((), (0,), (0, 1)))
    x, y = drawn.nodes["n1"]
    (long,) = (one for one in drawn.edges if (one.source, one.target) == ("n0", "n2"))
    beside = [point[0] for point in long.points if abs(point[1] - y) <= NODE_HEIGHT / 2]
    assert len(beside) == 2
    assert all(abs(each - x) > NODE_WIDTH / 2 for each in beside)


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 12))
    return [tuple(draw(st.sets(st.integers(0, at - 1)))) if at else () for at in range(size)]


@given(graphs())
def test_no_node_covers_another_and_all_is_in_the_picture(follows):
    drawn = layout(flow_of(*follows))
    for (x, y), (other, level) in combinations(drawn.nodes.values(), 2):
        assert y != level or abs(x - other) >= NODE_WIDTH
    for x, y in drawn.nodes.values():
        assert NODE_WIDTH / 2 <= x <= drawn.width - NODE_WIDTH / 2
        assert NODE_HEIGHT / 2 <= y <= drawn.height - NODE_HEIGHT / 2
    assert len(drawn.edges) == sum(map(len, follows))
    for edge in drawn.edges:
        heights = [y for _, y in edge.points]
        assert heights == sorted(heights)
        assert drawn.nodes[edge.source][1] < drawn.nodes[edge.target][1]
        assert all(0 <= x <= drawn.width for x, _ in edge.points)
