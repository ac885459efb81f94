"""Values that the job makes again by the statement that made them, since they cannot travel.

Only what has nothing to lose: a model that was made again would have lost what it has learnt, and
nobody would see it.
"""

from __future__ import annotations

import inspect
import io
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from concurrent.futures import Executor

from submarine_engine.bundle.constants import function_like

_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray, types.SimpleNamespace)
_ALIVE = (
    threading.Thread,
    subprocess.Popen,
    socket.socket,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    types.TracebackType,
    type(threading.Lock()),
    type(threading.RLock()),
)
_ALIVE_MODULES = ("multiprocessing.process", "asyncio", "tempfile", "IPython")
_COUNTERS = ("line_num", "_num_yielded")
"""Attributes of iterators (of `csv`, of torch) that count what was taken."""

_LEARNS = ("state_dict", "get_weights", "fit", "partial_fit", "load_state_dict")
"""What the class of a value has where the value is what it has learnt."""


_HANDLES = (
    "rich", "tqdm", "ipywidgets", "ipykernel", "sqlite3", "psycopg", "psycopg2", "pymysql",
    "pyodbc", "sqlalchemy", "duckdb", "h5py", "zipfile", "tarfile", "tensorboard", "tensorboardX",
    "torch.utils.tensorboard", "torch.utils.data", "tensorflow.python.data", "lightgbm", "xgboost",
    "tensorflow.python.ops.summary_ops_v2", "requests", "httpx", "boto3", "botocore", "pyspark",
)  # fmt: skip
"""Packages whose objects stand for what is elsewhere: data, a display, a service."""


def can_be_made_again(value: object, *, touched: bool) -> bool:  # noqa: PLR0911 - each its own rule
    """Return whether a value that cannot travel loses nothing when its statement runs again.

    Parameters
    ----------
    touched
        Whether other statements have used it: what is not known to hold nothing may hold what they
        put into it.
    """
    if isinstance(value, (types.GeneratorType, Executor)):
        return not has_begun(value, touched=touched)
    if isinstance(value, (*_CONTAINERS, *_ALIVE)) or _is_module(value, _ALIVE_MODULES):
        return False
    if isinstance(value, io.IOBase):
        return _only_reads(value) and not has_begun(value, touched=touched)
    if isinstance(value, sqlite3.Connection):
        return _has_file(value)
    if _is_module(value, ("h5py",)) and getattr(value, "mode", "r") != "r":
        return False
    if callable(value) and function_like_call(value):
        return True
    kind = type(value)
    if kind.__module__ == "__main__" or any(hasattr(kind, name) for name in _LEARNS):
        return False
    if isinstance(value, Iterator):
        return not has_begun(value, touched=touched)
    if _is_module(value, _HANDLES):
        return True
    return not touched and not callable(value)


def has_begun(value: object, *, touched: bool) -> bool:
    """Return whether something was taken from an iterator: a fresh one would give it again.

    A file that was read from has not begun where its place is known: the job's reads on from there.

    Parameters
    ----------
    touched
        Whether other statements have used it, or are in a function that does.
    """
    if isinstance(value, types.GeneratorType):
        if inspect.getgeneratorstate(value) != inspect.GEN_CREATED:
            return True
        held = inspect.getgeneratorlocals(value).values()
        inner = [one for one in held if isinstance(one, types.GeneratorType)]
        return any(has_begun(one, touched=False) for one in inner)
    if isinstance(value, io.IOBase):
        return place_of(value) is None
    if not isinstance(value, Iterator):
        return False
    taken = next((getattr(value, name, None) for name in _COUNTERS if hasattr(value, name)), None)
    return taken != 0 if isinstance(taken, int) else touched


def place_of(value: object) -> int | None:
    """Return where a file is to be read on from; 0 for all that has no place, None if unknown."""
    if not isinstance(value, io.IOBase) or value in (sys.stdout, sys.stderr, sys.stdin):
        return 0
    try:
        return value.tell() if value.seekable() else 0
    except (OSError, ValueError):  # a loop over its lines is under way
        return None


def function_like_call(value: object) -> bool:
    """Return whether `value` is what a call made of a function: ``jax.jit(step)``."""
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return False
    return function_like(value)


def _is_module(value: object, modules: tuple[str, ...]) -> bool:
    return any(
        kind.__module__ == module or kind.__module__.startswith(f"{module}.")
        for kind in type(value).__mro__
        for module in modules
    )


def _only_reads(file: io.IOBase) -> bool:
    if file in (sys.stdout, sys.stderr, sys.stdin):
        return True
    name = getattr(file, "name", None)
    return (
        not file.closed
        and file.readable()
        and not file.writable()
        and isinstance(name, (str, bytes, os.PathLike))
    )


def _has_file(connection: sqlite3.Connection) -> bool:
    """Return whether the database is on the disk, and not in this process alone."""
    try:
        return all(file for _, _, file in connection.execute("PRAGMA database_list"))
    except sqlite3.Error:
        return False
