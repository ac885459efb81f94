"""Keeps the values in the frames of a failed task for ``submarine job debug``, then frees its GPU.

`task` calls it. A child of this process would hold the memory of its GPU for as long as it lived,
and no cluster lets a process outlive its container. So the task itself copies what fits into a few
hundredths of a second to the disk, once its outcome is there, and ends:
``results/post-mortem.json`` says which frames there are and where the value of each name lies in
``results/post-mortem.values``.

The values' own code (``__reduce__``, ``__repr__``) runs in a thread. A value that takes too long is
given up, and another thread goes on with the next; where native code holds Python's lock,
`faulthandler` ends the process. How the task ended is on the disk by then.
"""

from __future__ import annotations

import copyreg
import os
import sys
import time
from _pickle import Pickler
from _thread import allocate_lock, get_native_id, start_new_thread

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, standard, suppress, type_module, type_name
from submarine_runtime.leave import _waited

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType
    from typing import Any

VERSION = 1
INDEX = "post-mortem.json"
VALUES = "post-mortem.values"

TIME = 0.12
"""Seconds that all values have together. Those that this process waits for a processor come on top,
as in `leave`."""
SHARE = 1 / 3
"""Of the time that is left, what one value may take."""
SIZE = 64 << 20
LARGEST_ARRAY = 8 << 20
"""Bytes of an array that is kept whole; of a larger one its shape and a corner are."""
MOST_FRAMES = 100
"""Of a deeper stack the first half and the last."""
MOST_NAMES = 500
_MOST_LINKS = 4
LONGEST_TEXT = 2000

_HEAD = 1000
_DEEPEST = 1000
"""Objects within each other: a thread's stack may be small."""
_LONG = 2_000_000
"""Items of a list that nobody tries to pickle in that time."""
_STEP = 0.01
"""Seconds: a small part of `TIME`; waits for a processor are measured, and left out, by steps."""
_LONGEST = 4
"""So many times that at most, however busy the machine: a GPU is held meanwhile."""
_LONGEST_OF_HEAVY = 1.5
"""Likewise where only heavy values are left: what is small is worth the wait for a processor."""
_LEAST_OF_HEAVY = 0.5
"""Likewise, what heavy values have at least, however much others have taken."""
_HEAVY = 3
"""From this weight on, see `_Value.weight`."""
_LARGE = 1 << 20
"""Bytes of an array that is heavy."""
_HANGS = 1.0
"""Seconds over the longest time, which only native code that holds Python's lock can take."""
_SHORTEST_SECRET = 6
_ARRAYS = ("numpy", "torch", "jax", "jaxlib", "cupy", "tensorflow")
_TABLES = ("DataFrame", "Series")
"""Of pandas, whose releases have them in modules of different names."""
_CONTAINERS = (list, tuple, dict, set, frozenset)
_TEXTS = (str, bytes, bytearray)
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type, type(sys))
_FUNCTIONS = (type(lambda: 0), type(len))
_MODULE = type(sys)
_HERE = os.path.dirname((lambda: 0).__code__.co_filename)  # noqa: PTH120 - pathlib takes long to import
_NO_TIME = "there was no time left: the GPU is given back first"
_NO_ROOM = f"more than {SIZE >> 20} MB"


# What stands for a value that is not kept as itself. The names are in pickles: they have to stay.


class Shown:
    """A value that could not be kept: its type, and how it was shown.

    Parameters
    ----------
    kind
        The type's name.
    text
        What `repr` gave, cut.
    why
        Why it was not kept.
    """

    def __init__(self, kind: str, text: str, why: str = "") -> None:
        self.kind, self.text, self.why = kind, text, why

    def __repr__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        shown = f"{self.text or f'<{self.kind}>'}{why}"
        return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in shown)

    def __call__(self, *_: object, **__: object) -> Shown:
        """Stand in pickles for a function that makes something."""
        return Shown(self.kind, f"<made by {self.text}>", self.why)


