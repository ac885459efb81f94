"""Pickling as it is done for a job: by the standard pickle, watched, counted, in a fixed order."""

from __future__ import annotations

import array
import functools
import pickle
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NewType, TypeVar

from submarine_engine.bundle.literals import in_order
from submarine_engine.bundle.refusals import refusal

PROTOCOL = 5

# The fast pickler has no way to say how a set is written.
_PythonPickler: Any = pickle._Pickler  # noqa: SLF001 - C leaves no other way

_FRAME = 128 * 1024
_COPIERS = ("torch", "jax", "jaxlib", "tensorflow")
_NAMED = (
    type,
    types.FunctionType,
    type(functools.lru_cache(len)),
    TypeVar,
    type(NewType("_", int)),
)
_CHANGELESS = (*_NAMED, str, bytes, int, float, complex, tuple, frozenset)


class RefusedError(Exception):
    """The value holds `held`, which pickles but must not travel."""

    def __init__(self, held: object) -> None:
        super().__init__()
        self.held = held


class _EnoughError(Exception):
    """The value is over the budget, and to go on counting would take long."""


@dataclass
class Watch:
    """What was seen while one value was pickled.

    Parameters
    ----------
    last
        The object pickled last: where pickling failed, the one that it failed at.
    names
        Functions and classes of the notebook that the pickle refers to by their (top-level) names.
    modules
        Modules that it refers to.
    objects
        Every object of the value that has an identity, by id.
    memo
        Every object of the value that can change, by its number in the pickle's memo: who loads the
        pickle finds its own object under the same number.
    """

    last: object = None
    names: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    objects: dict[int, object] = field(default_factory=dict)
    memo: dict[int, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Packed:
    """A pickled value: its bytes (None where they would not fit), and its size.

    `exact` is False where counting was given up: the value takes more than `size`.
    """

    data: bytes | None
    size: int
    exact: bool


class _Sink:
    """A file that keeps what is written up to `room` bytes, and counts the rest."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.size = 0
        self.small = 0
        self.chunks: list[bytes] = []
        self.kept = True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        size = memoryview(data).nbytes  # large blocks come as a PickleBuffer, which has no len()
        self.count(size)
        if self.kept:
            self.chunks.append(bytes(data))
        if size <= _FRAME:
            # Many small objects: each more byte costs time and memory. Big blocks are cheap.
            self.small += size
            if self.small > self.room:
                raise _EnoughError
        return size

    def count(self, size: int) -> None:
        self.size += size
        if self.size > self.room:
            self.kept = False
            self.chunks.clear()

    def buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Take a large block into the pickle where it fits; else count it without a copy."""
        size = buffer.raw().nbytes
        if self.kept and self.size + size <= self.room:
            return True
        self.count(size)
        return False


class _Watching:
    """The part of the picklers below that looks at each object."""

    watch: Watch
    sink: _Sink
    has_sets = False

    def persistent_id(self, obj: object) -> None:
        # Called for every object, also for the sets that reducer_override never sees.
        kind = type(obj)
        if (kind is set or kind is frozenset) and len(obj) > 1:  # type: ignore[arg-type]
            self.has_sets = True

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        self.watch.last = obj
        if isinstance(obj, _NAMED):
            module = getattr(obj, "__module__", None)
            if module == "__main__":
                name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", "")
                self.watch.names.add(str(name).partition(".")[0])
            elif isinstance(module, str):
                self.watch.modules.add(module)
        elif refusal(obj):
            raise RefusedError(obj)
        elif (size := _copied(obj)) > self.sink.room:
            self.sink.count(size)
            raise _EnoughError
        return NotImplemented


class _Pickler(_Watching, pickle.Pickler):
    """The fast one: sets stand in the order that this process happens to have them in."""


class _SortingPickler(_Watching, _PythonPickler):  # type: ignore[misc]
    """The slow one: sets stand in an order of their values."""

    dispatch: ClassVar[dict[type, Any]] = dict(_PythonPickler.dispatch)

    def save_set(self, obj: set[object]) -> None:
        self.write(pickle.EMPTY_SET)
        self.memoize(obj)
        if obj:
            self.write(pickle.MARK)
            for item in in_order(obj):
                self.save(item)
            self.write(pickle.ADDITEMS)

    def save_frozenset(self, obj: frozenset[object]) -> None:
        self.write(pickle.MARK)
        for item in in_order(obj):
            self.save(item)
        if id(obj) in self.memo:  # it is inside itself
            self.write(pickle.POP_MARK + self.get(self.memo[id(obj)][0]))
            return
        self.write(pickle.FROZENSET)
        self.memoize(obj)

    dispatch[set] = save_set
    dispatch[frozenset] = save_frozenset


def pack(value: object, room: int, watch: Watch) -> Packed:
    """Pickle `value`, keeping at most `room` bytes of it; equal values give equal bytes.

    Raises
    ------
    RefusedError
        It holds what must not travel.
    Exception
        Whatever pickling it raises; ``watch.last`` is the object that it was at.
    """
    packed, has_sets = _run(_Pickler, value, room, watch)
    if has_sets and packed.data is not None:
        packed, _ = _run(_SortingPickler, value, room, watch)
    return packed


def _run(kind: Any, value: object, room: int, watch: Watch) -> tuple[Packed, bool]:  # noqa: ANN401
    sink = _Sink(room)
    pickler = kind(sink, PROTOCOL, buffer_callback=sink.buffer)
    pickler.watch, pickler.sink = watch, sink
    exact = True
    try:
        pickler.dump(value)
    except _EnoughError:
        exact = False
    seen: Iterable[tuple[int, object]] = pickler.memo.copy().values()
    watch.objects = {id(obj): obj for _, obj in seen if _has_identity(obj)}
    watch.memo = {number: obj for number, obj in seen if not isinstance(obj, _CHANGELESS)}
    data = b"".join(sink.chunks) if sink.kept else None
    return Packed(data, sink.size, exact), pickler.has_sets


def _has_identity(obj: object) -> bool:
    """Return whether it matters that two values hold this very object and not an equal one."""
    if isinstance(obj, (*_NAMED, str, tuple)):
        return False
    return type(obj).__hash__ in (None, object.__hash__) or hasattr(obj, "is_cuda")


def _copied(obj: object) -> int:
    """Return the bytes that pickling would copy at one stroke before it hands them out."""
    if isinstance(obj, array.array):
        return len(obj) * obj.itemsize
    root = str(type(obj).__module__).partition(".")[0]
    if root == "numpy":
        copied = not getattr(getattr(obj, "flags", None), "forc", True)
    else:
        copied = root in _COPIERS
    size = getattr(obj, "nbytes", 0) if copied else 0
    return size if isinstance(size, int) else 0
