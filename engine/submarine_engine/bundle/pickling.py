"""Pickling as it is done for a job: watched, counted, in a fixed order.

The standard pickle does it; what no name leads to goes by value, as cloudpickle has it.
"""

from __future__ import annotations

import array
import functools
import io
import pickle
import sys
import types
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NewType, TypeVar

from submarine_runtime.byvalue import ByValue
from submarine_runtime.frameworks import reduced
from submarine_runtime.home import BLOCK, nameless, root_of, view_on

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
_CHANGELESS = (*_NAMED, str, bytes, int, float, complex)


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
    reads
        Variables of the notebook that its lambdas and local functions read when they are called.
    modules
        Modules that it refers to.
    objects
        Every object of the value that has an identity, by id.
    memo
        Every object of the value that can change, by its number in the pickle's memo: who loads the
        pickle finds its own object under the same number.
    opaque
        Whether cloudpickle is needed to load it.
    spaces
        Whether it refers to namespaces, which who loads it has to give.
    shared
        Arrays whose memory others of the value look at, by id: those travel as views on them.
    by_value
        Names of functions and classes of the notebook that no statement makes: they go by value.
    """

    last: object = None
    names: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    objects: dict[int, object] = field(default_factory=dict)
    memo: dict[int, object] = field(default_factory=dict)
    opaque: bool = False
    spaces: bool = False
    shared: dict[int, object] = field(default_factory=dict)
    by_value: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Packed:
    """A pickled value: its bytes (None where they would not fit), and its size.

    `exact` is False where counting was given up: the value takes more than `size`. `blocks` are its
    large ones, which are not in `data`: they are the value's own memory.
    """

    data: bytes | None
    size: int
    exact: bool
    blocks: tuple[pickle.PickleBuffer, ...] = ()


class _Sink:
    """A file that keeps what is written up to `room` bytes, and counts the rest."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.size = 0
        self.small = 0
        self.chunks: list[bytes] = []
        self.kept = True
        self.blocks: list[pickle.PickleBuffer] = []

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
            self.blocks.clear()

    def buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Leave a large block beside the pickle, without a copy; take a small one into it."""
        size = buffer.raw().nbytes
        if size < BLOCK and self.kept and self.size + size <= self.room:
            return True
        self.count(size)
        if self.kept:
            self.blocks.append(buffer)
        return False


class _Watching(ByValue):
    """The part of the picklers below that looks at each object."""

    watch: Watch
    sink: _Sink
    has_sets = False

    def persistent_id(self, obj: object) -> tuple[str, ...] | None:
        # Called for every object, also for the sets that reducer_override never sees.
        kind = type(obj)
        if (kind is set or kind is frozenset) and len(obj) > 1:  # type: ignore[arg-type]
            self.has_sets = True
        space = self.globals_of(obj) if kind is dict else None
        if space:
            self.watch.spaces = True
        return space

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        self.watch.last = obj
        if isinstance(obj, _NAMED):
            if getattr(obj, "__module__", None) == "__main__":
                if self.by_name(obj):
                    self.watch.names.add(_top(obj))
            elif isinstance(obj.__module__, str):
                self.watch.modules.add(obj.__module__)
        elif isinstance(obj, types.ModuleType):
            self.watch.modules.add(obj.__name__)
        elif refusal(obj):
            raise RefusedError(obj)
        elif (found := reduced(obj)) is not NotImplemented:
            return found
        elif (view := self._view(obj)) is not None:
            return view
        elif (size := _copied(obj)) > self.sink.room:
            self.sink.count(size)
            raise _EnoughError
        return self.by_value(obj)

    def _view(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        root = root_of(obj) if self.watch.shared else None
        return view_on(obj, root) if id(root) in self.watch.shared else None

    def by_name(self, obj: Any) -> bool:  # noqa: ANN401 - a function or a class
        if getattr(obj, "__module__", None) == "__main__" and self.watch.by_value:
            return _top(obj) not in self.watch.by_value and super().by_name(obj)
        return super().by_name(obj)

    def reading(self, names: Iterable[str]) -> None:
        self.watch.reads.update(names)


def _top(obj: object) -> str:
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", "")
    return str(name).partition(".")[0]


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

    def save_picklebuffer(self, obj: pickle.PickleBuffer) -> None:
        if not self._buffer_callback(obj):
            self.write(pickle.NEXT_BUFFER)
            if obj.raw().readonly:
                self.write(pickle.READONLY_BUFFER)
            return
        # Through `save`: Python's own way fails at the second empty array, the same object again.
        with obj.raw() as raw:
            self.save(raw.tobytes() if raw.readonly else bytearray(raw))

    dispatch[pickle.PickleBuffer] = save_picklebuffer
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
    with warnings.catch_warnings():
        # It is our own look at the value that a library would warn of.
        warnings.simplefilter("ignore")
        packed, has_sets = _run(_Pickler, value, room, watch)
        if packed.data is not None and (shared := _shared_memory(watch.memo)):
            watch.shared = shared
            packed, has_sets = _run(_Pickler, value, room, watch)
        if has_sets and packed.data is not None:
            packed, _ = _run(_SortingPickler, value, room, watch)
    return packed


def _shared_memory(memo: Mapping[int, object]) -> dict[int, object]:
    """Return the arrays, by id, that others look at: where one travels, or most of it does."""
    looking: dict[int, list[Any]] = {}
    roots: dict[int, Any] = {}
    for obj in memo.values():
        root = root_of(obj)
        if root is not None:
            roots[id(root)] = root
            looking.setdefault(id(root), []).append(obj)
    return {
        key: roots[key]
        for key, arrays in looking.items()
        if len(arrays) > 1
        and (
            any(obj is roots[key] for obj in arrays)
            or sum(obj.nbytes for obj in arrays) >= roots[key].nbytes
        )
    }


def _run(kind: Any, value: object, room: int, watch: Watch) -> tuple[Packed, bool]:  # noqa: ANN401
    sink = _Sink(room)
    pickler = kind(sink, PROTOCOL, buffer_callback=sink.buffer)
    pickler.watch, pickler.sink = watch, sink
    pickler.namespace = vars(sys.modules["__main__"])
    exact = True
    try:
        pickler.dump(value)
    except _EnoughError:
        exact = False
    watch.opaque = pickler.opaque
    seen: Iterable[tuple[int, object]] = pickler.memo.copy().values()
    watch.objects = {
        id(obj): obj
        for _, obj in seen
        if _has_identity(obj) or (isinstance(obj, types.FunctionType) and not pickler.by_name(obj))
    }
    watch.objects |= {
        id(root): root for _, obj in seen if (root := root_of(obj)) is not None and root is not obj
    }
    watch.memo = {
        number: obj for number, obj in seen if nameless(obj) or not isinstance(obj, _CHANGELESS)
    }
    data = b"".join(sink.chunks) if sink.kept else None
    return Packed(data, sink.size, exact, tuple(sink.blocks)), pickler.has_sets


def _has_identity(obj: object) -> bool:
    """Return whether it matters that two values hold this very object and not an equal one."""
    if isinstance(obj, (*_NAMED, str, tuple)):
        return False
    # Tensors and variables have a hash of their own that says nothing of what they hold.
    tensor = hasattr(type(obj), "is_cuda") or hasattr(type(obj), "numpy")
    return type(obj).__hash__ in (None, object.__hash__) or tensor


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


def unpack(packed: Packed) -> object:
    """Load what was packed, to see whether it can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `pack`
        return _unpack(packed, packed.data or b"")


def _unpack(packed: Packed, data: bytes) -> object:
    try:
        # The value's own memory is lent, and not to be written to.
        views = [buffer.raw().toreadonly() for buffer in packed.blocks]
        return _Unpickler(io.BytesIO(data), buffers=views).load()
    except Exception:
        if not packed.blocks:
            raise
    copies = [bytearray(buffer.raw()) for buffer in packed.blocks]
    return _Unpickler(io.BytesIO(data), buffers=copies).load()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, space: tuple[str, ...]) -> dict[str, object]:
        # A copy: what makes a function writes to its globals.
        return dict(vars(sys.modules[space[1] if space[1:] else "__main__"]))
