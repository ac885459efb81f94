"""What a cell's job left behind, brought into the notebook: as if the cell had run right there.

The job writes one pickle in which every object that travelled to it is only named (see
`submarine_runtime.home`). Here the names lead to the notebook's own objects: what the job changed
is changed in them, so that every alias of the notebook sees it. Where the notebook that sent them
is gone, they are loaded once more from the job's bundle.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import operator
import os
import pickle
import platform
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime import settings
from submarine_runtime.definitions import resolved
from submarine_runtime.failure import Raised
from submarine_runtime.frames import FILE
from submarine_runtime.frameworks import (
    Made,
    cut_off,
    give_own,
    link_frames,
    shared_arrays,
    unshared,
)
from submarine_runtime.home import containers_of
from submarine_runtime.lean import type_name
from submarine_runtime.memory import mapped_blocks
from submarine_runtime.module_state import parts_of

from submarine_engine.bundle.model import Manifest, Sent
from submarine_engine.history import read_json

if TYPE_CHECKING:
    from submarine_engine.outcome import Frame, WentHome

BUDGET = 64 * 1024 * 1024
"""Bytes of variables that come home together unless more is asked for, the smallest first."""

THE_VALUE = "the cell's value"
"""What the value of a cell's last expression is called among what stays in the job."""

Named = tuple[Any, ...]
"""How the pickle names an object: ``("file", path, number)``, ``("literal", name, number)``.

Also ``("again", name)``, ``("name", name)`` for what both sides have made by one statement, and
``("held", module, class, key, steps)`` for what a module holds.
"""


@dataclass(slots=True)
class Homecoming:
    """What came home.

    Parameters
    ----------
    value
        What the cell's last expression gave.
    names
        The variables, by name.
    replaced
        Pairs of an object of the notebook that could not be changed in place, and the new one.
    stayed
        What stays in the job: name, then why, in words.
    large
        The names among those that are too large to come unasked.
    gone
        Names that the cell deleted.
    changed
        Whether objects of the notebook were changed.
    left
        Whether the cell ended by a `SystemExit` that tells no failure: ``sys.exit()``.
    raised
        What the cell raised; None where that is not known.
    """

    value: Any = None
    names: dict[str, Any] = field(default_factory=dict)
    replaced: list[tuple[object, object]] = field(default_factory=list)
    stayed: dict[str, str] = field(default_factory=dict)
    large: list[str] = field(default_factory=list)
    gone: tuple[str, ...] = ()
    changed: bool = False
    left: bool = False
    raised: Raised | None = None


def bring(  # noqa: PLR0913 - what it takes, each by its name
    went: WentHome,
    *,
    results: Path,
    bundle: Path,
    sent: Sent | None = None,
    namespace: MutableMapping[str, Any] | None = None,
    budget: int = BUDGET,
    python: str = "",
) -> Homecoming:
    """Load what went home; with `sent`, the notebook's own objects are changed in place.

    Parameters
    ----------
    results
        The folder that holds ``home.pkl``.
    bundle
        The job's bundle.
    sent
        The objects that the job got copies of; None where they are not in this process.
    namespace
        The notebook's variables: what functions that come home read as their globals.
    budget
        Bytes of variables to load, where they come unasked.
    python
        The version of Python that the job ran.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    if namespace is None:
        namespace = vars(sys.modules["__main__"])
    originals = _Originals(bundle, sent, namespace)
    return _Bringing(originals, namespace, python).run(went, results, budget)


def bring_error(went: WentHome, *, results: Path, bundle: Path, python: str = "") -> Raised | None:
    """Load what the cell raised, and leave all as it is here; None where that is not known.

    Parameters
    ----------
    went
        What the cell left behind, as its outcome says.
    results, bundle, python
        As for `bring`.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    namespace = vars(sys.modules["__main__"])
    bringing = _BringingError(_Originals(bundle, None, namespace), namespace, python)
    return bringing.run(went, results, BUDGET).raised


