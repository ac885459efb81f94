"""Whether a process that has imported libraries may be forked into jobs, and for which."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = ("antigravity", "horovod", "mpi4py", "pycuda.autoinit")
"""Modules whose import does something that cannot be shared: it joins a ring, opens a window."""

_TRIAL_TAKES = 60
_HARMLESS_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_OPENMP_OF_INTEL = "__KMP_REGISTERED_LIB_"


def unfit(before: set[str]) -> str | None:
    """Return in words why this process must not be forked into jobs; None where it may.

    Parameters
    ----------
    before
        The descriptors (`descriptors`) that were open before anything was imported.
    """
    return _by_name() or _by_descriptors(before) or _by_mappings() or _by_processes()


def descriptors() -> set[str]:
    """Return the descriptors that are open, and what each is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
        with suppress(OSError):
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")  # noqa: PTH115 - as above
    return found


def has_driver() -> bool:
    """Return whether CUDA's driver is loaded: what it was told of GPUs, it would tell a fork."""
    return any("/libcuda.so" in line or "/dev/nvidia" in line for line in _mappings())


def trial() -> str | None:
    """Let a fork of this process compute with what is loaded; return in words why it cannot."""
    if threads() and not _TRIALS.keys() & sys.modules.keys():
        return f"{threads()} threads of a library that is not known here"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _signal.alarm(_TRIAL_TAKES)  # its default ends the process: so does a hung library
            for name, compute in _TRIALS.items():
                if name in sys.modules:
                    compute()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return f"a fork of it cannot compute (exit code {code})" if code else None


def threads() -> int:
    """Return how many threads there are besides this one."""
    return len(os.listdir("/proc/self/task")) - 1  # noqa: PTH208 - names only


def _by_name() -> str | None:
    loaded = [name for name in NEVER if name in sys.modules]
    if loaded:
        return f"{loaded[0]} is loaded, which no fork survives"
    jax = sys.modules.get("jax._src.xla_bridge")
    if jax is not None and getattr(jax, "_backends", None):
        return "jax has begun to compute"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "torch has begun to use CUDA"
    return None


def _by_descriptors(before: set[str]) -> str | None:
    for entry in descriptors() - before:
        name, _, what = entry.partition(" ")
        if what in _HARMLESS_DEVICES or what == f"/proc/{os.getpid()}/fd":
            continue
        if not what.startswith("/") or what.startswith("/dev/") or _is_for_writing(name):
            return f"a library holds {what} open"
    return None


def _is_for_writing(descriptor: str) -> bool:
    with suppress(OSError, ValueError):
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:  # noqa: PTH123
            told = file.read().split()
        return bool(int(told[told.index("flags:") + 1], 8) & os.O_ACCMODE)
    return False  # it is closed: it was the listing's own


def _by_mappings() -> str | None:
    for line in _mappings():
        fields = line.split(maxsplit=5)
        if fields[1].startswith("rw") and fields[1].endswith("s"):
            what = fields[5].strip() if len(fields) > 5 else "memory"  # noqa: PLR2004 - as split
            if _OPENMP_OF_INTEL not in what:
                return f"a library shares {what} with its forks"
    return None


def _mappings() -> list[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.readlines()


def _by_processes() -> str | None:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        pass
    else:
        return "a library has started processes"
    module = sys.modules.get("threading")
    if module is not None and module.active_count() > 1:
        return "a library has started threads of Python"
    return None


def _try_numpy() -> None:
    numpy = sys.modules["numpy"]
    numpy.ones((300, 300)) @ numpy.ones((300, 300))


def _try_scipy() -> None:
    numpy, linear = sys.modules["numpy"], sys.modules["scipy.linalg"]
    linear.lu_factor(numpy.eye(300))


def _try_torch() -> None:
    torch = sys.modules["torch"]
    weights = torch.ones(300, 300, requires_grad=True)
    (weights @ weights).sum().backward()


def _try_jax() -> None:
    jax = sys.modules["jax"]
    jax.config.update("jax_platforms", "cpu")
    jax.jit(lambda x: x @ x)(jax.numpy.ones((8, 8))).block_until_ready()


def _try_tensorflow() -> None:
    tensorflow = sys.modules["tensorflow"]
    tensorflow.matmul(tensorflow.ones((300, 300)), tensorflow.ones((300, 300))).numpy()


_TRIALS: dict[str, Callable[[], None]] = {
    "numpy": _try_numpy,
    "scipy.linalg": _try_scipy,
    "torch": _try_torch,
    "jax": _try_jax,
    "tensorflow": _try_tensorflow,
}
