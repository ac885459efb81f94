"""When two values that jobs have stored count as the same."""

from __future__ import annotations

import pytest
from submarine_engine.stored_values import StoredValue


def stored(value, digest):
    return StoredValue(type(value).__name__, 8, digest, (value,))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, True, False),
        ([1], [True], False),
        ([1, (2.0,)], [1, (2,)], False),
        ({"rate": 1}, {"rate": 1.0}, False),
        ({1: "a"}, {True: "a"}, False),
        ({0, 1}, {0, True}, False),
        ({"a": [1], "b": 2}, {"b": 2, "a": [1]}, True),
        ({"b", "a"}, {"a", "b"}, True),
        ((1, [2]), (1, [2]), True),
    ],
)
def test_values_are_the_same_with_their_types_alone(one, other, same):
    assert stored(one, "a").same(stored(other, "b")) is same


def test_values_of_one_digest_are_the_same_and_deep_ones_are_not_compared():
    not_a_number = [float("nan")]
    assert stored(not_a_number, "a").same(stored([float("nan")], "a"))
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert not stored(deep, "a").same(stored([deep], "b"))
