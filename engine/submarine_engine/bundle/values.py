"""Values that travel as the source that made them: constants, and what cannot be pickled.

Also what classes and functions hold besides their source: counters, caches, defaults.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import io
import operator
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import types
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress

from submarine_runtime.definitions import closed_over, methods_of
from submarine_runtime.lean import is_data

from submarine_engine.bundle.source import FUNCTIONS

# Statements that are worth more as they were written than as the value that they made.


_LARGEST = 1 << 64
_STATELESS = (type, types.BuiltinFunctionType, types.ModuleType, str, bytes, int, float, complex)

_OPERATORS: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class NotConstantError(ValueError):
    """The expression is no literal."""


def assigned_names(node: ast.stmt) -> list[str] | None:
    """Return the names that `node` binds, in order, if it is a plain assignment; None if not."""
    targets: list[ast.expr]
    if isinstance(node, ast.AnnAssign) and node.value:
        targets = [node.target]
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    else:
        return None
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else None


def constant(node: ast.stmt, name: str) -> object:
    """Return the value that a plain assignment of a literal, maybe one of several, gives `name`.

    Parameters
    ----------
    node
        The statement.
    name
        The variable's.

    Raises
    ------
    NotConstantError
        It is not such an assignment.
    """
    names = assigned_names(node)
    value = getattr(node, "value", None)
    if names is None or name not in names or not isinstance(value, ast.expr):
        raise NotConstantError
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
        if not isinstance(value, (ast.Tuple, ast.List)) or len(value.elts) != len(names):
            raise NotConstantError
        value = value.elts[names.index(name)]
    try:
        return _evaluate(value)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise NotConstantError from None


def is_constant(node: ast.stmt, name: str) -> bool:
    """Return whether `constant` has an answer for the statement `node` and `name`."""
    try:
        constant(node, name)
    except NotConstantError:
        return False
    return True


def is_literal(node: ast.expr) -> bool:
    """Return whether the expression `node` is a literal, or numbers calculated from some."""
    try:
        _evaluate(node)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        return False
    return True


def _evaluate(node: ast.expr) -> object:
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        return _calculated(_OPERATORS.get(type(node.op)), left, right)
    return ast.literal_eval(node)


def _calculated(
    calculate: Callable[[object, object], object] | None, left: object, right: object
) -> object:
    """Calculate as the cell did, but for numbers that take long."""
    numbers = {type(left), type(right)} <= {int, float}
    large = any(isinstance(side, int) and abs(side) > _LARGEST for side in (left, right))
    if calculate is operator.pow:
        large = large or not (isinstance(right, int) and abs(right) <= 64)  # noqa: PLR2004
    if calculate is None or not numbers or large:
        raise NotConstantError
    return calculate(left, right)


def same(left: object, right: object) -> bool:
    """Return whether two values of builtin types are alike in type, content and order.

    Parameters
    ----------
    left, right
        Any values; those of other types are never alike.
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, (set, frozenset)) and isinstance(right, (set, frozenset)):
        own = {item: item for item in left}  # looked up by what is equal: 1 by True
        return len(left) == len(right) and all(one in own and same(own[one], one) for one in right)
    if isinstance(left, (int, str, bytes, type(None), type(...))):
        return left == right
    return isinstance(left, (float, complex)) and repr(left) == repr(right)


def function_like(value: object) -> bool:
    """Return whether `value` does rather than is: what makes it again is its source.

    Functions, classes, what wraps a function (``jax.jit(step)``), and tuples of those (an optax
    optimizer). Not every callable: a model can be called as well, and is what it has learnt; and so
    is a function that remembers in its closure.
    """
    if isinstance(value, types.FunctionType):
        return not _remembers(value, set())
    if isinstance(value, (type, types.BuiltinFunctionType, types.MethodType)):
        return not (isinstance(value, types.MethodType) and not isinstance(value.__self__, type))
    if isinstance(value, tuple):
        return bool(value) and all(map(function_like, value))
    if isinstance(value, functools.partial):
        return False
    try:
        wrapped = getattr(value, "__wrapped__", None)
    except Exception:  # noqa: BLE001 - a foreign __getattr__ raises what it likes
        return False
    return isinstance(wrapped, types.FunctionType) and function_like(wrapped)


def _remembers(function: types.FunctionType, seen: set[int]) -> bool:
    """Return whether the closure of a function holds what its source would not make again."""
    free = function.__code__.co_freevars
    if not free or id(function) in seen:
        return False
    seen.add(id(function))
    if any(
        instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in free
        for instruction in dis.get_instructions(function.__code__)
    ):
        return True
    return any(_is_state(_content(cell), seen) for cell in function.__closure__ or ())


def _is_state(value: object, seen: set[int]) -> bool:
    if isinstance(value, types.FunctionType):
        return _remembers(value, seen)
    if isinstance(value, tuple):
        return any(_is_state(item, seen) for item in value)
    return not (value is None or isinstance(value, _STATELESS))


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty yet
        return None


