"""What makes a forked process the task that a fresh one would have been."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping

LATE = (
    "CUDA_VISIBLE_DEVICES",
    "SUBMARINE_CHECKPOINT_PATH",
    "SUBMARINE_INPUT_PATH",
    "SUBMARINE_JOB_ID",
    "SUBMARINE_LOGDIR",
    "SUBMARINE_TASK",
    "SUBMARINE_TASK_DIR",
)
"""Environment variables that may differ from job to job: no import reads them, which is watched."""

DRIVER = "SUBMARINE_DRIVER"
ROOM = "SUBMARINE_ZYGOTE"
"""Holds the place of ``SUBMARINE_JOB_ID`` in what the kernel shows of a process's environment."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_ARGUMENTS, _ENVIRONMENT = 45, 47  # in /proc/self/stat, counted behind the name: proc(5)
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Shown:
    """The memory from which ``/proc/PID/environ`` and ``cmdline`` are read.

    Supervisors and readers find a job's processes by them, and a fork has its parent's.

    Raises
    ------
    OSError
        The kernel does not say where they are, or `ROOM` and `DRIVER` are not in them.
    """

    def __init__(self) -> None:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = [int(field) for field in file.read().rpartition(")")[2].split()[1:]]
        at, end = fields[_ARGUMENTS - 1 : _ARGUMENTS + 1]
        self._arguments = at, end - at
        start, end = fields[_ENVIRONMENT - 1 : _ENVIRONMENT + 1]
        if not 0 < start < end:
            raise OSError("the kernel does not say where the environment is")
        text = b"\0" + ctypes.string_at(start, end - start)
        self._room = self._find(text, start, f"{ROOM}=")
        self._driver = self._find(text, start, f"{DRIVER}=1")

    @staticmethod
    def _find(text: bytes, start: int, entry: str) -> tuple[int, int]:
        at = text.find(f"\0{entry}".encode())
        if at < 0:
            raise OSError(f"there is no {entry} in the environment")
        return start + at, text.index(b"\0", at + 1) - at - 1

    def become(self, job_id: str, arguments: list[str]) -> None:
        """Show the process as one of a job, started with these arguments."""
        _write(self._room, f"SUBMARINE_JOB_ID={job_id}".encode())
        _write(self._driver, f"{DRIVER}=0".encode())
        line = b"\0".join(os.fsencode(argument) for argument in arguments)
        if len(line) < self._arguments[1]:
            _write(self._arguments, line)


def _write(place: tuple[int, int], data: bytes) -> None:
    at, size = place
    ctypes.memmove(at, data.ljust(size, b"\0"), size)


def become_subreaper() -> None:
    """Make whatever loses its parent below this process its child."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; whether the parent still lives."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def set_environment(late: Mapping[str, str]) -> None:
    """Give the process those variables of `LATE` that its job has."""
    for name in LATE:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in late.items() if name in LATE})


def refresh() -> None:
    """Renew what libraries drew or noted when they were imported; a fork has its parent's.

    `random` and OpenSSL see to themselves. What code seeds itself stays as it is seeded.
    """
    modules = sys.modules
    with suppress(Exception):
        if "numpy.random" in modules:
            modules["numpy.random"].seed()
    with suppress(Exception):
        if "torch" in modules:
            # Not `torch.seed`, which would seed GPUs too: those have the same seed in each process.
            modules["torch"].default_generator.seed()
    with suppress(Exception):
        if "multiprocessing.process" in modules:
            modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    with suppress(Exception):
        if "uuid" in modules:
            modules["uuid"].__dict__["_last_timestamp"] = None
    with suppress(Exception):
        if "logging" in modules:  # times of records count from there
            names = modules["logging"].__dict__
            names["_startTime"] = (
                time.time_ns() if isinstance(names["_startTime"], int) else time.time()
            )
