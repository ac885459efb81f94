"""Tensors of torch on a GPU travel by the CPU, and are on the job's GPU where it has one.

By a double of torch with what the reducer uses: tests have no GPU, and torch none without one.
"""

import pickle
import sys
import types

import pytest
from submarine_engine.bundle.capture import Capture


class Tensor:
    def __init__(self, data, place="cpu", *, requires_grad=False):
        self.data, self.place, self.requires_grad = data, place, requires_grad

    @property
    def is_cuda(self):
        return self.place == "cuda"

    def detach(self):
        return Tensor(self.data, self.place)

    def cpu(self):
        return self.to("cpu")

    def to(self, place):
        return type(self)(self.data, place, requires_grad=self.requires_grad)

    def requires_grad_(self):
        self.requires_grad = True
        return self


class Parameter(Tensor):
    pass


def rebuild_parameter(data, requires_grad, hooks):
    assert hooks == {}
    return Parameter(data.data, data.place, requires_grad=requires_grad)


GPUS = [True]


def is_available():
    return GPUS[0]


@pytest.fixture
def torch(monkeypatch):
    module = types.SimpleNamespace(
        Tensor=Tensor,
        nn=types.SimpleNamespace(Parameter=Parameter),
        cuda=types.SimpleNamespace(is_available=is_available),
        _utils=types.SimpleNamespace(_rebuild_parameter=rebuild_parameter),
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(sys.modules[__name__], "GPUS", [True])


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("there", [True, False])
def test_tensors_are_on_the_gpu_of_the_job_where_it_has_one(there):
    weights = Parameter([1, 2], "cuda", requires_grad=True)
    state = {"weights": weights, "tied": weights, "plain": Tensor([3], "cuda"), "host": Tensor([4])}
    state["leaf"] = Tensor([5], "cuda", requires_grad=True)
    capture = Capture()
    capture.add("state", state)
    content = capture.finish().files["values/state.pkl"]
    GPUS[0] = there
    back = pickle.loads(content)  # noqa: S301 - our own
    place = "cuda" if there else "cpu"
    assert type(back["weights"]) is Parameter
    assert back["weights"] is back["tied"]
    assert [back[key].place for key in ("weights", "plain", "leaf", "host")] == [
        *[place] * 3,
        "cpu",
    ]
    assert [back[key].requires_grad for key in ("weights", "plain", "leaf")] == [True, False, True]
    assert back["weights"].data == [1, 2]