# Values that the job makes again by the statement that made them, since they cannot travel.
#
# Only what has nothing to lose: a model that was made again would have lost what it has learnt, and
# nobody would see it.


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
    value
        An iterator or a file; all else has not begun.
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
    """Return where a file is to be read on from; 0 for all that has no place, None if unknown.

    Parameters
    ----------
    value
        Anything: what is no file has no place.
    """
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


# What a notebook's classes and functions hold besides their source: counters, caches, defaults.


_MISSING = object()


def attributes(value: object, node: ast.stmt) -> Iterator[tuple[str, object, bool]]:
    """Yield the data that a class or function of the notebook holds.

    Parameters
    ----------
    node
        The statement that defines it.

    Yields
    ------
    tuple
        The attribute's name, its value, and whether the definition itself makes it so.
    """
    if isinstance(value, type) and isinstance(node, ast.ClassDef):
        if type(value) in (type, ABCMeta) and not issubclass(value, tuple):
            yield from _of_class(value, node)
    elif isinstance(value, types.FunctionType) and isinstance(node, FUNCTIONS):
        yield from _of_function(value, node)


def remembers(value: object, node: ast.stmt) -> bool:
    """Return whether a decorator of the notebook's has made a function that its calls change.

    Parameters
    ----------
    value
        What the name means now.
    node
        The statement that defines it.
    """
    decorated = isinstance(node, FUNCTIONS) and node.decorator_list
    return bool(decorated) and any(_state_of(value, set()))


def _state_of(value: object, seen: set[int]) -> Iterator[bool]:
    if not isinstance(value, types.FunctionType) or id(value) in seen:
        return
    if value.__globals__.get("__name__") != "__main__":
        return  # a library's: functools.wraps changes its __module__
    seen.add(id(value))
    stored = _stored(value)
    yield any(is_data(name, held) for name, held in vars(value).items() if name != "__wrapped__")
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        try:
            held = cell.cell_contents
        except ValueError:  # it is empty
            continue
        yield name in stored or isinstance(held, (list, dict, set))
        yield from _state_of(held, seen)


def _of_class(kind: type, node: ast.ClassDef) -> Iterator[tuple[str, object, bool]]:
    yield from _data_of_class(kind, node)
    for inner in node.body:
        held = vars(kind).get(getattr(inner, "name", ""))
        if isinstance(inner, ast.ClassDef) and isinstance(held, type):
            for path, value, original in _of_class(held, inner):
                yield f"{inner.name}.{path}", value, original
    for path, method in methods_of("", kind):
        yield from _of_method(path.lstrip("."), method)


def _data_of_class(kind: type, node: ast.ClassDef) -> Iterator[tuple[str, object, bool]]:
    said: dict[str, ast.stmt] = {}
    for statement in node.body:
        for name in assigned_names(statement) or ():
            said[name] = statement
    for name, value in list(vars(kind).items()):
        if not is_data(name, value):
            continue
        if name not in said:
            yield name, value, False
            continue
        first = _constant(said[name], name)
        if first is not _MISSING:
            yield name, value, same(first, value)


def _of_method(path: str, method: types.FunctionType) -> Iterator[tuple[str, object, bool]]:
    """Yield what calls of a method may have changed: its attributes, what it has closed over."""
    for name, value in list(vars(method).items()):
        if name != "__wrapped__" and name.isidentifier() and is_data(name, value):
            yield f"{path}.{name}", value, False
    stored = _stored(method)
    for number, value in closed_over(method).items():
        name = method.__code__.co_freevars[number]
        if is_data("", value) and (name in stored or isinstance(value, (list, dict, set))):
            yield f"{path}.__closure__[{number}].cell_contents", value, False


def _stored(function: types.FunctionType) -> set[str]:
    """Return the names of other functions that a function binds: those of ``nonlocal``."""
    steps = dis.get_instructions(function.__code__)
    return {step.argval for step in steps if step.opname == "STORE_DEREF"}


def _constant(statement: ast.stmt, name: str) -> object:
    try:
        return constant(statement, name)
    except NotConstantError:
        return _MISSING


def _of_function(
    function: types.FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[tuple[str, object, bool]]:
    if function.__closure__ or node.decorator_list:
        return  # what a decorator made of it is not what its source says
    for name, value in list(vars(function).items()):
        if is_data(name, value):
            yield name, value, False
    said = node.args
    given: Mapping[str, object] = dict(_defaults(said.defaults))
    if function.__defaults__ and len(given) == len(said.defaults):
        yield (
            "__defaults__",
            function.__defaults__,
            same(tuple(given.values()), function.__defaults__),
        )
    named = {
        argument.arg: default
        for argument, default in zip(said.kwonlyargs, said.kw_defaults, strict=True)
        if default is not None
    }
    given = dict(zip(named, (value for _, value in _defaults(list(named.values()))), strict=False))
    if function.__kwdefaults__ and len(given) == len(named):
        yield "__kwdefaults__", function.__kwdefaults__, same(given, function.__kwdefaults__)


def _defaults(nodes: list[ast.expr]) -> Iterator[tuple[str, object]]:
    """Yield the values of literal defaults, numbered; it ends before one that is none."""
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        for number, node in enumerate(nodes):
            yield str(number), ast.literal_eval(node)
