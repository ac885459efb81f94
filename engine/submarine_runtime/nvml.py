"""Asks NVIDIA's library (NVML) what GPUs do, without its Python package; `metrics` calls it.

``SUBMARINE_NVML`` names another library of the same functions; NVML reference manual, chapters 4.11
and 4.12.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Gpu = ctypes.c_void_p
"""What NVML calls a device by."""

_LIBRARY = "libnvidia-ml.so.1"


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Nvml:
    """The library, loaded when a GPU is first asked for; a machine without it has no GPUs.

    Parameters
    ----------
    load
        Loads a library by its name.
    """

    def __init__(self, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._load_library = load
        self._library: Any = None

    def gpus(self, visible: str | None) -> list[Gpu]:
        """Return those GPUs that a task sees.

        Parameters
        ----------
        visible
            As ``CUDA_VISIBLE_DEVICES`` has them: indices or UUIDs, of MIG devices, too. None for
            all that the library shows.
        """
        if visible == "" or not self._load():
            return []
        return list(self._all() if visible is None else self._named(visible))

    def _load(self) -> bool:
        if self._library is None:
            try:
                library = self._load_library(os.environ.get("SUBMARINE_NVML") or _LIBRARY)
                if library.nvmlInit_v2() != 0:
                    return False
            except (OSError, AttributeError):
                return False
            self._library = library
        return True

    def _all(self) -> Iterator[Gpu]:
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            yield from self._named(",".join(map(str, range(count.value))))

    def _named(self, visible: str) -> Iterator[Gpu]:
        for name in filter(None, map(str.strip, visible.split(","))):
            found = Gpu()
            if name.isdecimal():
                call, named = "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(name))
            else:
                call, named = "nvmlDeviceGetHandleByUUID", ctypes.c_char_p(name.encode())  # type: ignore[assignment] # likewise
            if getattr(self._library, call)(named, ctypes.byref(found)) == 0:
                yield found

    def use(self, gpu: Gpu) -> tuple[int | None, int | None]:
        """Return how busy a GPU is, in percent, and bytes of its memory; None for what it hides.

        Parameters
        ----------
        gpu
            One of `gpus`. A MIG device does not tell how busy it is.
        """
        busy, memory = _Utilization(), _Memory()
        tells = self._library.nvmlDeviceGetUtilizationRates(gpu, ctypes.byref(busy)) == 0
        holds = self._library.nvmlDeviceGetMemoryInfo(gpu, ctypes.byref(memory)) == 0
        return busy.gpu if tells else None, memory.used if holds else None