class _Originals:
    """Finds the objects that a pickle names."""

    def __init__(
        self, bundle: Path, sent: Sent | None, namespace: MutableMapping[str, Any]
    ) -> None:
        self._bundle = bundle
        self._namespace = namespace
        self._objects: dict[str, Mapping[int, object]] = dict(sent.objects) if sent else {}
        self._literals: dict[str, list[object]] = {}
        self._written: Mapping[str, object] = sent.literals if sent else {}
        self._again: Mapping[str, object] = sent.again if sent else namespace
        self._anew: dict[Named, object] = {}
        self._replaced: dict[int, tuple[object, object]] = {}
        self._roots: dict[str, object] = {}
        self._made: dict[str, object] = {}
        self._held: dict[Named, dict[Named, object]] = {}

    def find(self, named: Named) -> object:
        """Return an object, the new one where it was replaced.

        Raises
        ------
        LookupError
            There is none.
        """
        if named in self._anew:
            return self._anew[named]
        kind, where, number = (*named, 0)[:3]
        if kind == "file":
            return self._renewed(self._of_file(where)[number])
        if kind == "literal":
            return self._literal(named, where, number)
        if kind == "held":
            return self._in_a_module(*named[1:5])
        spaces = {"again": self._again, "name": self._namespace}
        if kind not in spaces:
            raise LookupError(f"{named!r} names nothing")
        return spaces[kind][where]

    def _literal(self, named: Named, where: str, number: int) -> object:
        if where in self._written:
            if where not in self._literals:
                self._literals[where] = list(containers_of(self._written[where]))
            return self._renewed(self._literals[where][number])
        if named[3] == "tuple":
            raise LookupError(f"{where} is not in this notebook")
        made = self._anew[named] = _EMPTY[named[3]]()
        if not number and where.isidentifier():
            self._made[where] = made
        return made

    def _in_a_module(self, module: str, inner: str, key: str, steps: Named = ()) -> object:
        place = module, inner, key
        if place not in self._held:  # before any of it is changed
            value = getattr(_owner(module, inner), key)
            self._held[place] = {(): value, **dict(parts_of(module, key, value))}
        return self._held[place][steps]

    def replace(self, named: Named, old: object, new: object) -> None:
        """Let an object be found as `new` from here on."""
        self._anew[named] = new
        self._replaced[id(old)] = old, new

    def _renewed(self, held: object) -> object:
        """Return a tuple or a frozenset with what was replaced in it; all else as it is."""
        if not self._replaced or type(held) not in (tuple, frozenset):
            return held
        if id(held) in self._replaced:
            return self._replaced[id(held)][1]
        self._replaced[id(held)] = held, held  # it may hold itself
        items = [self._replaced.get(id(item), (item, item))[1] for item in held]  # type: ignore[attr-defined]
        items = list(map(self._renewed, items))
        if any(new is not old for new, old in zip(items, held, strict=True)):  # type: ignore[call-overload]
            self._replaced[id(held)] = held, type(held)(items)  # type: ignore[call-arg]
        return self._replaced[id(held)][1]

    def renewed(self) -> Iterator[tuple[object, object]]:
        """Yield the tuples that hold what was replaced, each with the one in its place."""
        if self._replaced:
            for held in [obj for objects in self._objects.values() for obj in objects.values()]:
                new = self._renewed(held)
                if new is not held and type(held) in (tuple, frozenset):
                    yield held, new

    def objects(self) -> Iterator[object]:
        """Yield the objects of this process that the job got copies of."""
        for objects in self._objects.values():
            yield from objects.values()

    def names(self) -> Iterator[tuple[str, object]]:
        """Yield the variables whose values had to be loaded from the bundle, or made anew."""
        yield from self._made.items()
        if not self._roots:
            return
        for load in self._manifest().loads:
            if load.path in self._roots:
                root = self._roots[load.path]
                values = root if len(load.names) > 1 else (root,)
                for name, value in zip(load.names, values, strict=True):  # type: ignore[call-overload]
                    if name.isidentifier():
                        yield name, value

    def _of_file(self, path: str) -> Mapping[int, object]:
        if path not in self._objects:
            if path not in {load.path for load in self._manifest().loads}:
                raise LookupError(f"{path!r} is no file of the bundle's values")
            blocks = self._bundle / f"{path.removesuffix('.pkl')}.bin"
            with (self._bundle / path).open("rb") as file:
                unpickler = pickle.Unpickler(  # noqa: S301 - the user's own job's
                    file, buffers=mapped_blocks(str(blocks)) if blocks.exists() else None
                )
                unpickler.persistent_load = self._space  # type: ignore[method-assign]
                self._roots[path] = unpickler.load()
                self._objects[path] = unpickler.memo.copy()
        return self._objects[path]

    def _space(self, space: Any) -> Any:  # noqa: ANN401 - as pickle has it
        """Find the variables that nameless functions read, which is all that a value may name."""
        return _persistent(space, self, self._namespace)

    def _manifest(self) -> Manifest:
        return Manifest.from_json(read_json(self._bundle / "manifest.json") or {})


