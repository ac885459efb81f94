"""Values travel as they are."""

import json
import os
import pickle
import subprocess
import sys
import types
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.bundle.capture import Capture


def captured(**values):
    capture = Capture()
    for name, value in values.items():
        capture.add(name, value, "In [3]")
    return capture.finish()


def loaded(found):
    """Return the variables as the script would have them."""
    names = {name: eval(source) for name, source in found.literals.items()}  # noqa: S307
    for load in found.loads:
        value = pickle.loads(found.files[load.path])  # noqa: S301
        names |= (
            {load.names[0]: value}
            if len(load.names) == 1
            else dict(zip(load.names, value, strict=True))
        )
    return names


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.sets(st.text() | st.integers())
        | st.frozensets(st.binary())
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from("abcdef"), plain))
def test_plain_values_come_back_as_they_were(values):
    found = captured(**values)
    assert loaded(found) == values
    assert {name: type(value) for name, value in loaded(found).items()} == {
        name: type(value) for name, value in values.items()
    }
    assert [value.name for value in found.values] == list(values)


@given(st.lists(st.text() | st.integers() | st.binary(), unique=True))
def test_the_order_in_which_a_set_was_filled_does_not_show(items):
    one, other = {"big": "x" * 300}, {"big": "x" * 300}
    backwards = items[::-1]
    one["set"], other["set"] = set(items), set(backwards)
    assert captured(value=one) == captured(value=other)


def test_hash_seeds_of_two_processes_do_not_show():
    code = (
        "from submarine_engine.bundle.capture import Capture\n"
        "words = {str(n) for n in range(200)}\n"
        "capture = Capture()\n"
        "capture.add('words', [words, frozenset(words), {'nested': {frozenset(words)}}])\n"
        "print(capture.finish().files)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=-1,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_small_plain_values_are_written_into_the_script():
    found = captured(rate=0.5, names=["a", "b"], big=list(range(1000)))
    assert found.literals == {"rate": "0.5", "names": '["a", "b"]'}
    assert [(v.name, v.how, v.type, v.cell) for v in found.values] == [
        ("rate", "literal", "float", "In [3]"),
        ("names", "literal", "list", "In [3]"),
        ("big", "pickle", "list", "In [3]"),
    ]
    assert list(found.files) == ["values/big.pkl"]
    assert found.values[2].size == len(found.files["values/big.pkl"])


class Model:
    def __init__(self):
        self.weights = [0.0]


class Optimizer:
    def __init__(self, weights):
        self.weights = weights


def test_what_two_values_have_in_common_stays_one():
    model = Model()
    optimizer = Optimizer(model.weights)
    found = captured(model=model, other=Model(), optimizer=optimizer, weights=model.weights)
    assert [load.names for load in found.loads] == [("model", "optimizer", "weights"), ("other",)]
    back = loaded(found)
    assert back["optimizer"].weights is back["model"].weights is back["weights"]
    assert found.literals == {}


@pytest.fixture
def main(monkeypatch):
    """Stand in for the notebook's ``__main__``."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)

    def run(source):
        exec(source, vars(module))  # noqa: S102 - as a cell
        return module

    return run


def test_definitions_of_the_notebook_are_reported_by_name(main):
    module = main(
        "import functools\n"
        "class Net:\n"
        "    class Layer: pass\n"
        "def loss(): pass\n"
        "@functools.lru_cache\n"
        "def cached(): pass\n"
        "value = {'layer': Net.Layer(), 'loss': functools.partial(loss), 'cached': cached}\n"
    )
    capture = Capture()
    assert capture.add("value", module.value, "In [1]") == {"Net", "loss", "cached"}
    assert capture.finish().loads[0].definitions == {"Net", "loss", "cached"}


def test_modules_that_a_value_refers_to_are_reported():
    found = captured(when=deque([json.JSONDecoder]))
    assert found.modules == ("collections", "json.decoder")


def test_values_that_hold_themselves_travel():
    ring = {"name": "ring", "set": {1, 2}}
    ring["self"] = ring
    back = loaded(captured(ring=ring))["ring"]
    assert back["self"] is back
    assert back["set"] == {1, 2}


def test_a_name_is_captured_once():
    capture = Capture()
    capture.add("x", 1, "In [1]")
    capture.add("x", 2, "In [2]")
    assert capture.finish().literals == {"x": "1"}