class Head:
    """A corner of an array, or the first rows of a table, that was too large to be kept.

    Parameters
    ----------
    kind
        The type's name.
    shape, dtype, nbytes
        Those of the whole.
    head
        The corner.
    """

    def __init__(
        self,
        kind: str,
        shape: tuple[int, ...],
        dtype: str,
        nbytes: int,
        head: Any,  # noqa: ANN401 - an array or a table
    ) -> None:
        self.kind, self.shape, self.dtype, self.nbytes, self.head = kind, shape, dtype, nbytes, head

    def __repr__(self) -> str:
        size = f"{self.nbytes / 1e6:,.1f} MB"
        return f"<{self.kind} {self.shape} {self.dtype}, {size}; .head is\n{self.head!r}>"


def tensor(  # noqa: PLR0913, PLR0917 - in pickles
    data: bytes,
    dtype: str,
    shape: tuple[int, ...],
    device: str,
    grad: bool,  # noqa: FBT001 - in pickles
    parameter: bool,  # noqa: FBT001 - likewise
) -> Any:  # noqa: ANN401 - of torch
    """Make a tensor on the CPU; a `Shown` where torch is not installed.

    Parameters
    ----------
    data
        The memory of its numbers; empty where it has none.
    dtype
        As torch's module has it, such as ``float32``.
    shape
        Its sizes.
    device
        Where it was; it is only told where torch is not installed.
    grad
        Whether it asked for a gradient.
    parameter
        Whether it was a ``Parameter``.
    """
    from importlib import import_module  # noqa: PLC0415 - where frames are looked at

    try:
        torch: Any = import_module("torch")
    except ImportError:
        text = f"tensor of {dtype}, shape {tuple(shape)}, on {device}"
        return Shown("torch.Tensor", f"<{text}>", "torch is not installed here")
    kind = getattr(torch, dtype)
    made = torch.empty(shape, dtype=kind)
    if data:
        made = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(kind).reshape(shape)
    if parameter:
        return torch.nn.Parameter(made, requires_grad=grad)
    return made.requires_grad_(grad)


