"""Pickles what has no name to be imported by: lambdas, and what a function has defined.

Both sides use it: the notebook for what a cell needs (`submarine_engine.bundle.pickling`), the job
for what goes back (`frames`). Only such objects need cloudpickle, which is imported when the first
of them is met. Everything else stays what the standard pickle makes of it.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import weakref

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

GLOBALS = ("globals",)
"""The persistent id of the notebook's namespace, which is the script's where it is loaded.

Followed by a module's name, that of the module's namespace.
"""

_CACHED = type(functools.lru_cache(len))
_LOCK = type(sys.modules["_thread"].allocate_lock())
_RLOCK = type(sys.modules["_thread"].RLock())
_DYNAMIC: tuple[type, ...] = (
    classmethod,
    property,
    staticmethod,
    types.CellType,
    types.CodeType,
    types.GetSetDescriptorType,
    types.MappingProxyType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_DYNAMIC_NAMES = ("_weakrefset.WeakSet", "dataclasses._FIELD_BASE", "typing.TypeVar")
"""Kinds of objects that a class or a function holds, and that cloudpickle alone can write."""


class ByValue:
    """A mixin for picklers: it pickles by value what has no name to be imported by.

    Parameters
    ----------
    *args, **options
        The pickler's own: they are handed on to it.

    Attributes
    ----------
    namespace
        The variables of the notebook, or of the script where it runs: functions that read them as
        their globals are to read the other side's.
    """

    namespace: dict[str, Any]
    opaque = False
    """Whether something has been pickled that needs cloudpickle to be loaded."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - the pickler's own
        super().__init__(*args, **options)
        self._spaces: dict[int, tuple[str, ...]] = {}
        self._copies: dict[int, dict[str, object]] = {}
        self._cells: dict[int, types.CellType] = {}

    def globals_of(self, obj: object) -> tuple[str, ...] | None:
        """Return the persistent id of `obj`, a namespace that functions read; None for all else."""
        if obj is self.namespace:
            return GLOBALS
        return self._spaces.get(id(obj))

    def reading(self, names: Iterable[str]) -> None:
        """Hear that a function reads the variables `names` of the namespace when it is called."""

    def by_value(self, obj: Any) -> Any:  # noqa: ANN401, PLR0911 - as pickle's reducers
        """Return how to pickle `obj` by value; ``NotImplemented`` where pickle knows by itself."""
        kind = type(obj)  # not isinstance: that asks a foreign object for its __class__
        if kind is types.FunctionType:
            return NotImplemented if self.by_name(obj) else self._function(obj)
        if issubclass(kind, type):
            if obj is type(None) or self.by_name(obj):
                return NotImplemented
            self.opaque = True
            return _cloudpickle()._class_reduce(obj)  # noqa: SLF001 - cloudpickle's own hook
        if issubclass(kind, types.ModuleType):
            name = str(vars(obj).get("__name__"))
            if sys.modules.get(name) is obj:
                return importlib.import_module, (name,)
            return self._dynamic(obj)
        if kind in (_LOCK, _RLOCK, weakref.ref):
            return _weak(obj) if kind is weakref.ref else _lock(obj)
        if kind is _CACHED and not self.by_name(obj):
            parameters = obj.cache_parameters()
            args = obj.__wrapped__, parameters["maxsize"], parameters["typed"]
            return _CACHED, (*args, functools._CacheInfo), vars(obj)  # noqa: SLF001 - what lru_cache does
        if id(obj) in self._cells:
            return _cloudpickle()._make_empty_cell, ()  # noqa: SLF001 - its functions fill it
        if kind in _DYNAMIC or f"{kind.__module__}.{kind.__name__}" in _DYNAMIC_NAMES:
            return self._dynamic(obj)
        return NotImplemented

    def by_name(self, obj: Any) -> bool:  # noqa: ANN401 - a function or a class
        """Return whether its module has `obj` under its own name."""
        module = getattr(obj, "__module__", None)
        if not isinstance(module, str):
            return False
        found: object = sys.modules.get(module)
        for step in (getattr(obj, "__qualname__", None) or obj.__name__).split("."):
            found = getattr(found, step, None)
        return found is obj

    def _dynamic(self, obj: object) -> Any:  # noqa: ANN401 - as pickle's reducers
        reducer = _cloudpickle().Pickler.dispatch_table.get(type(obj))
        if reducer is None:
            return NotImplemented
        self.opaque = True
        return reducer(obj)

    def _function(self, function: types.FunctionType) -> Any:  # noqa: ANN401 - likewise
        self.opaque = True
        inner = _cloudpickle()
        state, slots = inner._function_getstate(function)  # noqa: SLF001 - cloudpickle's own hook
        space = function.__globals__
        module = str(space.get("__name__"))
        if space is self.namespace:
            self.reading(inner._extract_code_globals(function.__code__))  # noqa: SLF001 - likewise
        elif vars(sys.modules.get(module, types)) is space:
            self._spaces[id(space)] = (*GLOBALS, module)
        if self.globals_of(space):
            # They are there where it is loaded: no copy of them travels with it.
            slots["__globals__"] = {}
        else:
            space = self._copies.setdefault(
                id(space), {name: space[name] for name in _OF_MODULE if name in space}
            )
        # cloudpickle makes new cells for each function: two that share a variable would part.
        cells = function.__closure__ or ()
        self._cells.update({id(cell): cell for cell in cells})
        slots["__closure__"] = tuple(map(_content, cells)) or None
        args = function.__code__, space, None, None, cells or None
        setter = inner._function_setstate  # noqa: SLF001 - likewise
        return inner._make_function, args, (state, slots), None, None, setter  # noqa: SLF001


def _weak(obj: weakref.ref[Any]) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Return how to make a weak reference: to what travels too, or to what is gone."""
    if obj.__callback__ is not None:
        return NotImplemented
    referent = obj()
    return weakref.ref, (_Gone() if referent is None else referent,)


class _Gone:
    """Stands for the object of a dead weak reference: it, too, is gone once it is loaded."""


def _content(cell: types.CellType) -> object:
    """Return what holds a cell's content under the name that a cell has for it."""
    try:
        return types.SimpleNamespace(cell_contents=cell.cell_contents)
    except ValueError:  # it is empty yet
        return cell


_OF_MODULE = ("__package__", "__name__", "__path__", "__file__")


def _lock(obj: Any) -> Any:  # noqa: ANN401 - as pickle's reducers
    """Return how to make a lock that nobody holds; one that is held stays where it is."""
    if not repr(obj).startswith("<unlocked"):
        return NotImplemented
    thread = sys.modules["_thread"]
    return thread.RLock if type(obj) is _RLOCK else thread.allocate_lock, ()


def _cloudpickle() -> Any:  # noqa: ANN401 - a module
    return importlib.import_module("cloudpickle.cloudpickle")
