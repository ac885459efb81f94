"""Values that cannot leave the notebook's process: what to call them, and the way out of each."""

from __future__ import annotations

import io
import socket
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NoReturn

from submarine_runtime.lean import type_name

from submarine_engine.errors import CannotTravelError

_OPEN_IN_JOB = "open it inside the job: move that line into the cell or function that runs there"
_MAKE_IN_JOB = "make it inside the job: move that line into the cell or function that runs there"

_MOST_STEPS = 100_000
_LONGEST_KEY = 60

_LOCKS = (type(threading.Lock()), type(threading.RLock()))

# The first that fits counts. Classes by name are matched without importing anything.
_KINDS: tuple[tuple[tuple[type, ...] | str, str, str], ...] = (
    ((types.ModuleType,), "a module", "import it in the cell instead of keeping it in a value"),
    ((io.FileIO, io.BufferedIOBase, io.TextIOWrapper), "an open file", _OPEN_IN_JOB),
    ((socket.socket,), "an open socket", _OPEN_IN_JOB),
    (_LOCKS, "a lock", _MAKE_IN_JOB),
    ((threading.Thread,), "a thread", _MAKE_IN_JOB),
    ("queue.", "a queue", _MAKE_IN_JOB),
    ("_queue.", "a queue", _MAKE_IN_JOB),
    ("threading.", "a lock or another thread's tool", _MAKE_IN_JOB),
    ("multiprocessing.", "a tool of other processes", _MAKE_IN_JOB),
    ("concurrent.futures.", "a pool of threads or processes", _MAKE_IN_JOB),
    ("subprocess.", "a running process", _MAKE_IN_JOB),
    ("tempfile.", "a temporary file or folder", _OPEN_IN_JOB),
    ("sqlite3.", "a database connection", _OPEN_IN_JOB),
    ("psycopg", "a database connection", _OPEN_IN_JOB),
    ("pymysql.", "a database connection", _OPEN_IN_JOB),
    ("pyodbc.", "a database connection", _OPEN_IN_JOB),
    ("sqlalchemy.", "a database connection", _OPEN_IN_JOB),
    ("h5py.", "an open HDF5 file", _OPEN_IN_JOB),
    ((types.GeneratorType,), "a generator", "make it inside the job, or keep list(…) of it"),
    (
        (types.CoroutineType, types.AsyncGeneratorType),
        "a coroutine",
        "await it here, or make it inside the job",
    ),
    ((types.FrameType, types.TracebackType), "a stack frame", "leave it out of the value"),
    ((memoryview,), "a view on memory", "keep bytes(…) of it"),
    ((Iterator,), "an iterator", "make it inside the job, or keep list(…) of it"),
)


def gpu_of(value: object) -> str | None:
    """Return where an array lives that is not in the host's memory; None for all else.

    Asks by name and attributes, so that no framework is imported for it.
    """
    root = type(value).__module__.partition(".")[0]
    try:
        if root == "cupy" and hasattr(value, "__cuda_array_interface__"):
            return "GPU"
        # Typed storages warn when they are asked: they are on their way out of torch.
        if root == "torch" and "Storage" not in type(value).__name__ and hasattr(value, "is_cuda"):
            kind = str(value.device.type)  # type: ignore[attr-defined]
            return None if kind in ("cpu", "meta", "cuda") else kind  # CUDA's go through the CPU
        if root in ("jaxlib", "jax") and hasattr(value, "devices"):
            kinds = {str(device.platform) for device in value.devices()}
            return next(iter(sorted(kinds - {"cpu"})), None)
        if root == "tensorflow" and isinstance(getattr(value, "device", None), str):
            return "GPU" if "GPU" in value.device else None  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a foreign property; pickling will tell more
        return None
    return None


def refusal(value: object) -> tuple[str, str] | None:
    """Return what `value` is and the way out, where it must not travel although it may pickle."""
    if where := gpu_of(value):
        return (
            f"an array on a device ({where}) of this machine",
            "move it to the host's memory first: .cpu(), jax.device_get(…), .numpy() or .get()",
        )
    if any(kind.__module__ == "IPython.core.interactiveshell" for kind in type(value).__mro__):
        return "the notebook's own shell", "leave it out of the value"
    return None


