"""Values travel as they are, or are refused with the place in them and the way out."""

import json
import multiprocessing
import os
import pickle
import queue
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import types
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import Cell
from submarine_engine.bundle.capture import Capture
from submarine_engine.errors import CannotTravelError, CaptureTooLargeError

MIB = 1024 * 1024


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


def refusal(**values):
    with pytest.raises(CannotTravelError) as caught:
        captured(**values)
    return caught.value


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


def test_an_object_of_a_class_that_was_run_again_is_refused(main):
    module = main("class Net: pass\nnet = [Net()]")
    main("class Net: pass")
    error = refusal(nets=module.net)
    assert "`nets[0]` was made by Net, which was defined anew since" in str(error)
    assert error.fix == "run the cell that makes it again"
    del module.Net
    assert "which was deleted since" in str(refusal(nets=module.net))


class Handle:
    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle


def generator():
    yield 1


async def coroutine():
    pass


class Refusing:
    def __reduce__(self):
        raise ValueError("I stay here")


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


class Silent:
    def __getstate__(self):
        raise UnspeakableError


class TwoArgumentsError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_open_things_are_refused_with_path_cell_and_way_out(tmp_path):
    with (tmp_path / "log").open("w") as file, socket.socket() as connection:
        error = refusal(config={"runs": [{"log": file}]})
        assert error.what.startswith('`config["runs"][0]["log"]` is an open file')
        assert error.where == "In [3]"
        assert "open it inside the job" in error.fix
        assert "`net.handle` is an open socket" in str(refusal(net=Handle(connection)))
        assert "`file` is an open file" in str(refusal(file=file))
    database = sqlite3.connect(":memory:")
    assert "`db[1]` is a database connection" in str(refusal(db=(1, database)))
    database.close()


def local_function(number):
    def inner():
        return number

    return inner


def local_class():
    class Inner:
        pass

    return Inner


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (threading.Lock, "a lock"),
        (threading.RLock, "a lock"),
        (threading.Event, "a lock or another"),
        (threading.Thread, "a thread"),
        (queue.Queue, "a queue"),
        (queue.SimpleQueue, "a queue"),
        (multiprocessing.Lock, "a tool of other processes"),
        (ThreadPoolExecutor, "a pool of threads"),
        (generator, "a generator"),
        (lambda: sys, "a module"),
        (lambda: lambda: 1, "a lambda"),
        (lambda: local_function(1), "defined inside a function"),
        (local_class(), "defined inside a function"),
        (sys._getframe, "a stack frame"),
        (lambda: memoryview(b"abc"), "a view on memory"),
    ],
)
def test_live_things_are_refused_by_what_they_are(make, words):
    error = refusal(things=[make()])
    assert error.what.startswith(f"`things[0]` is {words}")
    assert error.fix


def test_a_coroutine_is_refused():
    waiting = coroutine()
    assert "`waiting` is a coroutine" in str(refusal(waiting=waiting))
    waiting.close()


def test_the_shell_is_refused():
    shell = InteractiveShell()
    assert "`holder.handle` is the notebook's own shell" in str(refusal(holder=Handle(shell)))


class Device:
    platform = "gpu"


def foreign(module, **attributes):
    """Return an object of a class of another module, as a framework that is not here has it."""
    kind = type("Tensor", (), {"__module__": module, **attributes})
    return kind()


@pytest.mark.parametrize(
    "tensor",
    [
        foreign("torch", is_cuda=True, device=types.SimpleNamespace(type="cuda")),
        foreign("torch.nn.parameter", is_cuda=False, device=types.SimpleNamespace(type="mps")),
        foreign("jaxlib._jax", devices=lambda _: {Device()}),
        foreign("tensorflow.python", device="/job:localhost/replica:0/task:0/device:GPU:0"),
        foreign("cupy", __cuda_array_interface__={}),
    ],
    ids=lambda tensor: type(tensor).__module__,
)
def test_arrays_on_a_gpu_are_refused(tensor):
    error = refusal(state={"weights": tensor})
    assert '`state["weights"]` is an array on a device' in error.what
    assert ".cpu()" in error.fix


def test_objects_that_refuse_are_quoted():
    assert "`objects[1]` (Refusing) cannot be pickled: ValueError: I stay here" in str(
        refusal(objects=[1, Refusing()])
    ).replace(f"{__name__}.", "")
    assert "UnspeakableError: (its message cannot be shown)" in str(refusal(silent=Silent()))


def test_what_cannot_be_unpacked_is_refused():
    error = refusal(failure=TwoArgumentsError(1, 2))
    assert "can be packed but not unpacked again: TypeError" in error.what


def test_endless_nesting_is_refused():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert "nested too deeply" in str(refusal(nested=nested))


def test_values_that_hold_themselves_travel():
    ring = {"name": "ring", "set": {1, 2}}
    ring["self"] = ring
    back = loaded(captured(ring=ring))["ring"]
    assert back["self"] is back
    assert back["set"] == {1, 2}


def too_large(limit=MIB, **values):
    capture = Capture(limit)
    for number, (name, value) in enumerate(values.items()):
        capture.add(name, value, Cell(number=number, source=""))
    with pytest.raises(CaptureTooLargeError) as caught:
        capture.finish()
    return caught.value


def test_a_gigabyte_is_refused_without_a_copy_of_it():
    limit = resource.getrlimit(resource.RLIMIT_AS)
    table = np.zeros(1 << 27)  # the kernel gives zeros only when they are written to
    text = bytes(1 << 30)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 256 * MIB, limit[1]))
    try:
        error = too_large(table=table, small=[0] * 1000, text={"deep": [text]}, view=table[::2])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert error.what.splitlines() == [
        "the values that the job takes along need 2.5 GiB, and 1 MiB may travel:",
        "  table: 1 GiB, numpy.ndarray, In [0]",
        "  text: 1 GiB, dict, In [2]",
        "  view: more than 512 MiB, numpy.ndarray, In [3]",
        "  small: 2 KiB, list, In [1]",
    ]
    assert "--input_path" in error.fix
    assert "SUBMARINE_CAPTURE_LIMIT" in error.fix


def test_masses_of_small_objects_are_not_counted_to_their_end():
    endless = list(range(3_000_000))
    assert "more than 1 MiB, list" in too_large(endless=endless).what


def test_the_limit_holds_for_all_values_together():
    values = {name: os.urandom(MIB // 4) for name in "abcd"}
    assert "a: 256 KiB" in too_large(**values).what
    capture = Capture(2 * MIB)
    for name, value in values.items():
        capture.add(name, value)
    assert loaded(capture.finish()) == values


def test_what_is_in_two_values_counts_once():
    weights = [os.urandom(700 * 1024)]
    capture = Capture(MIB)
    capture.add("model", {"weights": weights})
    capture.add("optimizer", {"state": weights})
    capture.add("rest", os.urandom(100 * 1024))
    assert len(loaded(capture.finish())["rest"]) == 100 * 1024


def test_a_name_is_captured_once():
    capture = Capture()
    capture.add("x", 1, "In [1]")
    capture.add("x", 2, "In [2]")
    assert capture.finish().literals == {"x": "1"}