def module(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a module that a frame has under some name."""
    from importlib import import_module  # noqa: PLC0415 - as above

    try:
        return import_module(name)
    except Exception as error:  # noqa: BLE001 - whatever a module raises
        return Shown("module", f"<module {name!r}>", f"not here: {error}")


_stand_ins: dict[tuple[str, str], type] = {}


class StandIn:
    """An object whose class is not here: it has the attributes that it had, and no code."""

    def __new__(cls, *args: object, **_: object) -> StandIn:
        """Take whatever the class that it stands for took."""
        made = object.__new__(cls)
        if args:
            made.__dict__["args"] = args
        return made

    def __init__(self, *_: object, **__: object) -> None:
        """As above."""

    def __setstate__(self, state: object) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)
            elif part is not None:
                self.__dict__["state"] = part

    def __getattr__(self, name: str) -> object:
        """Return what torch's modules have under names that are no attributes."""
        for held in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(held)
            if isinstance(found, dict) and name in found:
                return found[name]
        raise AttributeError(name)

    def append(self, item: object) -> None:
        """Take an item, where the class was one of a list."""
        self.__dict__.setdefault("items", []).append(item)

    def __setitem__(self, key: object, item: object) -> None:
        self.__dict__.setdefault("items", {})[key] = item

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={lean_repr(value)}" for name, value in self.__dict__.items())
        return f"<{type(self).__qualname__}{': ' if held else ''}{held[:LONGEST_TEXT]}>"


def stand_in(place: str, name: str) -> type:
    """Return the class that stands for `name` of the module `place`, which is not here."""
    if (place, name) not in _stand_ins:
        kind = type(name.rpartition(".")[2], (StandIn,), {"__module__": place})
        kind.__qualname__ = name
        _stand_ins[place, name] = kind
    return _stand_ins[place, name]


def lean_repr(value: object, longest: int = 200) -> str:
    """Return a short `repr`, whatever that of the value does.

    Parameters
    ----------
    value
        Anything.
    longest
        Characters of a text, or of what is no container; ten times as many of all.
    """
    import reprlib  # noqa: PLC0415 - where something is shown alone

    shower: Any = reprlib.Repr()
    shower.maxother = shower.maxstring = longest
    # By itself it writes all of them, and cuts that.
    shower.repr_bytes = shower.repr_bytearray = lambda data, _: repr(data[:longest])
    try:
        return str(shower.repr(value))[: 10 * longest]
    except BaseException as error:  # noqa: BLE001 - a foreign __repr__ raises what it likes
        return f"<{type_name(value)}: its repr raised {type_name(error)}>"


# Pickles values, each so that it can be loaded in another process, on a machine without a GPU.


class _TooLargeError(Exception):
    """A value takes more room than there is."""


class _Room:
    """Takes so many bytes, as pieces: the memory of a large array is not copied."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.pieces: list[Any] = []

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Take a piece: bytes, or the memory of an object that is pickled."""
        size = memoryview(data).nbytes
        self.left -= size
        if self.left < 0:
            raise _TooLargeError
        self.pieces.append(data)
        return size


class _Pickler(Pickler):
    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401, PLR0911 - as pickle has it
        kind = type(obj)
        if kind is _MODULE:
            return module, (str(vars(obj).get("__name__")),)
        if issubclass(kind, type):
            if _has_name(obj) or obj is type(None) or obj in _SINGLE:
                return NotImplemented
            return stand_in, (type_module_of(obj), str(obj.__qualname__))
        if kind in _FUNCTIONS:
            owner = getattr(obj, "__self__", None)
            if _has_name(obj) or (kind is _FUNCTIONS[1] and type(owner) is not _MODULE):
                return NotImplemented
            return Shown, (type_name(obj), f"<function {obj.__qualname__}>", "it has no name")
        try:
            if (found := _small(obj, kind)) is not None:
                return found
            if reduce := copyreg.dispatch_table.get(kind):
                return reduce(obj)
            return obj.__reduce_ex__(5)
        except (_TooLargeError, MemoryError, RecursionError):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises
            return Shown, (type_name(obj), lean_repr(obj), f"not kept: {_said(error)}")


_SINGLE = (type(...), type(NotImplemented))


def type_module_of(kind: type) -> str:
    """Return the module of the class `kind`, whatever its metaclass does."""
    with suppress(BaseException):
        return str(kind.__module__)
    return "?"


def _has_name(obj: Any) -> bool:  # noqa: ANN401 - a class or a function
    """Return whether a module has a class or a function under its own name."""
    with suppress(BaseException):
        found: Any = sys.modules[obj.__module__]
        for name in obj.__qualname__.split("."):
            found = getattr(found, name)
        return found is obj
    return False


def _small(obj: Any, kind: type) -> Any:  # noqa: ANN401, PLR0911 - as pickle's reducers
    """Return how to pickle an array; None for all else, and for one that pickle knows."""
    root = type_module(obj).partition(".")[0]
    name = type_name(obj)
    if root == "pandas" and kind.__name__ in _TABLES:
        size = obj.memory_usage(index=False)
        nbytes = int(size if isinstance(size, int) else size.sum())
        if nbytes <= LARGEST_ARRAY:
            return None
        return Head, (name, tuple(obj.shape), str(kind.__name__), nbytes, obj.iloc[:100])
    if root not in _ARRAYS and name != "__main__.ndarray":
        return None
    shape, dtype = getattr(obj, "shape", None), getattr(obj, "dtype", None)
    if shape is None or dtype is None or not hasattr(obj, "__getitem__"):
        return None
    shape = tuple(int(one) for one in shape)
    count = 1
    for one in shape:
        count *= one
    nbytes = count * int(getattr(dtype, "itemsize", None) or getattr(dtype, "size", None) or 1)
    if nbytes > LARGEST_ARRAY:
        left, corner = _HEAD, []
        for one in reversed(shape):
            taken = max(1, min(one, left))
            left //= taken
            corner.append(slice(taken))
        part = obj[tuple(reversed(corner))]
        part = _of_torch(part) if root == "torch" else part.copy() if root == "numpy" else part
        return Head, (name, shape, str(dtype), nbytes, part)
    if root == "torch":
        return _of_torch(obj).call
    if root == "numpy" and getattr(obj, "base", None) is not None and kind.__name__ == "memmap":
        return sys.modules["numpy"].array(obj).__reduce_ex__(5)
    return None


class _Call:
    """Is pickled as what a call gives."""

    def __init__(self, *call: Any) -> None:  # noqa: ANN401 - as pickle's reducers
        self.call = call

    def __reduce__(self) -> Any:  # noqa: ANN401 - as pickle's reducers
        return self.call


def _of_torch(obj: Any) -> _Call:  # noqa: ANN401 - a tensor
    """Return a tensor as its bytes: torch's own pickles hold all memory that it is a view of."""
    torch: Any = sys.modules["torch"]
    here = obj.detach()
    if here.layout != torch.strided or here.is_quantized:
        return _Call(*here.cpu().__reduce_ex__(5))
    here = here.to("cpu", copy=False).contiguous()
    data = bytes(here.reshape(-1).view(torch.uint8).numpy()) if here.numel() else b""
    return _Call(
        tensor,
        (
            data, str(obj.dtype).rpartition(".")[2], tuple(obj.shape), str(obj.device),
            bool(obj.requires_grad), isinstance(obj, torch.nn.Parameter),
        ),
    )  # fmt: skip


def _said(error: BaseException) -> str:
    with suppress(BaseException):
        return f"{type(error).__name__}: {str(error)[:200]}"
    return type(error).__name__


def _pickled(value: object, room: int) -> tuple[list[Any], str, str]:
    """Return the pieces of a value's pickle; where there is none its text, and why."""
    if room <= 0:
        return [], "", _NO_ROOM
    if type(value) in _CONTAINERS and len(value) > _LONG:  # type: ignore[arg-type] # they have one
        return [], lean_repr(value), f"{len(value):,} items are too many"  # type: ignore[arg-type]
    if type(value) in _TEXTS and len(value) > room:  # type: ignore[arg-type] # likewise
        return [], lean_repr(value), _NO_ROOM
    file = _Room(room)
    try:
        _Pickler(file, protocol=5).dump(value)
    except _TooLargeError:
        return [], "", _NO_ROOM  # what it would show of itself may be larger still
    except BaseException as error:  # noqa: BLE001 - whatever foreign code raises
        why = f"it cannot be pickled: {_said(error)}"
    else:
        return file.pieces, "", ""
    return [], lean_repr(value), why


# The frames, and what they hold.


class _Value:
    """A value of one name or more."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.type = type_name(value)[:LONGEST_TEXT]
        self.told: dict[str, Any] = {"type": self.type}
        self.left_out(_NO_TIME)

    def left_out(self, why: str, text: str = "") -> None:
        self.told.update(why=why, text=text[:LONGEST_TEXT])

    @property
    def weight(self) -> int:
        """What runs no code of the user's, and is small, goes first."""
        kind = type(self.value)
        if kind in _PLAIN or kind in _FUNCTIONS:
            return 0
        if kind in _CONTAINERS:
            return 1 if len(self.value) < _HEAD else _HEAVY + 1  # type: ignore[arg-type] # they have one
        if type_module(self.value).partition(".")[0] not in _ARRAYS:
            return 2
        with suppress(BaseException):
            return 1 if int(self.value.nbytes) <= _LARGE else _HEAVY  # type: ignore[attr-defined] # or it raises
        return 1


class KeptFrames:
    """The frames of an exception and of what caused it, or those up to a frame.

    With what their names stand for.

    Parameters
    ----------
    told
        The exception or the frame.
    bundle
        The folder of the bundle that ran.
    """

    def __init__(self, told: BaseException | FrameType, bundle: str) -> None:
        self._bundle = bundle
        self._numbers: dict[int, int] = {}
        self.values: list[_Value] = []
        self._spaces: dict[int, tuple[str, dict[str, Any]]] = {}
        self.frames, self.skipped = self._stack(stack_of(told))
        self.chain = [
            {"title": _text(f"{how} {_said(link)}"), "frames": self._stack(stack_of(link))[0]}
            for how, link in _links(told)
        ]

    def _stack(self, stack: list[tuple[FrameType, int]]) -> tuple[list[dict[str, Any]], int]:
        """Return what is told of a stack, and how many of its frames are not."""
        skipped = max(0, len(stack) - MOST_FRAMES)
        if skipped:
            stack = [*stack[: MOST_FRAMES // 2], *stack[-MOST_FRAMES // 2 :]]
        frames: list[dict[str, Any]] = []
        # The innermost first: they are looked at first, and there may be no time for all.
        for frame, line in reversed(stack):
            frames.insert(0, self._frame(frame, line))
        for space, names in self._names_kept(stack):
            told = self._spaces[id(space)][1]
            for name in names:
                if name in space and name not in told and len(told) < MOST_NAMES:
                    told[name] = self._number(space[name])
        return frames, skipped

    def _frame(self, frame: FrameType, line: int) -> dict[str, Any]:
        code = frame.f_code
        own = self._is_own(code.co_filename)
        told: dict[str, Any] = {
            "file": _text(code.co_filename.removeprefix(f"{self._bundle}/")),
            "line": line,
            "first": code.co_firstlineno,
            "function": _text(code.co_name),
            "arguments": [],
            "own": own,
            "locals": None,
            "globals": "",
        }
        if not own:
            return told
        space = frame.f_globals
        if id(space) not in self._spaces:
            name = _text(space.get("__name__", "?"))
            taken = {taken for taken, _ in self._spaces.values()}
            self._spaces[id(space)] = (name if name not in taken else f"{name}#{len(taken)}", {})
        told["globals"] = self._spaces[id(space)][0]
        if frame.f_locals is space:
            return told
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args and **kwargs
        told["arguments"] = [_text(name) for name in code.co_varnames[:count]]
        held = list(frame.f_locals.items())[:MOST_NAMES]
        told["locals"] = {_text(name): self._number(value) for name, value in held}
        return told

    def _names_kept(
        self, stack: list[tuple[FrameType, int]]
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield the globals of each frame of the user's own with the names to keep of them."""
        frames = [frame for frame, _ in stack if id(frame.f_globals) in self._spaces]
        for frame in reversed(frames):
            yield frame.f_globals, list(_names(frame.f_code))
        for frame in reversed(frames):
            if frame.f_locals is frame.f_globals:
                space = frame.f_globals
                yield space, [name for name in list(space) if not str(name).startswith("__")]

    def _is_own(self, file: str) -> bool:
        if file.startswith(f"{self._bundle}/"):
            return True
        if file.startswith("<"):
            return not file.startswith(("<frozen", "<__array_function__"))
        library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib takes long to import
        return not (
            file.startswith((f"{library}/", _HERE, f"{sys.prefix}/"))
            or "/site-packages/" in file
            or "/dist-packages/" in file
        )

    def _number(self, value: object) -> int:
        """Return the number of a value: what several names stand for is kept once."""
        number = self._numbers.setdefault(id(value), len(self.values))
        if number == len(self.values):
            self.values.append(_Value(value))
        return number

    def index(self) -> dict[str, Any]:
        """Return what the index says."""
        return {
            "version": VERSION,
            "python": sys.version.split()[0],
            "frames": self.frames,
            "skipped": self.skipped,
            "chain": self.chain,
            "globals": dict(self._spaces.values()),
            "values": [value.told for value in self.values],
        }


def stack_of(told: BaseException | FrameType) -> list[tuple[FrameType, int]]:
    """Return the frames of an exception, or those that have led to a frame, outermost first.

    Without the runtime's own, which stand before the user's.

    Parameters
    ----------
    told
        The exception or the frame.
    """
    stack = []
    if isinstance(told, BaseException):
        step = told.__traceback__
        while step is not None:
            stack.append((step.tb_frame, step.tb_lineno or 0))
            step = step.tb_next
    else:
        frame: FrameType | None = told
        while frame is not None:
            stack.append((frame, frame.f_lineno or 0))
            frame = frame.f_back
        stack.reverse()
    ours = [frame.f_code.co_filename.startswith(_HERE) for frame, _ in stack]
    # What runs the runtime comes before it: a container's is a program of one line.
    begin = ours.index(True) if True in ours and not isinstance(told, BaseException) else 0
    while begin < len(stack) and ours[begin]:
        begin += 1
    return stack[begin:]


def _links(told: BaseException | FrameType) -> Iterator[tuple[str, BaseException]]:
    """Yield what has caused an exception, what is in its group, and how it belongs to it."""
    todo = [("", told)] if isinstance(told, BaseException) else []
    seen: set[int] = set()
    while todo and len(seen) <= _MOST_LINKS:
        how, link = todo.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        if how:
            yield how, link
        group = getattr(link, "exceptions", None)
        if isinstance(group, tuple):
            todo[:0] = [("with", one) for one in group if isinstance(one, BaseException)]
        if link.__cause__ is not None:
            todo.insert(0, ("caused by", link.__cause__))
        elif link.__context__ is not None and not link.__suppress_context__:
            todo.insert(0, ("while handling", link.__context__))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _names(constant)


def _text(value: object) -> str:
    return str(value)[:LONGEST_TEXT].encode(errors="backslashreplace").decode()


# Written to the disk while the clock runs.


class _Writer:
    """Goes through the values in threads, one after the other."""

    def __init__(
        self, values: list[_Value], file: int, hide: Callable[[bytes], bytes] | None, bundle: str
    ) -> None:
        weights = [(value.weight, number) for number, value in enumerate(values)]
        self._values = [values[number] for _, number in sorted(weights)]
        self._light = sum(weight < _HEAVY for weight, _ in weights)
        self._file = file
        self._hide = hide
        self._lock = allocate_lock()
        self._done = allocate_lock()
        self._at = 0
        self._end = 0
        self._turn = 0
        self._thread = 0
        self._ident = 0
        self._until = self._heavy_until = self._heavy_least = 0.0
        self._bundle = bundle
        self.error: OSError | None = None

    def run(self, seconds: float) -> None:
        """Write what can be written in time."""
        self._done.acquire()
        begun = time.monotonic()
        self._until = begun + _LONGEST * seconds
        self._heavy_until = begun + _LONGEST_OF_HEAVY * seconds
        self._heavy_least = _LEAST_OF_HEAVY * seconds
        left = seconds
        while left > 0 and time.monotonic() < self._limit:
            over, spent = self._one_thread(left)
            if over:
                return
            left -= spent
            with self._lock:
                if self._done.acquire(blocking=False):
                    return
                _stop(self._ident, self._bundle)
                self._turn += 1  # what that thread still does counts no more
                current = self._values[max(0, self._at - 1)]
                if "at" not in current.told:
                    current.left_out("keeping it took too long")

    @property
    def _limit(self) -> float:
        """When all that is left now has to be done, however busy the machine."""
        return self._until if self._at <= self._light else self._heavy_until

    def _late(self, now: float) -> float:
        """Return when a value has been waited for too long, however busy the machine."""
        if self._at > self._light:
            return self._heavy_until  # one that is kept is worth more than two that are not
        return now + SHARE * (self._until - now)

    def _one_thread(self, left: float) -> tuple[bool, float]:
        """Let a thread go on; return whether all is done, and the seconds that it took."""
        with self._lock:
            self._thread, before = 0, 0.0
            turn, at = self._turn, self._at
        self._ident = start_new_thread(self._work, (turn,))
        spent = spent_on_one = 0.0
        of_one = max(_STEP, left * SHARE)
        begun = time.monotonic()
        late = self._late(begun)
        while spent < left and spent_on_one < of_one and begun < late:
            begun = time.monotonic()
            if begun > self._heavy_until:  # what is small is worth the wait, and nothing else
                of_one = _STEP
            if self._done.acquire(timeout=_STEP):
                return True, spent
            waiting = _waited(self._thread) if self._thread else 0.0
            step = min(time.monotonic() - begun, 2 * _STEP) - max(0.0, waiting - before)
            before = waiting
            spent += max(0.0, step)
            spent_on_one += max(0.0, step)
            if at != self._at:
                at, spent_on_one = self._at, 0.0
                late = self._late(begun)
        return False, spent

    def _work(self, turn: int) -> None:
        self._thread = get_native_id()
        while True:
            with self._lock:
                if turn != self._turn:
                    return
                if self._at == len(self._values) or self.error:
                    self._done.release()
                    return
                if self._at == self._light:
                    least = time.monotonic() + self._heavy_least
                    self._heavy_until = max(self._heavy_until, least)
                value = self._values[self._at]
                self._at += 1
                room = SIZE - self._end
            pieces, text, why = _pickled(value.value, room)
            if self._hide is not None:
                pieces = [self._hide(b"".join(pieces))]
            with self._lock:
                if turn != self._turn:
                    return
                if why:
                    value.left_out(self._shown(why), self._shown(text))
                    continue
                try:
                    end = self._end
                    for piece in pieces:
                        end = _write_at(self._file, piece, end)
                except OSError as error:
                    self.error = error
                    continue
                value.told.clear()
                value.told.update(type=value.type, at=self._end, size=end - self._end)
                self._end = end

    def _shown(self, text: str) -> str:
        data = _text(text).encode()
        return (self._hide(data) if self._hide is not None else data).decode()


def _stop(thread: int, bundle: str) -> None:
    """Raise in a thread that may compute on without an end, and so hold up all that follows."""
    sys.setswitchinterval(0.0005)
    with suppress(Exception):
        ctypes = standard("ctypes", bundle)
        raised = ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def _write_at(file: int, data: Any, offset: int) -> int:  # noqa: ANN401 - any buffer
    """Write all of a piece; return where it ends."""
    view = data.raw() if hasattr(data, "raw") else memoryview(data).cast("B")
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
    return offset


def keep(  # noqa: PLR0913 - what it takes, each by its name
    told: BaseException | FrameType,
    folder: str,
    bundle: str,
    secrets: Mapping[str, str],
    *,
    key: str = "",
    seconds: float = TIME,
) -> None:
    """Write what the frames of an exception held, or those up to a frame, into `folder`.

    Parameters
    ----------
    told
        The exception or the frame.
    bundle
        The folder of the bundle that ran.
    secrets
        Values by their names: none of them is written.
    key
        File with the key that both files are marked with, see `sealing`; empty for none.
    seconds
        What all values have together.
    """
    import faulthandler  # noqa: PLC0415 - the task has it

    with suppress(ValueError, OSError, RuntimeError):
        # Without Python's lock: nothing else could end a process whose native code hangs with it.
        faulthandler.dump_traceback_later(_LONGEST * seconds + _HANGS, exit=True, file=2)
    limit = sys.getrecursionlimit()
    index, values = f"{folder}/{INDEX}", f"{folder}/{VALUES}"
    try:
        with suppress(RecursionError):
            sys.setrecursionlimit(min(limit, _DEEPEST))
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long to import
        kept = KeptFrames(told, bundle)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        # Never closed: a thread that was left to itself may still write to it.
        file = os.open(values, flags, mode_in(folder))
        writer = _Writer(kept.values, file, _hider(secrets), bundle)
        writer.run(seconds)
        if writer.error:
            raise writer.error
        said = kept.index()
        said["size"] = os.fstat(file).st_size
        if key:
            said["mark"] = _mark(VALUES, values, key)
        data = lean.dumps(said).encode()
        if key:
            data += b"\n" + _mark_of(INDEX, data, key).encode() + b"\n"
        aside = os.open(f"{index}.new", flags, mode_in(folder))
        _write_at(aside, data, 0)
        os.replace(f"{index}.new", index)  # noqa: PTH105 - pathlib takes long to import
    except OSError as problem:
        for path in (f"{index}.new", values):
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - as above
        sys.stderr.write(
            "submarine: what the frames held could not be kept for `submarine job debug`: "
            f"{problem}\n"
        )
    finally:
        with suppress(RecursionError):
            sys.setrecursionlimit(limit)
        faulthandler.cancel_dump_traceback_later()


def _mark(name: str, path: str, key: str) -> str:
    from submarine_runtime.sealing import mark  # noqa: PLC0415 - of containers alone

    with open(path, "rb") as file, open(key, "rb") as secret:  # noqa: PTH123 - as above
        return mark(name, iter(lambda: file.read(1 << 20), b""), secret.read())


def _mark_of(name: str, data: bytes, key: str) -> str:
    from submarine_runtime.sealing import mark  # noqa: PLC0415 - as above

    with open(key, "rb") as secret:  # noqa: PTH123 - as above
        return mark(name, (data,), secret.read())


def _hider(secrets: Mapping[str, str]) -> Callable[[bytes], bytes] | None:
    """Return what masks secrets in bytes, each by as many: pickles stay what they are."""
    always: dict[bytes, bytes] = {}
    in_small: dict[bytes, bytes] = {}
    for name, value in secrets.items():
        for line in {value, *value.splitlines(), repr(value)[1:-1], lean.dumps(value)[1:-1]}:
            data = line.encode("utf-8", "surrogateescape")
            if len(data.strip()) < _SHORTEST_SECRET:
                continue
            for masks, forms in ((always, (data,)), (in_small, _forms(data))):
                for form in forms:
                    masks.setdefault(form, _mask(name, form))
            for wide in ("utf-16-le", "utf-32-le"):  # as arrays have texts, and other systems
                with suppress(UnicodeEncodeError):
                    mask = _mask(name, data).decode("ascii")[: len(line)]
                    in_small[line.encode(wide)] = mask.ljust(len(line), "*").encode(wide)
    if not always:
        return None
    longest_first = sorted(always.items(), key=lambda mask: -len(mask[0]))
    all_forms = sorted({**in_small, **always}.items(), key=lambda mask: -len(mask[0]))

    def hide(data: bytes) -> bytes:
        for secret, mask in all_forms if len(data) <= _LARGE else longest_first:
            data = data.replace(secret, mask)
        return data

    return hide


def _mask(name: str, secret: bytes) -> bytes:
    """Return what stands for a secret, of the same length."""
    label = f"<secret {name}>".encode("ascii", "replace")
    return (label if len(label) <= len(secret) else b"<secret>"[: len(secret)]).ljust(
        len(secret), b"*"
    )


def _forms(secret: bytes) -> Iterator[bytes]:
    """Yield how bytes read in an address, as hex, and as base64 wherever they begin in it."""
    import binascii  # noqa: PLC0415 - of jobs with secrets

    ones = (bytes((one,)) for one in secret)
    quoted = b"".join(
        one if one.isalnum() or one in b"_.-~" else b"%%%02X" % ord(one) for one in ones
    )
    for form in (quoted, quoted.replace(b"%2F", b"/")):
        yield from (form, form.replace(b"%20", b"+"))
    yield secret.hex().encode()
    for before in range(3):
        text = binascii.b2a_base64(bytes(before) + secret, newline=False)
        # Without the characters that have bits of what is before and behind it.
        text = text[(8 * before + 5) // 6 : 8 * (before + len(secret)) // 6]
        yield from (text, text.replace(b"+", b"-").replace(b"/", b"_"))
