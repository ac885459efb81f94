"""Pickling as it is done for a job: watched, counted, in a fixed order.

A value that cannot leave the notebook's process is refused by name, with the way out.
"""

from __future__ import annotations

import array
import functools
import io
import pickle
import socket
import sys
import threading
import types
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NewType, NoReturn, TypeVar

from submarine_runtime.byvalue import ByValue
from submarine_runtime.definitions import nameless
from submarine_runtime.frameworks import reduced
from submarine_runtime.lean import type_name
from submarine_runtime.memory import BLOCK, root_of, view_on

from submarine_engine.bundle.secrets import is_secret
from submarine_engine.bundle.source import in_order
from submarine_engine.errors import CannotTravelError

# Values that cannot leave the notebook's process: what to call them, and the way out of each.


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
    """Return where the array `value` lives, if not in the host's memory; None for all else.

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


def describe_value(value: object) -> tuple[str, str] | None:
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


def refuse_value(name: str, value: object, cell: str, last: object, error: Exception) -> NoReturn:
    """Raise the `CannotTravelError` for the variable `name`, whose pickling failed at `last`.

    Parameters
    ----------
    name
        The variable's.
    value
        What it holds.
    cell
        The cell that bound it.
    last
        The object at which pickling failed.
    error
        What pickling raised.
    """
    if isinstance(error, RecursionError):
        what = f"`{name}` is nested too deeply to be pickled"
        raise CannotTravelError(what, where=cell, fix="make it inside the job") from None
    chain = chain_to(name, value, last) or [(f"something inside {name}", last)]
    if words := _outdated(last):
        raise CannotTravelError(f"`{chain[-1][0]}` {words[0]}", where=cell, fix=words[1]) from error
    # The outermost one tells most: a queue, not the lock inside it.
    for path, held in [*chain, (chain[-1][0], last)]:
        if words := describe_value(held):
            what = f"`{path}` is {words[0]} ({type_name(held)}), and cannot leave this process"
            raise CannotTravelError(what, where=cell, fix=words[1]) from error
    raise CannotTravelError(
        f"`{chain[-1][0]}` ({type_name(chain[-1][1])}) cannot be pickled: {refused_words(error)}",
        where=cell,
        fix="make it inside the job, or leave it out of the value",
    ) from error


def refuse_together(refused: Sequence[CannotTravelError]) -> CannotTravelError:
    """Return one error for all of `refused`, each with its place and its way out."""
    if len(refused) == 1:
        return refused[0]
    lines = [
        f"  {error.where}: {error.what}" + (f"\n    → {error.fix}" if error.fix else "")
        for error in refused
    ]
    return CannotTravelError("\n".join([f"{len(refused)} values cannot travel:", *lines]))


def refused_words(error: BaseException) -> str:
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

    Parameters
    ----------
    name
        The variable's.
    value
        What it holds.
    wanted
        An object within it, or the class of one.
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
    if not isinstance(key, (str, bytes, int, float, bool)) or is_secret("", key):
        return "…"
    text = repr(key)
    if text.startswith("'") and '"' not in text:
        text = f'"{text[1:-1]}"'
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 1]}…"


# Pickling as it is done for a job: watched, counted, in a fixed order.
#
# The standard pickle does it; what no name leads to goes by value, as cloudpickle has it.


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
class PickleTrace:
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
    patches
        Modules that have patched its classes: they do so again where they are imported.
    codes
        The code of the functions in it that go by value.
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
    patches: set[str] = field(default_factory=set)
    codes: set[types.CodeType] = field(default_factory=set)


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

    watch: PickleTrace
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
            self._note_named(obj)
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

    def _note_named(self, obj: Any) -> None:  # noqa: ANN401 - a function or a class
        if isinstance(obj, type):
            self.watch.patches.update(patching(obj))
        elif isinstance(obj, types.FunctionType) and not self.by_name(obj):
            self.watch.codes.add(obj.__code__)
        if getattr(obj, "__module__", None) == "__main__":
            if self.by_name(obj):
                self.watch.names.add(_top(obj))
        elif isinstance(obj.__module__, str):
            self.watch.modules.add(obj.__module__)

    def _view(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
        root = root_of(obj) if self.watch.shared else None
        return view_on(obj, root) if id(root) in self.watch.shared else None

    def by_name(self, obj: Any) -> bool:  # noqa: ANN401 - a function or a class
        if getattr(obj, "__module__", None) == "__main__" and self.watch.by_value:
            return _top(obj) not in self.watch.by_value and super().by_name(obj)
        return super().by_name(obj)

    def reading(self, names: Iterable[str]) -> None:
        self.watch.reads.update(names)


def patching(kind: type) -> Iterator[str]:
    """Yield the modules that have added methods to the class `kind`, or its bases, from outside.

    Such a module has the class among its names. Private ones are parts of a package, which knows
    when it has to import them; and what the notebook has added comes as its own statements.
    """
    for base in kind.__mro__[:-1]:
        if base.__module__ == "__main__":
            continue
        functions = list(_functions(base))
        modules = [str(function.__globals__.get("__name__")) for function in functions]
        # A class may say that it is from the package that shows it, numpy or pandas.
        named = not modules or base.__module__ in modules
        own = base.__module__ if named else max(modules, key=modules.count)
        for module, function in dict(zip(modules, functions, strict=True)).items():
            private = module == "__main__" or any(part[:1] == "_" for part in module.split("."))
            if module == own or private or module not in sys.modules:
                continue
            if any(held is base for held in list(function.__globals__.values())):
                yield module


def _functions(kind: type) -> Iterator[types.FunctionType]:
    """Yield the methods and properties of a class, as they were before they were decorated."""
    for held in list(vars(kind).values()):
        found = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
        if isinstance(found, types.FunctionType):
            yield _undecorated(found)


def _undecorated(function: types.FunctionType) -> types.FunctionType:
    seen = {id(function)}
    while isinstance(inner := getattr(function, "__wrapped__", None), types.FunctionType):
        if id(inner) in seen:
            break
        seen.add(id(inner))
        function = inner
    return function


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


def pack(value: object, room: int, watch: PickleTrace) -> Packed:
    """Pickle `value`, keeping at most `room` bytes of it; equal values give equal bytes.

    Parameters
    ----------
    value
        Any object.
    room
        In bytes.
    watch
        Takes down what is seen meanwhile.

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


def _run(kind: Any, value: object, room: int, watch: PickleTrace) -> tuple[Packed, bool]:  # noqa: ANN401
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
        number: obj
        for number, obj in seen
        if not isinstance(obj, _CHANGELESS) or nameless(obj) or _is_of_main(obj)
    }
    data = b"".join(sink.chunks) if sink.kept else None
    return Packed(data, sink.size, exact, tuple(sink.blocks)), pickler.has_sets


def _is_of_main(obj: object) -> bool:
    """Return whether a value is a function of the notebook: the job may know it by its number."""
    return type(obj) is types.FunctionType and obj.__module__ == "__main__"


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