def described(value: object) -> tuple[str, str] | None:
    """Return what a value that failed to pickle is and the way out; None where unknown."""
    if found := refusal(value):
        return found
    if isinstance(value, (types.FunctionType, type)) and "<" in value.__qualname__:
        if value.__name__ == "<lambda>":
            return "a lambda", "write it as a function with `def` in a cell of its own"
        return "defined inside a function", "define it at the top level of a cell"
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
    for test, words, fix in _KINDS:
        if isinstance(test, str):
            if any(name.startswith(test) for name in names):
                return words, fix
        elif isinstance(value, test):
            return words, fix
    return None


def refuse(name: str, value: object, cell: str, last: object, error: Exception) -> NoReturn:
    """Raise the `CannotTravelError` for the variable `name`, whose pickling failed at `last`."""
    if isinstance(error, RecursionError):
        what = f"`{name}` is nested too deeply to be pickled"
        raise CannotTravelError(what, where=cell, fix="make it inside the job") from None
    chain = chain_to(name, value, last) or [(f"something inside {name}", last)]
    if words := _outdated(last):
        raise CannotTravelError(f"`{chain[-1][0]}` {words[0]}", where=cell, fix=words[1]) from error
    # The outermost one tells most: a queue, not the lock inside it.
    for path, held in [*chain, (chain[-1][0], last)]:
        if words := described(held):
            what = f"`{path}` is {words[0]} ({type_name(held)}), and cannot leave this process"
            raise CannotTravelError(what, where=cell, fix=words[1]) from error
    raise CannotTravelError(
        f"`{chain[-1][0]}` ({type_name(chain[-1][1])}) cannot be pickled: {said(error)}",
        where=cell,
        fix="make it inside the job, or leave it out of the value",
    ) from error


def together(refused: Sequence[CannotTravelError]) -> CannotTravelError:
    """Return one error for all of them, each with its place and its way out."""
    if len(refused) == 1:
        return refused[0]
    lines = [
        f"  {error.where}: {error.what}" + (f"\n    → {error.fix}" if error.fix else "")
        for error in refused
    ]
    return CannotTravelError("\n".join([f"{len(refused)} values cannot travel:", *lines]))


def said(error: BaseException) -> str:
    """Return an error's type and message, also where its ``__str__`` raises."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _outdated(named: object) -> tuple[str, str] | None:
    """Return words for a function or class of the notebook that its name does not mean any more."""
    if getattr(named, "__module__", None) != "__main__":
        return None
    qualname = getattr(named, "__qualname__", None)
    if not isinstance(qualname, str) or "<" in qualname:
        return None
    now: object = sys.modules["__main__"]
    for step in qualname.split("."):
        now = getattr(now, step, None)
    if now is named:
        return None
    state = "deleted since" if now is None else "defined anew since"
    return f"was made by {qualname}, which was {state}", "run the cell that makes it again"


def chain_to(name: str, value: object, wanted: object) -> list[tuple[str, object]]:
    """Return how to reach `wanted`, or an instance of it, from the variable `name`.

    Each step has its path, ``config["log"].handle``, and the object there. Empty where it is not
    found: objects may hide what they hold.
    """
    todo = deque([[(name, value)]])
    seen = {id(value)}
    for _ in range(_MOST_STEPS):
        if not todo:
            break
        chain = todo.popleft()
        path, current = chain[-1]
        if current is wanted or type(current) is wanted:
            return chain
        for step, inner in _inside(current):
            if id(inner) not in seen and len(seen) < _MOST_STEPS:
                seen.add(id(inner))
                todo.append([*chain, (path + step, inner)])
    return []


def _inside(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield f"[{_short(key)}]", item
            yield f" (key {_short(key)})", key
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from ((" (an element)", item) for item in value)
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    if not isinstance(value, (type, types.ModuleType, types.FunctionType)):
        yield from _attributes(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f".{key}", item) for key, item in list(attributes.items()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            member = vars(kind).get(slot)
            if isinstance(member, types.MemberDescriptorType) and hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)


def _short(key: object) -> str:
    if not isinstance(key, (str, bytes, int, float, bool)):
        return "…"
    text = repr(key)
    if text.startswith("'") and '"' not in text:
        text = f'"{text[1:-1]}"'
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…"
