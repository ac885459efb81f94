"""Literals come back exactly as they were, in the layout of a formatter."""

import ast
import copy
import math
import struct
import subprocess
import sys
from collections import OrderedDict
from enum import IntEnum

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from submarine_engine.bundle.source import LONGEST, in_order, literal, quoted
from submarine_engine.bundle.values import same

floats = st.floats(allow_nan=True, allow_infinity=True)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | floats
    | st.complex_numbers()
    | st.text(max_size=60)
    | st.binary(max_size=30)
)
hashable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.binary(max_size=5),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4),
    max_leaves=6,
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(hashable, inner, max_size=5)
        | st.sets(hashable, max_size=5)
    ),
    max_leaves=12,
)


def alike(left, right):
    """Return whether two values are the same to the last bit, order of dicts included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, complex):
        return alike(left.real, right.real) and alike(left.imag, right.imag)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, dict):
        return alike(list(left), list(right)) and alike(list(left.values()), list(right.values()))
    return left == right


@given(values)
def test_what_has_a_literal_comes_back_exactly(value):
    source = literal(value, "x = ")
    if source is not None:
        assert alike(eval(source), value)  # noqa: S307 - the point


@given(values)
def test_a_value_is_the_same_as_a_copy(value):
    assert same(value, copy.deepcopy(value))


@pytest.mark.parametrize("other", [True, 1.0, 2])
@pytest.mark.parametrize(
    "held",
    [
        *(lambda one: {one, "a"}, lambda one: {(one,)}, lambda one: [{one}], lambda one: {one: 3}),
        *(lambda one: frozenset([one]), lambda one: {frozenset([one])}, lambda one: {3: {one}}),
    ],
)
def test_values_that_are_equal_but_of_other_types_are_not_the_same(held, other):
    assert same(held(1), held(1))
    assert not same(held(1), held(other))
    assert not same(held(other), held(1))


@given(st.text(), st.sampled_from("'\""))
def test_any_text_can_be_quoted_either_way(text, quote):
    assert ast.literal_eval(quoted(text, quote)) == text
    assert ast.literal_eval(quoted(text)) == text
    assert ast.literal_eval(quoted(text.encode("utf-8", "surrogatepass"))) == text.encode(
        "utf-8", "surrogatepass"
    )


@settings(max_examples=6, phases=[Phase.generate])  # a process each: no search for the smallest
@given(st.lists(values, min_size=30, max_size=60))
def test_a_formatter_leaves_every_literal_as_it_is(many):
    sources = [literal(value, f"name_{index} = ") for index, value in enumerate(many)]
    script = "".join(f"name_{i} = {s}\n" for i, s in enumerate(sources) if s is not None)
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    done = subprocess.run(ruff, input=script.encode(), capture_output=True, check=True)
    assert done.stdout.decode() == script


def test_a_long_dict_is_laid_out_over_lines():
    config = {"layers": [128, 64, 32], "activation": "relu", "rates": {"start": 1e-3, "end": 1e-5}}
    config["note"] = "a text that makes the line too long"
    assert literal(config, "config = ") == (
        "{\n"
        '    "layers": [128, 64, 32],\n'
        '    "activation": "relu",\n'
        '    "rates": {"start": 0.001, "end": 1e-05},\n'
        '    "note": "a text that makes the line too long",\n'
        "}"
    )


@pytest.mark.parametrize(
    ("value", "source"),
    [
        (math.inf, 'float("inf")'),
        (-math.inf, 'float("-inf")'),
        (-0.0, "-0.0"),
        ((1,), "(1,)"),
        (set(), "set()"),
        ({3, 1, 2}, "{1, 2, 3}"),
        (frozenset({"b", "a"}), 'frozenset({"a", "b"})'),
        ('say "hi"', "'say \"hi\"'"),
        ("it's", '"it\'s"'),
        ({1: {"b", "a"}}, '{1: {"a", "b"}}'),
    ],
)
def test_small_values_read_as_a_person_writes_them(value, source):
    assert literal(value) == source


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


shared: list[int] = [1]
recursive: list[object] = []
recursive.append(recursive)
deep: list[object] = []
for _ in range(50):
    deep = [deep]


@pytest.mark.parametrize(
    "value",
    [
        Level.LOW,
        Text("a"),
        OrderedDict(a=1),
        [Text("a")],
        object(),
        print,
        ...,
        bytearray(b"a"),
        [shared, shared],
        recursive,
        deep,
        "x" * LONGEST,
        list(range(LONGEST)),
        10**5000,
        struct.unpack("<d", b"\1\0\0\0\0\0\xf8\x7f")[0],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_or_not_be_read_has_no_literal(value):
    assert literal(value) is None


def test_sets_without_literals_keep_their_order():
    items = {object(), object()}
    assert in_order(items) == list(items)
    assert in_order({2, "b", 1, "a"}) == in_order({"a", 1, "b", 2})
