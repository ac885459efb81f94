"""What a notebook's state is: every fact that a later cell could tell apart, by the path to it.

A state is a flat mapping: ``"model.layers[0].weight"`` → ``"ndarray float64 (3, 4) …"``. All that
is reachable from the notebook's names is walked breadth first. Where an object is met again, its
fact is ``is PATH``: so two states are equal only where the same names are the same object, and the
same objects hold each other. Beside the names there is what belongs to the process: environment,
working directory, module path, random states, options of libraries, open figures, files written.

Looking changes nothing: no attribute of a user's object is read through a property, and no method
of a user's class is called.
"""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import io
import json
import logging
import operator
import os
import pathlib
import random
import re
import sqlite3
import sys
import threading
import types
import uuid
import warnings
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

State = dict[str, str]

_MOST = 50_000
"""Facts of one state: a notebook that needs more compares too slowly to be a test."""

_ATOMS = (bool, int, float, complex, str, bytes, range, slice, type(None), type(...))
_PLAIN = (int, float, complex, str, bytes, bytearray)
_SHOWN_BY_REPR = (
    dt.date,
    dt.timedelta,
    dt.time,
    dt.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    re.Pattern,
    uuid.UUID,
    types.GenericAlias,
    types.UnionType,
)
_ITERATORS = tuple(
    type(iter(held))
    for held in ([], (), range(0), "", "ä", {}, {}.values(), {}.items(), set(), b"")
)
_OF_IPYTHON = re.compile(
    r"_i?\d+|_+|_i+|_[iod]h|_exit_code|_dh|In|Out|exit|quit|get_ipython|open|__\w+__"
)
_OF_CALLS = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
_TO_A_PLACE = {"FOR_ITER", "SEND", "SETUP_FINALLY", "SETUP_WITH"}
_NO_STATE_OF_A_CLASS = {
    "__annotate_func__",
    "__annotations_cache__",
    "__annotations__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__dict__",
    "__firstlineno__",
    "__module__",
    "__slotnames__",  # what copying has found out about a class, kept there by copyreg
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}


_OF_KERAS = {"_layers", "_trainable", "_metrics"}
_OF_KERAS_ITSELF = {
    *("train_function", "test_function", "predict_function", "optimizer", "path", "dtype_policy"),
    *("input_spec", "supports_jit", "autocast", "variables", "quantization_config"),
}


def watch(shell: Any, folder: Path) -> None:
    """Write the state after each cell of a shell to ``<folder>/../<name>-states/<n>.json``.

    Random states begin alike in all sessions, or no two would ever be the same.
    """
    states = folder.with_name(f"{folder.name}-states")
    states.mkdir()
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    process = Process(folder)
    numbers = count()

    def write(_result: object) -> None:
        found = state_of(shell.user_ns, process)
        states.joinpath(f"{next(numbers)}.json").write_text(json.dumps(found))

    shell.events.register("post_run_cell", write)


