"""Finding GPUs: NVML's answers, its errors, what an outer environment hides, and declarations."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.local import gpus
from submarine_engine.clusters.local.gpus import Device, inventory
from submarine_engine.errors import ResourcesError
from submarine_engine.job import JobSpec, Resources, Role


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(f"NVML error {value}")
        self.value = value


class NvmlDouble:
    """Answers as `pynvml` does, for GPUs that are not there.

    A GPU is ``(uuid, slices)``; slices are MIG devices' uuids, None where it cannot be divided.
    """

    NVMLError = NVMLError
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, *devices, broken=None):
        self.devices = devices
        self.broken = broken
        self.starts = 0
        self.running = False

    def nvmlInit(self):  # noqa: N802 - as NVML calls it
        self.starts += 1
        if self.broken is not None:
            raise NVMLError(self.broken)
        self.running = True

    def nvmlShutdown(self):  # noqa: N802
        self.running = False

    def nvmlDeviceGetCount(self):  # noqa: N802
        assert self.running
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.devices[index]

    def nvmlDeviceGetName(self, _handle):  # noqa: N802
        return b"NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return handle[0] if isinstance(handle, tuple) else handle

    def nvmlDeviceGetComputeRunningProcesses(self, _handle):  # noqa: N802
        return []

    def nvmlDeviceGetMemoryInfo(self, _handle):  # noqa: N802
        return SimpleNamespace(total=80 << 30)

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        if handle[1] is None:
            raise NVMLError(3)
        return int(bool(handle[1])), 0

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle):  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):  # noqa: N802
        if index >= len(handle[1]):
            raise NVMLError(6)
        return handle[1][index]


@pytest.fixture
def machine(monkeypatch):
    def build(*devices, broken=None, visible=None):
        double = NvmlDouble(*devices, broken=broken)
        monkeypatch.setitem(sys.modules, "pynvml", double)
        monkeypatch.setattr(gpus, "_found", None)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return double

    return build


def ids(found):
    return [device.id for device in found.devices]


def test_gpus_are_known_by_their_uuids(machine):
    double = machine(("GPU-aaa", None), ("GPU-bbb", []))
    found = inventory()
    assert found.devices[0] == Device("GPU-aaa", "NVIDIA H200", 80 << 30)
    assert ids(found) == ["GPU-aaa", "GPU-bbb"]
    assert not double.running


def test_a_divided_gpu_is_its_slices(machine):
    machine(("GPU-aaa", ["MIG-1", "MIG-2"]), ("GPU-bbb", []))
    assert ids(inventory()) == ["MIG-1", "MIG-2", "GPU-bbb"]


def test_nvml_is_asked_once_in_a_while(machine):
    double = machine(("GPU-aaa", None))
    for _ in range(5):
        inventory()
    assert double.starts == 1


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ["GPU-bbb"]),
        ("1,0", ["GPU-bbb", "GPU-aaa"]),
        ("GPU-b", ["GPU-bbb"]),
        ("", []),
        ("-1", []),
        ("0,9,1", ["GPU-aaa"]),
        ("0,0", ["GPU-aaa"]),
        ("GPU-", []),
    ],
)
def test_what_an_outer_environment_hides_stays_hidden(machine, visible, expected):
    machine(("GPU-aaa", None), ("GPU-bbb", None), visible=visible)
    assert ids(inventory()) == expected


def test_a_declaration_wins(machine):
    machine(("GPU-aaa", None), visible="")
    assert ids(inventory(3)) == ["0", "1", "2"]
    assert ids(inventory(0)) == []


def test_an_error_of_nvml_is_told_where_gpus_are_asked_for(machine, local):
    machine(broken=18)
    with pytest.raises(ResourcesError, match="NVML does not start: NVML error 18"):
        local.cluster.check(JobSpec(roles=(Role(resources=Resources(gpus=1)),)))
    assert local.cluster.check(JobSpec()).gpus == 0


def test_the_real_nvml_of_this_machine_answers_in_words(monkeypatch):
    import pynvml

    assert issubclass(pynvml.NVMLError, Exception)
    monkeypatch.setattr(gpus, "_found", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = inventory()
    assert all(device.id.startswith(("GPU-", "MIG-")) for device in found.devices)
    assert found.devices or found.problem or not Path("/dev/nvidiactl").exists()


def test_no_nvml_is_no_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(gpus, "_found", None)
    assert inventory().devices == ()


def test_uuids_are_what_the_job_sees_and_what_is_held(machine, local, tmp_path):
    machine(("GPU-aaa", None), ("GPU-bbb", None))
    gate = tmp_path / "gate"
    job_id = local.submit(
        "import os, time\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n",
        gpus=1,
    )
    assert local.cluster.gpus()[0].job_id == job_id
    gate.touch()
    story = local.follow(job_id)
    assert story.out == "GPU-aaa\n"
    assert [gpu.job_id for gpu in local.cluster.gpus()] == [None, None]
    assert {gpu.memory for gpu in local.cluster.gpus()} == {80 << 10}
