"""The GPUs of this machine: found through NVML, or declared by ``SUBMARINE_LOCAL_GPUS``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.extras import install_extra

DECLARATION = "SUBMARINE_LOCAL_GPUS"

_FRESH = 60.0  # seconds: GPUs come and go only where somebody changes the machine (MIG, a driver)
_found: tuple[float, Inventory] | None = None


class Device(NamedTuple):
    """One GPU, or one slice of a GPU (MIG); `memory` in bytes, None where it is not known."""

    id: str
    name: str
    memory: int | None = None


class Inventory(NamedTuple):
    """The GPUs that may be used; `problem` says in words why there may be more."""

    devices: tuple[Device, ...]
    problem: str = ""


def inventory(declared: int | None = None) -> Inventory:
    """Return the GPUs that this process may give to jobs.

    NVML tells, asked once a minute at most, and an outer ``CUDA_VISIBLE_DEVICES`` is honoured.

    Parameters
    ----------
    declared
        The setting ``local_gpus``: a number wins over what NVML says, and the GPUs are called
        ``0``, ``1``, ….
    """
    if declared is not None:
        return Inventory(tuple(Device(str(i), "declared GPU") for i in range(declared)))
    found = _ask_once()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return found._replace(devices=_visible(found.devices, visible))


def _visible(devices: Sequence[Device], visible: str) -> tuple[Device, ...]:
    """Choose as CUDA does: by index or start of the UUID, up to the first that is not there."""
    chosen: list[Device] = []
    for word in filter(None, (word.strip() for word in visible.split(","))):
        if word.isdecimal():
            matches = list(devices[int(word) : int(word) + 1])
        else:
            matches = [device for device in devices if device.id.startswith(word)]
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen += matches
    return tuple(chosen)


def _ask_once() -> Inventory:
    global _found  # noqa: PLW0603 - starting NVML takes up to a second
    if _found is None or time.monotonic() - _found[0] > _FRESH:
        _found = time.monotonic(), _ask()
    return _found[1]


def _ask() -> Inventory:
    try:
        import pynvml  # noqa: PLC0415 - an optional extra
    except ImportError:
        if Path("/dev/nvidiactl").exists():
            return Inventory(
                (), f"this machine has NVIDIA GPUs, but NVML is missing: {install_extra('gpu')}"
            )
        return Inventory(())
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if error.value in absent and not Path("/dev/nvidiactl").exists():
            return Inventory(())  # a machine without GPUs
        return Inventory((), f"NVML does not start: {error}")
    try:
        return Inventory(tuple(_devices(pynvml)))
    except pynvml.NVMLError as error:
        return Inventory((), f"NVML does not answer: {error}")
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


_used: tuple[float, dict[str, int]] | None = None
_USED_FRESH = 1.0  # seconds: the scheduler looks five times in one, and starting NVML costs


def used_by_others(pool: Sequence[str]) -> dict[str, int]:
    """Return which GPUs other users' processes compute on, as NVML tells: the user's id by GPU.

    Only what NVML calls by its own id is asked for: of a declared GPU it knows nothing. A process
    that this machine's kernel does not show (it is in another container) does not count.

    Parameters
    ----------
    pool
        The GPUs that matter.
    """
    global _used  # noqa: PLW0603 - as in `_ask_once`
    if not any(gpu.startswith(("GPU-", "MIG-")) for gpu in pool):
        return {}
    if _used is None or time.monotonic() - _used[0] > _USED_FRESH:
        _used = time.monotonic(), _ask_used()
    return {gpu: uid for gpu, uid in _used[1].items() if gpu in pool}


def utilization() -> dict[str, int]:
    """Return how busy each GPU is, in percent, as far as NVML tells."""
    found = {}
    with suppress(ImportError):
        import pynvml  # noqa: PLC0415 - an optional extra

        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            for index in range(pynvml.nvmlDeviceGetCount()):
                with suppress(pynvml.NVMLError):  # a GPU that is divided does not tell
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
                    found[_text(pynvml.nvmlDeviceGetUUID(handle))] = int(rates.gpu)
            pynvml.nvmlShutdown()
    return found


def _ask_used() -> dict[str, int]:
    try:
        import pynvml  # noqa: PLC0415 - an optional extra
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    found = {}
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            whole = pynvml.nvmlDeviceGetHandleByIndex(index)
            for handle in list(_slices(pynvml, whole)) or [whole]:
                with suppress(pynvml.NVMLError):  # one that does not tell
                    for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                        with suppress(OSError):
                            uid = Path(f"/proc/{int(process.pid)}").stat().st_uid
                            if uid != os.geteuid():
                                found[_text(pynvml.nvmlDeviceGetUUID(handle))] = uid
    except pynvml.NVMLError:
        return found
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return found


def _devices(nvml: Any) -> Iterator[Device]:  # noqa: ANN401 - a module without types
    for index in range(nvml.nvmlDeviceGetCount()):
        whole = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _text(nvml.nvmlDeviceGetName(whole))
        for handle in list(_slices(nvml, whole)) or [whole]:
            memory = None
            with suppress(nvml.NVMLError):  # GPUs that share the machine's memory have none to tell
                memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            yield Device(_text(nvml.nvmlDeviceGetUUID(handle)), name, memory)


def _slices(nvml: Any, whole: Any) -> Iterator[Any]:  # noqa: ANN401 - likewise
    """Yield the MIG devices of a GPU that is divided, nothing for one that is not."""
    try:
        divided, _ = nvml.nvmlDeviceGetMigMode(whole)
    except nvml.NVMLError:  # a GPU that cannot be divided
        return
    if divided != nvml.NVML_DEVICE_MIG_ENABLE:
        return
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(whole)):
        with suppress(nvml.NVMLError):  # not every place holds a device
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, index)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