class _AtHome:
    """The part of the unpicklers below that finds what the notebook has.

    It remembers which class or function was looked for.
    """

    wanted = ("", "")
    originals: _Originals
    namespace: MutableMapping[str, Any]

    def persistent_load(self, pid: Any) -> Any:  # noqa: ANN401 - as pickle has it
        return _persistent(pid, self.originals, self.namespace)

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        self.wanted = module, name
        return _definition(module, name, self.namespace) or super().find_class(module, name)  # type: ignore[misc]


class _Unpickler(_AtHome, pickle.Unpickler):
    """The fast one."""


class _CarefulUnpickler(_AtHome, pickle._Unpickler):  # noqa: SLF001 - C's numbering cannot be set
    """The slow one, which can begin behind a frame that could not be loaded."""


def _persistent(pid: Any, originals: _Originals, namespace: MutableMapping[str, Any]) -> Any:  # noqa: ANN401
    if pid[0] == "module":
        return importlib.import_module(pid[1])
    if pid[0] == "globals":
        return vars(importlib.import_module(pid[1])) if pid[1:] else namespace
    return originals.find(pid)


def _owner(module: str, name: str) -> Any:  # noqa: ANN401 - a module, or a class of it
    owner: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        owner = getattr(owner, part)
    return owner


def _definition(module: str, name: str, namespace: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a function or class of the notebook."""
    if module != "__main__":
        return None
    first, *rest = name.split(".")
    found = namespace.get(first)
    for part in rest:
        found = getattr(found, part, None)
    return found


class _Lost:
    """Stands for an object that could not be loaded."""


class _Bringing:
    """Loads the frames in their order."""

    def __init__(
        self, originals: _Originals, namespace: MutableMapping[str, Any], python: str
    ) -> None:
        self._originals = originals
        self._namespace = namespace
        self._python = python
        self._home = Homecoming()
        self._careful = False
        self._memo = 0
        self._unpickler: Any = None
        self._shared: dict[int, Any] | None = None
        self._owned: dict[int, tuple[object, object]] = {}

    def run(self, went: WentHome, results: Path, budget: int) -> Homecoming:
        self._home.gone = went.gone
        for one in went.stayed:
            self._home.stayed[one.name or THE_VALUE] = (
                f"{one.type}: {one.why}" if one.why else one.type
            )
        if went.asked:
            budget = sys.maxsize
        if went.frames:
            with (results / FILE).open("rb") as file:
                self._frames(file, went.frames, budget)
        self._home.replaced += self._originals.renewed()
        for name, value in self._originals.names():
            self._home.names.setdefault(name, value)
        link_frames([*self._namespace.values(), *self._home.names.values()])
        return self._home

    def _frames(self, file: Any, frames: tuple[Frame, ...], budget: int) -> None:  # noqa: ANN401
        self._unpickler = self._new(file)
        begin = 0
        for frame in frames:
            size = frame.end - begin
            if frame.kind in ("name", "value"):
                if size > budget:
                    called = frame.name or THE_VALUE
                    self._home.stayed[called] = f"{frame.type}, {_human(size)}"
                    self._home.large.append(called)
                    self._skip(file, frame)
                    begin = frame.end
                    continue
                budget -= size
            try:
                content = self._unpickler.load()
            except Exception as error:  # noqa: BLE001 - a foreign __setstate__ raises what it likes
                self._note_failure(frame, error)
                self._skip(file, frame)
            else:
                self._take(frame, content)
            self._memo = frame.memo
            begin = frame.end

    def _new(self, file: Any) -> Any:  # noqa: ANN401
        unpickler = (_CarefulUnpickler if self._careful else _Unpickler)(file)
        unpickler.originals, unpickler.namespace = self._originals, self._namespace
        return unpickler

    def _skip(self, file: Any, frame: Frame) -> None:  # noqa: ANN401 - a file
        """Go on behind a frame that is not loaded: its objects are missing from the memo."""
        memo = dict(self._unpickler.memo.copy())
        self._careful = True
        self._unpickler = self._new(file)
        known = {number: obj for number, obj in memo.items() if number < self._memo}
        lost = {number: _Lost() for number in range(frame.memo) if number not in known}
        self._unpickler.memo = {**known, **lost}
        self._memo = frame.memo
        file.seek(frame.end)

    def _note_failure(self, frame: Frame, error: Exception) -> None:
        if frame.kind == "error":
            return
        called = frame.name or THE_VALUE
        if frame.kind in ("made", "states", "attributes"):
            called = (
                f"changes of {Path(frame.name).stem}" if frame.name else "changes of definitions"
            )
        self._home.stayed[called] = f"{frame.type}: {self._why(error)}"

    def _why(self, error: Exception) -> str:
        module, name = self._unpickler.wanted
        if isinstance(error, AttributeError) and module == "__main__":
            return f"`{name}` is not defined here"
        if isinstance(error, ModuleNotFoundError):
            return f"there is no module `{error.name}` in this Python"
        here = platform.python_version()
        why = f"{type(error).__name__}: {error}"
        if self._python and self._python.split(".")[:2] != here.split(".")[:2]:
            return f"{why}; the job ran Python {self._python}, this is {here}"
        return why

    def _take(self, frame: Frame, content: Any) -> None:  # noqa: ANN401 - the user's own values
        if frame.kind == "name":
            if _holds_lost(content):
                self._home.stayed[frame.name] = f"{frame.type}: part of it could not be loaded"
            else:
                self._home.names[frame.name] = content
        elif frame.kind == "value":
            self._home.value = content
        elif frame.kind == "error":
            self._home.raised = content if isinstance(content, Raised) else None
        elif frame.kind == "settings":
            _set(content)
        elif frame.kind == "attributes":
            for name, key, deleted, value in content:
                self._attribute(name, key, value, deleted=deleted)
        elif frame.kind == "module":
            self._set_on_a_module(frame, content)
        else:
            for named, kind, state in content:
                self._change(named, kind, state)

    def _attribute(self, name: str, key: str, value: object, *, deleted: bool) -> None:
        owner = resolved(self._namespace, name)
        with suppress(AttributeError, TypeError, ValueError):
            if key == "__closure__" and isinstance(value, dict):
                for number, content in value.items():
                    owner.__closure__[number].cell_contents = content
            elif deleted:
                delattr(owner, key)
            else:
                setattr(owner, key, value)

    def _set_on_a_module(self, frame: Frame, content: Any) -> None:  # noqa: ANN401 - as above
        module, name, key, gone, value = content
        try:
            owner = _owner(module, name)
            if not gone:
                setattr(owner, key, value)
            elif hasattr(owner, key):
                delattr(owner, key)
        except Exception as error:  # noqa: BLE001 - the module runs as it is imported
            self._home.stayed[frame.name] = f"{type_name(value)}: {type(error).__name__}: {error}"
        else:
            self._home.changed = True

    def _change(self, named: Named, kind: str, state: Any) -> None:  # noqa: ANN401
        original: object = None
        try:
            original = self._originals.find(named)
            own = self._frames_own(original)
            if own is not original:
                self._originals.replace(named, original, own)
                original = own
            if self._owned:  # a block of the job's was loaded with the array as it was here
                give_own(state, self._owned)
            new = take_in(original, kind, state)
        except Exception as error:  # noqa: BLE001 - a foreign __setstate__ raises what it likes
            called = f"changes of a {type_name(original)}"
            self._home.stayed[called] = f"{type(error).__name__}: {error}"
            return
        self._home.changed = True
        if new is not original:
            self._originals.replace(named, original, new)
            if named[0] == "held" and not any(named[4:]):
                setattr(_owner(*named[1:3]), named[3], new)
            self._home.replaced.append((original, new))

    def _frames_own(self, original: object) -> object:
        """Return a copy of an array whose frame shares it, now the frame's own; else `original`.

        What writes to a frame copies first where others look at the same memory, so that they stay
        as they were: the job has done that, or had nobody else who looked.
        """
        if self._shared is None:
            self._shared = dict(shared_arrays(self._originals.objects()))
        holder = self._shared.get(id(original))
        if holder is not None:
            for old, own in unshared(holder):
                self._owned[id(old)] = old, own
                self._shared.pop(id(old), None)
        return self._owned.get(id(original), (None, original))[1]


class _BringingError(_Bringing):
    """Loads the frames for the sake of that of the error, which may name objects of all."""

    def run(self, went: WentHome, results: Path, budget: int) -> Homecoming:
        with (results / FILE).open("rb") as file:
            self._frames(file, went.frames, budget)
        return self._home

    def _take(self, frame: Frame, content: Any) -> None:  # noqa: ANN401 - as above
        if frame.kind == "error" and not _holds_lost(content):
            super()._take(frame, content)
        elif frame.kind in ("made", "states"):
            for named, kind, state in content:
                if named[0] in ("file", "literal"):  # a copy that was loaded here
                    self._change(named, kind, state)


_EMPTY: dict[str, Callable[[], Any]] = {"list": list, "dict": dict, "set": set}


def _set(told: Mapping[str, Any]) -> None:
    """Set for this process what the cell set for the job's."""
    for library, changes in told.get("options", {}).items():
        settings.put(library, changes)
    for name, value in told.get("environ", {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for path in told.get("path", ()):
        if path not in sys.path:
            sys.path.append(path)
    if folder := told.get("folder"):
        with suppress(OSError):
            os.chdir(folder)
    for module, put, state in told.get("random", ()):
        if module in _RANDOM:
            with suppress(Exception):
                getattr(importlib.import_module(module), put)(state)


_RANDOM = ("random", "numpy.random", "torch")


def take_in(original: Any, kind: str, state: Any) -> Any:  # noqa: ANN401 - a line a kind
    """Change `original` to `state` in place; return it, or a new object where that cannot be.

    Parameters
    ----------
    original
        The notebook's object.
    kind
        How its state was taken, as the runtime has it.
    state
        What the job's object holds.
    """
    if isinstance(original, (pickle.PickleBuffer, Made)):
        return original  # the memory of an array or a tensor, which is changed with it
    take = _TAKES.get(kind)
    if take is None:
        raise ValueError(f"no kind of change: {kind!r}")
    new = take(original, state)
    return original if new is None else new


def _list(original: Any, state: Any) -> None:  # noqa: ANN401 - as `take_in`, like those below
    known = len(original)
    if known > len(state) or any(map(operator.is_not, original, state)):
        original[:] = state
    elif known < len(state):
        original.extend(state[known:])  # lists that watch themselves take this best


def _dict(original: Any, state: Any) -> None:  # noqa: ANN401
    if "__builtins__" in original:  # of this very Python
        state = {"__builtins__": original["__builtins__"], **state}
    if list(original) == list(state) and not any(
        map(operator.is_not, original.values(), state.values())
    ):
        return
    original.clear()
    original.update(state)


def _variable(original: Any, state: Any) -> None:  # noqa: ANN401 - of TensorFlow
    original.assign(state)


def _set_items(original: Any, state: Any) -> None:  # noqa: ANN401
    original.clear()
    original.update(state)


def _cell(original: Any, state: Any) -> None:  # noqa: ANN401
    original.cell_contents = state


def _class(original: Any, state: Any) -> Any:  # noqa: ANN401
    """Let an object change its class, as lazy modules do, and then its content."""
    original.__class__, kind, content = state
    if kind == "state":
        vars(original).clear()
    return take_in(original, kind, content)


def _move(original: Any, where: str, at: int = 0) -> None:  # noqa: ANN401 - a file, a generator
    if where == "at":
        original.seek(at)
    else:
        original.close()


def _array(original: Any, new: Any) -> Any:  # noqa: ANN401 - arrays of numpy
    numpy = sys.modules["numpy"]
    same = original.shape == new.shape and original.dtype == new.dtype
    if same and original.flags.writeable:
        if isinstance(original, numpy.ma.MaskedArray):
            numpy.copyto(original.data, new.data)
            original.mask, original.fill_value = new.mask, new.fill_value
        else:
            numpy.copyto(original, new)
        return original
    if same and _equal(original, new):
        return original
    return new


def _tensor(original: Any, state: Any) -> Any:  # noqa: ANN401 - tensors of torch
    """Rebind a tensor to the storage that came home for the job's; data is loaded separately."""
    data, requires_grad, attributes, beside, graph = state
    if not _same_memory(original, data):
        original.data = data
    if graph or (graph is not None and original.grad_fn is not None):
        original.detach_()
        if graph:  # the job computed what it holds now
            cut_off(original, graph)
    if original.is_leaf:
        original.requires_grad_(requires_grad)
    elif "grad" in beside:
        original.retain_grad()
    if original.is_leaf or "grad" in beside:
        original.grad = beside.get("grad")
    if original._backward_hooks != beside.get("_backward_hooks"):  # noqa: SLF001 - torch's only way
        original._backward_hooks = beside.get("_backward_hooks")  # noqa: SLF001 - likewise
    for name, held in attributes.items():
        setattr(original, name, held)
    return original


def _same_memory(left: Any, right: Any) -> bool:  # noqa: ANN401 - tensors of torch
    return bool(
        left.dtype == right.dtype
        and left.device == right.device
        and left.shape == right.shape
        and left.stride() == right.stride()
        and left.data_ptr() == right.data_ptr()
    )


def _storage(original: Any, content: Any) -> Any:  # noqa: ANN401 - storages of torch
    if original.nbytes() != content.nbytes():
        original.resize_(content.nbytes())
    original.copy_(content)
    return original


def _whole(original: Any, new: Any) -> Any:  # noqa: ANN401 - the user's own values
    """Take in an object that was made anew: its class says no other way."""
    if new is original or (type(new) is type(original) and _equal(original, new)):
        return original
    if isinstance(original, Iterator) and (taken := _taken(original, new)) is not None:
        _take(original, taken)
        return original
    if type(new) is type(original):
        for kind in (dict, list, set):
            if isinstance(original, kind):
                return take_in(original, kind.__name__, new)
        if type(original).__module__ == "array":
            return take_in(original, "list", new)
        if _is_plain_object(original):
            vars(original).clear()
            vars(original).update(vars(new))
            return original
    return new


def _taken(original: Any, new: Any) -> int | None:  # noqa: ANN401 - iterators
    """Return how many items fewer `new` has; None where only taking them would tell."""
    kind = type(original)
    if kind.__module__ not in ("builtins", "itertools"):
        return None
    if kind is type(new) and kind in (enumerate, itertools.count):
        start, end = (iterator.__reduce__()[1] for iterator in (original, new))
        if kind is enumerate:
            # What it numbers may be the user's own code, which is not to run here.
            return end[1] - start[1] if operator.length_hint(start[0], -1) >= 0 else None
        return int(end[0] - start[0]) if len(start) == 1 else None
    left = operator.length_hint(new, -1)
    return operator.length_hint(original, -1) - left if left >= 0 else None


def _take(iterator: Iterator[object], count: int) -> None:
    deque(itertools.islice(iterator, max(0, count)), maxlen=0)


def _is_plain_object(value: object) -> bool:
    """Return whether all that an object is stands in its ``__dict__``.

    A class of C or Cython has more: its instances are larger than those of its base by what no
    ``__dict__`` shows.
    """
    for base in type(value).__mro__[:-1]:
        grown = base.__basicsize__ - (base.__base__ or object).__basicsize__
        for_python = sum(name in vars(base) for name in ("__dict__", "__weakref__"))
        python = base.__flags__ & (1 << 9)  # Py_TPFLAGS_HEAPTYPE
        if not python or base.__itemsize__ or grown > for_python * tuple.__itemsize__:
            return False
    return isinstance(getattr(value, "__dict__", None), dict)


def _equal(left: object, right: object) -> bool:
    """Return whether two values say the same, pickled."""
    try:
        return pickle.dumps(left) == pickle.dumps(right)
    except Exception:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
        return False


def _state(original: Any, content: Any, *, whole: bool) -> None:  # noqa: ANN401
    """Do as unpickling does to a new object, to one that has a state already."""
    state, items, pairs, setter = content
    if setter is not None:
        setter(original, state)
    elif hasattr(original, "__setstate__"):
        if state is not None:
            original.__setstate__(state)
    elif isinstance(original, Iterator) and isinstance(state, int):
        _take(original, state)  # of a dict or a set: it travelled as one of a list
    else:
        _attributes(original, state, whole=whole)
    if items is not None:
        if hasattr(original, "clear"):
            original.clear()
        original.extend(items)
    if pairs is not None:
        original.clear()
        for key, value in pairs.items():
            original[key] = value


def _attributes(original: Any, state: Any, *, whole: bool) -> None:  # noqa: ANN401
    slots: Mapping[str, object] = {}
    if isinstance(state, tuple) and len(state) == 2:  # noqa: PLR2004 - (dict, slots), as pickle has it
        state, slots = state[0], state[1] or {}
    own = getattr(original, "__dict__", None)
    if isinstance(own, dict):
        new = dict(state or {})
        if whole:
            for key in own.keys() - new.keys():
                del own[key]
        own.update(new)
    for key, value in slots.items():
        setattr(original, key, value)


_TAKES: dict[str, Callable[[Any, Any], Any]] = {
    "array": _array,
    "cell": _cell,
    "class": _class,
    "dict": _dict,
    "list": _list,
    "place": lambda original, state: _move(original, *state),
    "set": _set_items,
    "some": functools.partial(_state, whole=False),
    "state": functools.partial(_state, whole=True),
    "storage": _storage,
    "tensor": _tensor,
    "variable": _variable,
    "whole": _whole,
}


def _holds_lost(value: object) -> bool:
    """Return whether a frame was built on an object that could not be loaded."""
    if type(value) is _Lost:  # a foreign __class__ may raise
        return True
    try:
        return b"_Lost" in pickle.dumps(value)
    except Exception:  # noqa: BLE001 - it may hold what only came by reference
        return False


def _human(size: int) -> str:
    from submarine_engine.bundle.capture import human  # noqa: PLC0415 - seldom

    return human(size)