def state_of(namespace: dict[str, Any], process: Process | None = None) -> State:
    """Return the state of a notebook whose names are in `namespace`."""
    walk = _Walk(namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        walk.all_names()
    if process:
        walk.facts |= process.facts()
        return {path: process.relative(fact) for path, fact in walk.facts.items()}
    return walk.facts


class Process:
    """The state of the process that is no object of the notebook, against what it was at first.

    Parameters
    ----------
    folder
        The notebook's: text that holds its path says ``<folder>`` instead.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = self._settings()

    def facts(self) -> State:
        """Return what differs from the beginning, and the random states."""
        now = self._settings()
        facts = {name: now.get(name, "gone") for name in sorted({*now, *self._first})}
        facts = {name: fact for name, fact in facts.items() if self._first.get(name) != fact}
        facts["random"] = _digest(repr(random.getstate()))
        if numpy := sys.modules.get("numpy"):
            facts["numpy.random"] = _digest(repr(_plain(numpy.random.get_state())))
        return facts

    def relative(self, text: str) -> str:
        """Return a text without the path of the folder."""
        return text.replace(str(self._folder), "<folder>")

    def _settings(self) -> State:
        found = {f"environ[{name!r}]": repr(value) for name, value in os.environ.items()}
        found = {name: fact for name, fact in found.items() if "SUBMARINE_" not in name}
        found["working directory"] = str(Path.cwd())
        found["sys.path"] = repr(sys.path)
        root = logging.getLogger()
        kinds = [type(handler).__name__ for handler in root.handlers]
        found["logging"] = f"{logging.getLevelName(root.level)} {kinds}"
        found["warnings.filters"] = repr([rule[:1] + rule[2:3] for rule in warnings.filters])
        if matplotlib := sys.modules.get("matplotlib"):
            settings = dict(matplotlib.rcParams)
            found |= {f"rcParams[{name!r}]": repr(value) for name, value in settings.items()}
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            found["open figures"] = repr(pyplot.get_fignums())
        if numpy := sys.modules.get("numpy"):
            found["numpy.printoptions"] = repr(numpy.get_printoptions())
        if pandas := sys.modules.get("pandas"):
            for name in ("max_rows", "max_columns", "precision", "width"):
                found[f"pandas display.{name}"] = repr(pandas.get_option(f"display.{name}"))
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and not {"__pycache__"} & set(path.parts):
                name = path.relative_to(self._folder)
                found[f"file {name}"] = _digest(path.read_bytes())
        return found


class _Walk:
    """One walk over all that a namespace reaches."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.facts: State = {}
        self._namespace = namespace
        self._seen: dict[int, str] = {}
        self._alive: list[object] = []  # or an id would come again
        self._next: deque[tuple[str, Any]] = deque()
        self._memory: dict[int, list[tuple[str, Any]]] = {}

    def all_names(self) -> None:
        for name in sorted(self._namespace):
            if not _OF_IPYTHON.fullmatch(name):
                self._add(name, self._namespace[name])
        shown = self._namespace.get("Out")
        for number, value in (shown if isinstance(shown, dict) else {}).items():
            self._add(f"Out[{number}]", value)
        self.to_the_end()

    def to_the_end(self) -> None:
        while self._next:
            path, value = self._next.popleft()
            self._look(path, value)
            if len(self.facts) > _MOST:
                raise ValueError(f"more than {_MOST} facts, at {path}")

    def _add(self, path: str, value: object) -> None:
        self._next.append((path, value))

    def _look(self, path: str, value: Any) -> None:
        if isinstance(value, _ATOMS) and type(value) in _ATOMS:
            self.facts[path] = _short(repr(value))
        elif id(value) in self._seen:
            self.facts[path] = f"is {self._seen[id(value)]}"
        else:
            self._seen[id(value)] = path
            self._alive.append(value)
            self.facts[path] = self._describe(path, value)

    def _describe(self, path: str, value: Any) -> str:
        for kind, describe in _KINDS.items():
            if isinstance(value, kind):
                return describe(self, path, value)
        for kind_name, describe in _KINDS_BY_NAME.items():
            if kind_name in _names_of(type(value)):
                return describe(self, path, value)
        return self._object(path, value)

    # Of each kind: the words for itself; what it holds is added to the walk.

    def _module(self, _path: str, value: types.ModuleType) -> str:
        return f"module {value.__name__}"

    def _class(self, path: str, value: type) -> str:
        name = f"{value.__module__}.{value.__qualname__}"
        if _importable(value):
            return f"class {name}"
        if isinstance(value, enum.EnumMeta):
            members = {m.name: m._value_ for m in value}
            self._add(f"{path}.__members__", members)
            return f"enum {name}"
        for number, base in enumerate(value.__bases__):
            self._add(f"{path}.__bases__[{number}]", base)
        attributes = {
            attribute: held
            for attribute, held in sorted(vars(value).items())
            if attribute not in _NO_STATE_OF_A_CLASS
            and not isinstance(held, (types.MemberDescriptorType, types.GetSetDescriptorType))
        }
        for attribute, held in attributes.items():
            self._add(f"{path}.{attribute}", held)
        return f"class {name} ({type(value).__name__}): {', '.join(attributes)}"

    def _function(self, path: str, value: types.FunctionType) -> str:
        name = f"{value.__module__}.{value.__qualname__}"
        if _importable(value):
            return f"function {name}"
        for held in ("__defaults__", "__kwdefaults__"):
            if getattr(value, held):
                self._add(f"{path}.{held}", getattr(value, held))
        for attribute, held in vars(value).items():
            self._add(f"{path}.{attribute}", held)
        for free, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self._add(f"{path}.<{free}>", cell)
        ours = value.__globals__ is self._namespace
        home = "the notebook" if ours else value.__globals__.get("__name__")
        return f"function {name}, globals of {home}, code {_digest(repr(_code(value.__code__)))}"

    def _cell(self, path: str, value: types.CellType) -> str:
        try:
            self._add(f"{path}()", value.cell_contents)
        except ValueError:
            return "variable, empty"
        return "variable"

    def _method(self, path: str, value: types.MethodType) -> str:
        self._add(f"{path}.__self__", value.__self__)
        self._add(f"{path}.__func__", value.__func__)
        return "method"

    def _builtin(self, path: str, value: types.BuiltinFunctionType) -> str:
        if not isinstance(value.__self__, (types.ModuleType, type(None))):
            self._add(f"{path}.__self__", value.__self__)
        return f"builtin {value.__qualname__}"

    def _property(self, path: str, value: property) -> str:
        for held in ("fget", "fset", "fdel"):
            if getattr(value, held):
                self._add(f"{path}.{held}", getattr(value, held))
        return "property"

    def _wrapped(self, path: str, value: Any) -> str:
        self._add(f"{path}.__func__", value.__func__)
        return type(value).__name__

    def _member(self, path: str, value: enum.Enum) -> str:
        self._add(f"{path}.__class__", type(value))
        return f"member {value.name}"

    def _generator(self, path: str, value: Any) -> str:
        frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None)
        for name, held in (frame.f_locals if frame else {}).items():
            self._add(f"{path}.<{name}>", held)
        at = frame.f_lasti if frame else "its end"
        return f"{type(value).__name__} {value.__qualname__} at {at}"

    def _iterator(self, path: str, value: Any) -> str:
        if operator.length_hint(value) == 0:
            return "iterator at its end"
        if "dict" in type(value).__name__:
            self._add(f"{path}.<rest>", list(copy.copy(value)))
            return "iterator of a dict"
        return self._object(path, value)

    def _file(self, _path: str, value: Any) -> str:
        where = "closed" if value.closed else f"at {value.tell()}" if value.seekable() else "open"
        text = value.getvalue() if isinstance(value, (io.StringIO, io.BytesIO)) else ""
        return f"file {getattr(value, 'name', '')} {where} {_short(repr(text))}"

    def _database(self, _path: str, value: sqlite3.Connection) -> str:
        try:
            return f"database {_short(repr(list(value.iterdump())))}"
        except sqlite3.ProgrammingError:
            return "database, closed"

    def _logger(self, _path: str, value: logging.Logger) -> str:
        kinds = [type(handler).__name__ for handler in value.handlers]
        return f"logger {value.name} {logging.getLevelName(value.level)} {kinds}"

    def _thread(self, _path: str, value: threading.Thread) -> str:
        return f"thread, {'alive' if value.is_alive() else 'over'}"

    def _weak(self, path: str, value: weakref.ref[Any]) -> str:
        self._add(f"{path}()", value())
        return "weak reference"

    def _by_repr(self, _path: str, value: object) -> str:
        return f"{_name(type(value))} {_short(repr(value))}"

    def _exception(self, path: str, value: BaseException) -> str:
        self._add(f"{path}.args", value.args)
        return self._object(path, value)

    def _array(self, path: str, value: Any) -> str:
        owner = value
        while type(owner.base) is type(value):
            owner = owner.base
        numpy = sys.modules["numpy"]
        others = self._memory.setdefault(id(owner), [])
        shared = [name for name, other in others if _overlap(numpy, value, other)]
        others.append((path, value))
        if shared:
            self.facts[f"{path}.memory"] = f"shared with {', '.join(shared)}"
        kind = _name(type(value))
        if value.dtype.hasobject:
            self._add(f"{path}.items", value.ravel().tolist())
            return f"{kind} {value.dtype} {value.shape}"
        return f"{kind} {value.dtype} {value.shape} {_numbers(value)}"

    def _jax_array(self, _path: str, value: Any) -> str:
        numpy = sys.modules["numpy"]
        held = numpy.asarray(value)
        return f"jax array {held.dtype} {held.shape} {_numbers(held)}"

    def _tensor(self, path: str, value: Any) -> str:
        """Describe a tensor of torch: its numbers, gradient and hooks, and whose memory it sees."""
        for name, held in {**vars(value), "grad": value.grad if value.is_leaf else None}.items():
            if held is not None:
                self._add(f"{path}.{name}", held)
        if value._backward_hooks:
            self._add(f"{path}._backward_hooks", value._backward_hooks)
        if isinstance(value, sys.modules["torch"].nn.parameter.UninitializedTensorMixin):
            return _name(type(value))
        others = self._memory.setdefault(value.untyped_storage().data_ptr(), [])
        if shared := [name for name, _ in others]:
            self.facts[f"{path}.memory"] = f"shared with {', '.join(shared)}"
        others.append((path, value))
        self._alive.append(value.untyped_storage())
        words = f"{_name(type(value))} {value.dtype} {tuple(value.shape)} {value.stride()}"
        # The graph that a tensor was computed by stays in the process that it was computed in.
        leaf = f"requires_grad {value.is_leaf and value.requires_grad}"
        return f"{words} {leaf} {_numbers(value.detach().contiguous().cpu().numpy())}"

    def _variable(self, _path: str, value: Any) -> str:
        """Describe a variable or a tensor of TensorFlow or Keras."""
        return f"{_name(type(value))} {value.dtype} {value.shape} {_numbers(value.numpy())}"

    def _keras(self, path: str, value: Any) -> str:
        """Describe a layer, a model, a metric or an optimizer: the rest is Keras' bookkeeping."""
        kept = {
            name: held
            for name, held in vars(value).items()
            if name in _OF_KERAS or not (name.startswith("_") or name in _OF_KERAS_ITSELF)
        }
        for name in ("variables", "optimizer", "history"):
            if held := getattr(value, name, None):
                kept[name] = list(held) if name == "variables" else held
        for name, held in sorted(kept.items()):
            self._add(f"{path}.{name}", held)
        return f"{_name(type(value))} {value.name}"

    def _frame(self, path: str, value: Any) -> str:
        kinds = [str(kind) for kind in value.dtypes]
        self._add(f"{path}.attrs", value.attrs)
        self._add(f"{path}.index", value.index)
        self._add(f"{path}.columns", value.columns)
        for number, name in enumerate(value.columns):
            self._add(f"{path}[{name!r}]", value.iloc[:, number].tolist())
        return f"{_name(type(value))} {value.shape} {kinds}"

    def _series(self, path: str, value: Any) -> str:
        self._add(f"{path}.index", value.index)
        self._add(f"{path}.items", value.tolist())
        return f"{_name(type(value))} {value.name!r} {value.dtype}"

    def _index(self, path: str, value: Any) -> str:
        self._add(f"{path}.items", value.tolist())
        return f"{_name(type(value))} {list(value.names)!r} {value.dtype}"

    def _artist(self, path: str, value: Any) -> str:
        """Describe what a picture shows; how it is drawn is in its pixels."""
        axes = value.axes if hasattr(value, "get_axes") else [value]
        drawn = [
            (
                axis.get_title(),
                axis.get_xlabel(),
                axis.get_ylabel(),
                [_numbers(line.get_xydata()) for line in axis.lines],
                len(axis.patches),
                len(axis.collections),
                len(axis.images),
            )
            for axis in axes
        ]
        if not hasattr(value, "get_axes"):
            self._add(f"{path}.figure", value.figure)
        return f"{_name(type(value))} {drawn}"

    def _opaque(self, _path: str, value: object) -> str:
        return _name(type(value))

    def _object(self, path: str, value: Any) -> str:
        """Describe an object by what it holds; one of C by what it would be copied from."""
        kind = type(value)
        if not _importable(kind):
            self._add(f"{path}.__class__", kind)
        attributes = _attributes(value)
        held = {**dict(_slots(value)), **(attributes or {})}
        for name in sorted(held, key=str):
            self._add(f"{path}.{name}", held[name])
        words = _name(kind) + self._inherited(path, value, alone=attributes is None and not held)
        return f"{words}: {', '.join(sorted(map(str, held)))}" if held else words

    def _inherited(self, path: str, value: Any, *, alone: bool) -> str:
        """Describe what an object is by a type of C that its class is, or derives from."""
        if isinstance(value, dict):
            return self._pairs(path, value)
        if isinstance(value, (set, frozenset)):
            return self._members(path, value)
        if isinstance(value, (list, tuple, deque)):
            return self._items(path, value)
        if isinstance(value, _PLAIN):
            return f" {_short(_base_repr(value))}"
        if isinstance(value, random.Random):
            return f" {_digest(repr(random.Random.getstate(value)))}"
        return self._reduced(path, value) if alone else ""

    def _pairs(self, path: str, value: dict[Any, Any]) -> str:
        if isinstance(value, defaultdict):
            self._add(f"{path}.default_factory", value.default_factory)
        keys = []
        kind = OrderedDict if isinstance(value, OrderedDict) else dict
        for number, (key, held) in enumerate(kind.items(value)):
            if type(key) in _ATOMS:
                keys.append(_short(repr(key)))
            else:
                keys.append(f"<{number}>")
                self._add(f"{path}<{number}>", key)
            self._add(f"{path}[{keys[-1]}]", held)
        return f" {len(value)} [{_short(', '.join(keys))}]"

    def _items(self, path: str, value: Any) -> str:
        longest = f", at most {value.maxlen}" if isinstance(value, deque) else ""
        items = list(value)
        if all(type(item) in _ATOMS for item in items):
            return f" {len(items)} {_short(repr(items))}{longest}"
        for number, item in enumerate(items):
            self._add(f"{path}[{number}]", item)
        return f" {len(items)}{longest}"

    def _members(self, path: str, value: Any) -> str:
        """Describe a set: its order is an accident, so each member is found by what it is."""
        alone = []
        for member in value:
            walk = _Walk(self._namespace)
            walk._add("", member)
            walk.to_the_end()
            alone.append((json.dumps(walk.facts), member))
        if all(type(member) in _ATOMS for _, member in alone):
            return f" {len(alone)} {_short(repr(sorted(repr(member) for _, member in alone)))}"
        for number, (_, member) in enumerate(sorted(alone, key=lambda pair: pair[0])):
            self._add(f"{path}{{{number}}}", member)
        return f" {len(alone)}"

    def _reduced(self, path: str, value: object) -> str:
        """Add what an object of C would be made again from, as copying and pickling take it."""
        if type(value).__reduce_ex__ is not object.__reduce_ex__ and not _importable(type(value)):
            return ""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - it says so in any of many ways
            return ""
        if isinstance(reduced, str):
            return f" {reduced}"
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        self._add(f"{path}.<make>", make)
        for number, argument in enumerate(arguments):
            if argument is not type(value):
                self._add(f"{path}.<{number}>", argument)
        for name, part in {"state": state, "items": items, "pairs": pairs}.items():
            if part is not None:
                self._add(f"{path}.<{name}>", list(part) if isinstance(part, Iterator) else part)
        return ""


