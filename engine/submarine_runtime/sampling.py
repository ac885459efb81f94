"""Starts the process that measures what tasks use (`metrics`).

The local cluster's supervisor, `eventpack` and `task` call it. It imports little, since tasks do.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "SUBMARINE_NVML")
_DRIVER = "SUBMARINE_DRIVER"
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from submarine_runtime.metrics import main; main(sys.argv[2:])"
)
_LATER = ("/bin/sh", "-c", '(sleep 1; exec "$@") &', "sh")


def start(tasks: Sequence[tuple[str, int, str | None]]) -> int:
    """Start the process, and return its id; it ends with the tasks, and with this process.

    Parameters
    ----------
    tasks
        Of each its folder, its process, and its GPUs as ``CUDA_VISIBLE_DEVICES`` has them; None
        for all that are seen.

    Raises
    ------
    OSError
        The machine can start no more.
    """
    return _spawn([*_words(os.getpid()), *(word for one in tasks for word in _task_words(*one))])


def start_later(folder: str) -> None:
    """Start it for this process, a task without a driver on its machine.

    A second from now, since the first line comes first; and as no child of this process, whose code
    may wait for any of its own. It ends with this process all the same.

    Parameters
    ----------
    folder
        The task's.
    """
    told = _task_words(folder, os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    with suppress(OSError):  # no shell, or no process more: the job goes on without
        os.waitpid(_spawn([*_LATER, *_words(0), *told]), 0)


def _words(starter: int) -> list[str]:
    home = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes long to import
    return [sys.executable, "-I", "-S", "-c", _START, home, str(starter)]


def _task_words(folder: str, pid: int, gpus: str | None) -> list[str]:
    return [folder, str(pid), "all" if gpus is None else f"={gpus}"]


def _spawn(words: list[str]) -> int:
    # No part of the job, neither for who measures that nor for who ends it.
    environment = {_DRIVER: "1"}
    environment |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    nothing = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_RDWR, 0) for one in (0, 1, 2)]
    return os.posix_spawn(words[0], words, environment, file_actions=nothing, setsigmask=())
