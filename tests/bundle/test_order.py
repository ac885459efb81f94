"""Everything stands below what it needs, and else where it stood."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.bundle.script import ordered, reachable

nodes = st.integers(0, 9)
edges = st.dictionaries(nodes, st.sets(nodes, max_size=4), max_size=10)
upward = edges.map(lambda each: {n: {m for m in ms if m < n} for n, ms in each.items()})


@given(order=st.permutations(range(10)), needs=upward, wishes=edges)
def test_needs_are_met_whatever_is_wished(order, needs, wishes):
    found = ordered(order, needs, wishes)
    assert sorted(found) == list(range(10))
    for node, others in needs.items():
        assert all(found.index(other) < found.index(node) for other in others)


@given(order=st.permutations(range(10)), wishes=upward)
def test_wishes_are_met_where_no_need_is_against_them(order, wishes):
    assert ordered(order, {}, wishes) == ordered(order, wishes, {})


@given(order=st.permutations(range(10)))
def test_the_order_is_kept_where_nothing_is_against_it(order):
    assert ordered(order, {}, {}) == list(order)


@given(needs=edges, wishes=edges)
def test_circles_end(needs, wishes):
    assert sorted(ordered(range(10), needs, wishes)) == list(range(10))


def test_reachable_goes_through_everything():
    assert reachable([1], lambda node: [node + 1] if node < 5 else []) == {1, 2, 3, 4, 5}
    assert reachable([1], lambda node: [3 - node]) == {1, 2}
