"""Objects of frameworks, by stand-ins; the real ones have notebooks of their own."""

import io
import pickle
import sys
import types
from typing import ClassVar

import pytest
from submarine_runtime import frameworks
from submarine_runtime.frameworks import Addresses, Indices, Nodes, reduced, shared, take_shared


class Device(types.SimpleNamespace):
    """As torch.device is."""


@pytest.fixture
def torch(monkeypatch):
    """Return a stand-in for torch whose GPU a test switches on."""
    there = types.SimpleNamespace(
        gpu=False,
        device=lambda kind, index=0: Device(type=kind, index=index),
        cuda=types.SimpleNamespace(is_available=lambda: there.gpu),
    )
    monkeypatch.setitem(sys.modules, "torch", there)
    return there


class State:
    """As accelerate's states are: one for a process."""

    _shared_state: ClassVar[dict] = {}


@pytest.mark.parametrize(
    ("device", "told_the_cpu", "gpu", "found"),
    [
        ("cpu", False, True, "cuda"),
        ("cuda", False, False, "cpu"),
        ("cuda", False, True, "cuda"),
        ("cpu", True, True, "cpu"),
        ("mps", False, True, "mps"),
    ],
)
def test_a_process_computes_on_the_device_that_there_is(torch, device, told_the_cpu, gpu, found):
    torch.gpu = gpu
    State._shared_state.clear()
    state = shared(State)
    held = {"device": Device(type=device, index=0), "_cpu": told_the_cpu, "num_processes": 1}
    take_shared(state, held)
    assert state.device.type == found
    assert shared(State).device is state.device


def test_what_no_package_is_known_for_is_left_to_pickle():
    assert reduced([1]) is NotImplemented
    assert frameworks.state_of(object()) is None


def test_a_step_in_making_something_is_loaded_as_what_it_gives():
    made = frameworks.Made(sorted, frameworks.Made(list, (3, 1)))
    assert pickle.loads(pickle.dumps(made)) == [1, 3]  # noqa: S301 - of this very test


def test_addresses_follow_the_list_that_they_are_of():
    layers = []
    tracker = types.SimpleNamespace(config={"layers": (None, layers)})
    addresses, layer = Addresses(tracker, "layers"), object()
    assert id(layer) not in addresses
    layers.append(layer)
    addresses.add(id(layer))
    assert id(layer) in addresses
    assert list(addresses) == [id(layer)]
    assert len(addresses) == 1


def test_indices_follow_what_the_process_calls_its_variables():
    variables = [object(), object()]
    optimizer = types.SimpleNamespace(_trainable_variables=variables, _var_key=id)
    indices = Indices(optimizer)
    assert indices[id(variables[1])] == 1
    assert id(indices) not in indices
    with pytest.raises(KeyError):
        indices[0]


def test_nodes_are_called_by_the_addresses_that_their_operations_have_here():
    class Node:
        def __init__(self, operation):
            self.operation = operation

    operation = types.SimpleNamespace(_inbound_nodes=[])
    nodes = operation._inbound_nodes = [Node(operation), Node(operation)]
    found = Nodes(types.SimpleNamespace(_nodes_by_depth={0: nodes[:1], 1: nodes[1:]}))
    assert list(found) == [f"{id(operation)}_ib-0", f"{id(operation)}_ib-1"]
    assert f"{id(operation)}_ib-1" in found
    assert "0_ib-0" not in found
    assert len(found) == 2


class Stateful:
    """As fastcore's, of which fastai's callbacks are: what it has recorded is in no pickle."""

    _stateattrs = ("preds",)

    def __init__(self):
        self.preds: list | None = None

    def __getstate__(self):
        return {name: held for name, held in vars(self).items() if name not in self._stateattrs}

    def __setattr__(self, name, value):
        if name == "locked":
            raise AttributeError(name)
        super().__setattr__(name, value)


class Pickler(pickle.Pickler):
    """As those that bundle values and bring them home."""

    reducer_override = staticmethod(reduced)


class Recorder(Stateful):
    """A callback; the learner holds it, and it the learner."""


def test_what_a_callback_of_fastai_has_recorded_travels(monkeypatch):
    monkeypatch.setattr(Stateful, "__module__", "fastcore.basics")
    callback = Recorder()
    callback.preds, callback.learner = [0.5, 0.25], {"cbs": [callback]}
    vars(callback)["locked"] = True
    assert not hasattr(pickle.loads(pickle.dumps(Recorder())), "preds")  # noqa: S301 - likewise

    written = io.BytesIO()
    Pickler(written).dump(callback)
    found = pickle.loads(written.getvalue())  # noqa: S301 - likewise
    assert type(found) is Recorder
    assert (found.preds, found.locked) == ([0.5, 0.25], True)
    assert found.learner["cbs"][0] is found
