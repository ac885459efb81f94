"""Memory of torch on a GPU travels by the CPU, to the GPU where it is loaded if there is one.

By a double of torch with what the reducer uses: tests have no GPU, and torch none without one.
"""

import pickle
import sys
import types

import pytest
from submarine_engine.bundle.capture import Capture


class UntypedStorage:
    def __init__(self, data, kind):
        self.data, self.device = bytes(data), types.SimpleNamespace(type=kind)

    def cpu(self):
        return self.to(device="cpu")

    def nbytes(self):
        return len(self.data)

    def to(self, *, device):
        return UntypedStorage(self.data, device)


UntypedStorage.__module__ = "torch.storage"  # by which the reducers know it


class Tensor:
    def __init__(self, storage=None):
        self.storage = storage

    def set_(self, storage):
        assert storage.device.type == "cpu"
        return Tensor(storage)

    def numpy(self):
        return bytearray(self.storage.data if self.storage else b"")

    def untyped_storage(self):
        return self.storage


def frombuffer(buffer, dtype):
    assert dtype == "uint8"
    return Tensor(UntypedStorage(buffer, "cpu"))


GPUS = [True]


def is_available():
    return GPUS[0]


@pytest.fixture
def torch(monkeypatch):
    module = types.SimpleNamespace(
        Tensor=Tensor,
        UntypedStorage=UntypedStorage,
        empty=lambda *_, **__: Tensor(),
        frombuffer=frombuffer,
        uint8="uint8",
        cuda=types.SimpleNamespace(is_available=is_available),
    )
    monkeypatch.setitem(sys.modules, "torch", module)


@pytest.mark.parametrize("there", [True, False])
def test_memory_is_on_the_gpu_of_the_job_where_it_has_one(torch, monkeypatch, there):
    weights, host = UntypedStorage(b"weights", "cuda"), UntypedStorage(b"host", "cpu")
    capture = Capture()
    capture.add("value", {"weights": weights, "tied": weights, "host": host})
    [load] = (captured := capture.finish()).loads
    monkeypatch.setattr(sys.modules[__name__], "GPUS", [there])
    back = pickle.loads(captured.files[load.path])  # noqa: S301 - our own
    assert back["weights"] is back["tied"]
    assert back["weights"].data == b"weights"
    assert back["weights"].device.type == ("cuda" if there else "cpu")
    assert (back["host"].data, back["host"].device.type) == (b"host", "cpu")