_Describe = Callable[["_Walk", str, Any], str]

_KINDS: dict[Any, _Describe] = {
    types.ModuleType: _Walk._module,
    enum.Enum: _Walk._member,
    type: _Walk._class,
    types.FunctionType: _Walk._function,
    types.CellType: _Walk._cell,
    types.MethodType: _Walk._method,
    types.BuiltinFunctionType: _Walk._builtin,
    property: _Walk._property,
    (staticmethod, classmethod): _Walk._wrapped,
    (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType): _Walk._generator,
    _ITERATORS: _Walk._iterator,
    io.IOBase: _Walk._file,
    sqlite3.Connection: _Walk._database,
    logging.Logger: _Walk._logger,
    threading.Thread: _Walk._thread,
    weakref.ref: _Walk._weak,
    _SHOWN_BY_REPR: _Walk._by_repr,
    BaseException: _Walk._exception,
}
_KINDS_BY_NAME: dict[str, _Describe] = {
    "numpy.ndarray": _Walk._array,
    "numpy.generic": _Walk._by_repr,
    "numpy.dtype": _Walk._by_repr,
    "jax.Array": _Walk._jax_array,
    "jaxlib._jax.ArrayImpl": _Walk._jax_array,
    "torch.Tensor": _Walk._tensor,
    "torch._dynamo.eval_frame.OptimizedModule": _Walk._opaque,
    "tensorflow.python.framework.tensor.Tensor": _Walk._variable,
    "tensorflow.python.ops.variables.Variable": _Walk._variable,
    "tensorflow.python.data.ops.dataset_ops.DatasetV2": _Walk._opaque,
    "tensorflow.python.eager.polymorphic_function.polymorphic_function.Function": _Walk._opaque,
    "keras.src.utils.tracking.Tracker": _Walk._opaque,
    "keras.src.backend.common.variables.Variable": _Walk._variable,
    "keras.src.layers.layer.Layer": _Walk._keras,
    "keras.src.metrics.metric.Metric": _Walk._keras,
    "keras.src.optimizers.base_optimizer.BaseOptimizer": _Walk._keras,
    "lightgbm.basic.Dataset": _Walk._opaque,
    "pandas.DataFrame": _Walk._frame,
    "pandas.Series": _Walk._series,
    "pandas.Index": _Walk._index,
    "pandas.api.extensions.ExtensionDtype": _Walk._by_repr,
    "matplotlib.figure.Figure": _Walk._artist,
    "matplotlib.axes._base._AxesBase": _Walk._artist,
    "matplotlib.artist.Artist": _Walk._opaque,
    "matplotlib.container.Container": _Walk._opaque,
    "IPython.core.display_functions.DisplayHandle": _Walk._opaque,
}
"""Of packages that this module need not import."""


def _names_of(kind: type) -> Iterator[str]:
    return (_name(base) for base in kind.__mro__)


def _name(kind: type) -> str:
    home = kind.__module__
    return kind.__qualname__ if home == "builtins" else f"{home}.{kind.__qualname__}"


def _importable(value: Any) -> bool:
    """Return whether a class or a function is a module's own, so that its name says all."""
    if value.__module__ == "__main__":
        return False
    try:
        module = sys.modules[value.__module__]
        return functools.reduce(getattr, value.__qualname__.split("."), module) is value  # type: ignore[arg-type]
    except (AttributeError, KeyError):
        return False


def _code(code: types.CodeType) -> tuple[Any, ...]:
    """Return what code does, without where it was written."""
    constants = [_code(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    constants = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in constants]
    names = code.co_varnames, code.co_freevars, code.co_cellvars
    return [*_instructions(code)], constants, names, code.co_flags


def _instructions(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """Yield instructions; the compiler calls `np.f()` otherwise where it sees `np` imported."""
    for one in dis.get_instructions(code):
        if one.opname not in _OF_CALLS:
            argument = "" if "JUMP" in one.opname or one.opname in _TO_A_PLACE else one.argrepr
            argument = "" if isinstance(one.argval, types.CodeType) else argument
            name = one.opname.replace("METHOD", "ATTR").replace("CALL_ATTR", "CALL_FUNCTION")
            yield name, argument.removeprefix("NULL + ").removesuffix(" + NULL|self")


def _attributes(value: object) -> Mapping[str, Any] | None:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, Mapping) else None


def _slots(value: object) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        for name, member in vars(kind).items():
            if isinstance(member, types.MemberDescriptorType) and "__slots__" in vars(kind):
                try:
                    yield name, member.__get__(value)
                except AttributeError:
                    continue


def _base_repr(value: Any) -> str:
    """Return what a subclass of a plain type holds, without calling what it has overridden."""
    for kind in _PLAIN:
        if isinstance(value, kind):
            return kind.__repr__(value)
    raise TypeError(type(value))


def _numbers(array: Any) -> str:
    numpy = sys.modules["numpy"]
    first = array.ravel()[:6].tolist()
    return f"{first} {_digest(numpy.ascontiguousarray(array).tobytes())}"


def _overlap(numpy: Any, one: Any, other: Any) -> bool:
    """Return whether two arrays have an element in common; where that is hard, their bounds say."""
    try:
        return bool(numpy.shares_memory(one, other, max_work=10_000))
    except numpy.exceptions.TooHardError:
        return bool(numpy.may_share_memory(one, other))


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else _listed(value)


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _short(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]}… {len(text)} {_digest(text)}"


def _digest(data: str | bytes) -> str:
    held = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(held).hexdigest()[:12]
