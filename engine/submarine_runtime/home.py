"""Writes what a cell has done for the notebook: the names that it bound, what it changed in place.

`task` begins it before the cell's code and `outcome` has it write at the end; the notebook reads it
by `submarine_engine.home`. An object that travelled to the job is known by its file and by its
number in the memo of that file's pickle: the number is the same where it was pickled and where it
was loaded. So the pickle that goes back only names such an object, with the new state of those that
changed. The notebook finds its originals by that, and two names of one object stay two names of
one.

The pickle (``results/home.pkl``) is a sequence of frames written by one pickler, see `Home.write`.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from _weakref import getweakrefcount

from submarine_runtime import display_hooks, progress_file
from submarine_runtime.definitions import (
    CELL,
    FUNCTION,
    MISSING,
    closed_over,
    content_of,
    held_by,
    inner_classes,
    is_definition,
    is_own,
    made_by_source,
    methods_of,
    nameless,
    place_of_attribute,
    resolved,
    space_of,
)
from submarine_runtime.frames import (
    CallOnLoad,
    ClosedFile,
    Comparer,
    Content,
    Frames,
    comparing,
    is_small,
    said,
    value_name,
)
from submarine_runtime.lean import is_data, standard, suppress, type_module
from submarine_runtime.memory import (
    address_of,
    bytes_of,
    is_pristine,
    mapped_blocks,
    memory_of,
    root_of,
    say_the_same,
    view_on,
)

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from submarine_runtime.module_state import ModuleStates
    from submarine_runtime.settings import Settings


class Ending:
    """How the user's code ended; made at that moment.

    Parameters
    ----------
    kind
        ``returned``, ``raised`` or ``exited``.
    exit_code
        What the process exits with.
    error
        The exception that ended it, also a `SystemExit`.

    Attributes
    ----------
    value
        What the script's last statement gave.
    names
        The variables that it assigned, if it was an assignment: `value` is theirs.
    outputs
        The variables to bring back, also those of `names`; `MISSING` for one not there.
    home
        Where a notebook waits: writes what goes home, in place of `outputs`.
    """

    def __init__(self, kind: str, exit_code: int, error: BaseException | None = None) -> None:
        self.kind = kind
        self.exit_code = exit_code
        self.error = error
        self.value: object = None
        self.names: tuple[str, ...] = ()
        self.outputs: dict[str, object] = {}
        self.home: Home | None = None
        self.at = [time.time(), time.monotonic()]


NAME = "__submarine_home__"
"""What the `Home` is called in the script's namespace until the cell begins."""


NOTHING = "none"
"""The one output that stands for no output at all."""

_COPIED = 16 << 20
"""Bytes of a file of values that is loaded once more, to see whether anything has changed."""

_LARGEST = 4 << 30
"""Bytes of one variable that are written without being asked for: it costs time of the GPU."""

_DEEPEST = 4
_SAMPLE = 64


class Home:
    """Knows what came from the notebook, and writes what goes back.

    Parameters
    ----------
    bundle
        The bundle's folder.
    told
        What `submarine_engine.bundle.Manifest.home` says.
    outputs
        The variables that are asked for: those alone come home; none: all that the cell bound.
    """

    def __init__(self, bundle: str, told: dict[str, Any], outputs: list[str]) -> None:
        self.loader: str = told["loader"]
        self.bundle = bundle
        self._literals: list[str] = told["literals"]
        self._defines = set(told["defines"])
        self._binds = set(told["binds"])
        self._shadows: list[str] = told.get("shadows", [])
        self._random: list[list[str]] = told["random"]
        self._again: dict[str, tuple[Any, tuple[Any, ...]]] = dict.fromkeys(
            told.get("again", ()), (None, ())
        )
        self._outputs = [] if outputs == [NOTHING] else outputs
        self._nothing = outputs == [NOTHING]
        self.namespace: dict[str, Any] = {}
        self._before: dict[str, Any] | None = None
        self._roots: dict[str, Any] = {}
        self._objects: dict[str, dict[int, Any]] = {}
        self._written: dict[str, tuple[list[Any], list[list[Any]]]] = {}
        self._attributes: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._closures: dict[str, tuple[Any, dict[int, Any]]] = {}
        self._known: dict[int, tuple[Any, ...]] = {}
        self._memory: dict[int, tuple[Any, Any]] = {}
        self._came: dict[str, list[memoryview]] = {}
        self._settings: Settings | None = None
        self._modules: list[str] = told.get("modules", [])
        self._states_of_modules: ModuleStates | None = None
        self._on_libraries: dict[str, Any] = dict.fromkeys(told.get("sets", ()))
        self._kinds: dict[str, dict[int, type]] = {}
        self._unchanged: set[int] = set()
        self._warns: tuple[Any, Any] | None = None
        self._around: tuple[dict[str, str], str, list[str]] = {}, "", []
        self.first = True
        """Whether it is rank 0's: the others' variables have no place in the notebook."""

    # While the script runs

    def trace(self) -> None:
        """Take the place of the script's function that loads values; called right below it."""
        self.namespace[self.loader] = self._load

    def hush(self) -> None:
        """Show no warnings until the cell begins: those of what is run again were shown before.

        They count as shown, so that none comes later that the notebook would not show again. What
        the cell itself imports and defines stands above it too: then all are shown.
        """
        if self._defines:
            return
        if "warnings" in sys.modules:
            self._hush(sys.modules["warnings"])
        else:
            display_hooks.after_import("warnings", self._hush)

    def _hush(self, module: Any) -> None:  # noqa: ANN401 - a module as it is
        if self._before is None:
            self._warns = module, module._showwarnmsg_impl  # noqa: SLF001 - what catch_warnings sets
            module._showwarnmsg_impl = _nothing  # noqa: SLF001 - likewise

    def begin(self) -> None:
        """Remember what is there before the cell's own statements; called right above them."""
        namespace = self.namespace
        namespace.pop(NAME, None)
        if self._warns is not None:
            module, shows = self._warns
            module._showwarnmsg_impl = shows  # noqa: SLF001 - likewise
        self._before = dict(namespace)
        # What the cell binds, and then deletes, is gone from the notebook too.
        self._shadows = [name for name in self._shadows if name not in namespace]
        namespace.update(dict.fromkeys(self._shadows, MISSING))
        self._around = _surroundings()
        from submarine_runtime.settings import Settings  # noqa: PLC0415 - only for a notebook

        self._settings = Settings(display_hooks.after_import)
        for name in self._literals:
            value = resolved(namespace, name)
            containers = list(containers_of(value))
            self._written[name] = containers, list(map(_items, containers))
            for number, obj in enumerate(containers):
                named = ("literal", name, number, type(obj).__name__)
                self._known.setdefault(id(obj), named)
        for name in self._again:
            value = namespace.get(name)
            self._again[name] = value, place_of(value)
            self._known[id(value)] = ("again", name)
        self._note_definitions()
        for dotted in self._on_libraries:
            self._on_libraries[dotted] = held_by(*place_of_attribute(dotted))
        if self._modules:
            from submarine_runtime.module_state import ModuleStates  # noqa: PLC0415 - seldom

            self._states_of_modules = ModuleStates(
                self._modules, display_hooks.after_import, self.key_of, self.bundle
            )
        progress_file.reach(progress_file.CODE)

    def _note_definitions(self) -> None:
        for name, value in (self._before or {}).items():
            if is_definition(value) and is_own(value) and value.__qualname__ == name:
                for path, owner in (name, value), *inner_classes(name, value):
                    self._attributes[path] = owner, space_of(owner)
        for name, value in (self._before or {}).items():
            if name in self._binds or not made_by_source(value):
                continue
            # In a file of values it stands by its name, which gives it a number on this side alone.
            if id(value) not in self._known or getattr(value, "__qualname__", "") == name:
                self._known[id(value)] = ("name", name)
                if type(value) is FUNCTION:
                    self._attributes[name] = value, space_of(value)
        for name, (value, _) in list(self._attributes.items()):
            for path, method in methods_of(name, value):
                self._attributes[path] = method, space_of(method)
                self._closures[path] = method, closed_over(method)

    def enter(self, namespace: dict[str, Any]) -> None:
        """Take the script's namespace, before anything of it runs."""
        self.namespace = namespace
        namespace[NAME] = self

    def _load(self, path: str) -> Any:  # noqa: ANN401 - the user's own values
        """Load values of the notebook from a file beside this script."""
        collects = gc.isenabled()
        gc.disable()  # a million new objects would set it off again and again, and all are wanted
        try:
            unpickler, value = self._unpickled(path)
            memo = unpickler.memo.copy()
            del unpickler
            self._roots[path] = value
            self._objects[path] = objects = _mutable(memo, self.namespace)
            self._kinds[path] = dict(zip(objects, map(type, objects.values())))  # noqa: B905 - of one length
            self._known.update({id(obj): ("file", path, number) for number, obj in objects.items()})
            for obj in objects.values() if "numpy" in sys.modules else ():
                self._note_memory(obj)
            if "pandas" in sys.modules:
                from submarine_runtime.frameworks import link_frames  # noqa: PLC0415 - likewise

                link_frames(objects.values())
        finally:
            if collects:
                gc.enable()
        return value

    def _note_memory(self, obj: object) -> None:
        """Remember the largest array at a piece of memory: the others are views on it."""
        root = root_of(obj)
        if root is not None:
            known = self._memory.get(id(root))
            if known is None or known[1].nbytes < obj.nbytes:  # type: ignore[attr-defined]
                self._memory[id(root)] = root, obj

    def view(self, obj: object) -> Any:  # noqa: ANN401 - as pickle's reducers
        """Reduce `obj`, an array that shares its memory with one that goes home, or is there."""
        root = root_of(obj)
        if root is None or id(root) not in self._memory:
            return None
        return view_on(obj, self._memory[id(root)][1])

    def _unpickled(self, path: str) -> tuple[Any, Any]:
        with open(f"{self.bundle}/{path}", "rb") as file:  # noqa: PTH123 - pathlib is slow
            blocks = list(self._blocks(path) or ())
            self._came.setdefault(path, blocks)
            unpickler = standard("pickle", self.bundle).Unpickler(file, buffers=blocks)
            # A name on the unpickler itself is what pickle asks; a class would cost a class.
            unpickler.persistent_load = self._space
            return unpickler, unpickler.load()

    def _blocks(self, path: str) -> Iterator[memoryview] | None:
        """Return the large blocks of a file of values, as the script's own function maps them."""
        blocks = f"{self.bundle}/{path[:-4]}.bin"
        return mapped_blocks(blocks) if os.path.exists(blocks) else None  # noqa: PTH110 - as above

    def _space(self, space: tuple[str, ...]) -> dict[str, Any]:
        """Return the variables that nameless functions read: the script's, or a module's."""
        return vars(_imported(space[1])) if space[1:] else self.namespace

    # When it has ended

    def write(self, ending: Ending, results: str) -> dict[str, Any]:
        """Write what goes home to the folder `results`; return what ``outcome.json`` says of it.

        The frames are, in this order: of each file of values that changed, what of it had to be
        made anew; the new states; the attributes of the notebook's functions and classes; a frame
        for each name; the result.

        Parameters
        ----------
        ending
            How the code ended, and what it gave.

        Raises
        ------
        OSError
            The disk is full.
        """
        gc.disable()  # the process ends soon; a million objects would set it off for nothing
        for name in list(self._shadows):
            if self.namespace.get(name) is MISSING:
                del self.namespace[name]
                self._shadows.remove(name)
                self._binds.discard(name)
        for name in self._defines:
            value = self.namespace.get(name)
            if made_by_source(value) and type(value) is not FUNCTION:
                self._known[id(value)] = ("name", name)
            elif type(value) is FUNCTION and is_own(value) and not self.at_home(value):
                self._known.setdefault(id(value), ("name", name))  # a decorator has made it
        names = self._names(ending)
        for value in names.values():
            self._note_memory(value)
        frames = Frames(self, results)
        try:
            self._write_changes(frames)
            sizes = {name: self._about(value) for name, value in names.items()}
            for name in sorted(names, key=sizes.__getitem__):
                self._write_name(frames, name, names[name], sizes[name])
            value = self._value(ending, names)
            if value is not MISSING:
                frames.add("value", "", value)
            _write_error(frames, ending)
        except BaseException:
            frames.discard()
            raise
        return {
            **frames.finish(),
            "defined": sorted(name for name in self._defines if name in self.namespace),
            "gone": sorted(self._deleted()),
            "asked": bool(self._outputs),
            "seconds": max(0.0, time.monotonic() - ending.at[1]),
        }

    def write_error(self, ending: Ending, results: str) -> dict[str, Any]:
        """Write what the code raised, and nothing else; as `write` does.

        Parameters
        ----------
        ending
            How the code ended, with what it raised.
        results
            The folder to write to.

        Raises
        ------
        OSError
            The disk is full.
        """
        frames = Frames(self, results)
        try:
            _write_error(frames, ending)
        except BaseException:
            frames.discard()
            raise
        defined = sorted(name for name in self._defines if name in self.namespace)
        return {**frames.finish(), "defined": defined, "gone": [], "asked": False, "seconds": 0.0}

    @property
    def gives_value(self) -> bool:
        """Whether the value of the closing expression is wanted, too."""
        return not self._nothing

    def _names(self, ending: Ending) -> dict[str, Any]:
        """Return the variables that go home."""
        namespace = self.namespace
        wanted = dict.fromkeys((*self._outputs, *ending.names))
        if self._outputs:
            return {name: namespace[name] for name in wanted if name in namespace}
        if self._nothing or self._before is None:
            return {}
        return {
            name: value
            for name, value in namespace.items()
            if (name in wanted or self._bound(name, value)) and not self._skipped(name, value)
        }

    def _bound(self, name: str, value: object) -> bool:
        before = self._before or {}
        return before.get(name, MISSING) is not value or name in self._binds

    def _skipped(self, name: str, value: object) -> bool:
        """Return whether the notebook gets it another way, or has no use for it."""
        if name.startswith("__") and name.endswith("__"):
            return True
        if type(value) is type(sys) or not _is_plain(value):
            return name in self._defines
        return name in self._defines and self.at_home(value)

    def at_home(self, value: object) -> bool:
        """Return whether the notebook has `value`, a function or class, under its own name."""
        if not (is_definition(value) and is_own(value)):
            return False
        first, *rest = str(value.__qualname__).split(".")  # type: ignore[attr-defined]
        if first not in self._defines and (
            first in self._binds or first not in (self._before or ())
        ):
            return False
        found = self.namespace.get(first)
        for part in rest:
            found = getattr(found, part, None)
        return found is value

    def _deleted(self) -> Iterator[str]:
        """Yield the names that the cell has deleted."""
        if self._before is None or self._nothing or self._outputs:
            return
        for name in (*self._before, *self._shadows):
            if name not in self.namespace and not name.startswith("__"):
                yield name

    def _value(self, ending: Ending, names: dict[str, Any]) -> Any:  # noqa: ANN401 - the user's
        if ending.kind != "returned" or self._nothing:
            return MISSING
        if ending.names and all(name in names for name in ending.names):
            return MISSING  # it is what these names hold
        return MISSING if ending.value is None else ending.value

    def _write_name(self, frames: Frames, name: str, value: object, size: int) -> None:
        if _root(value) == "_io" and getattr(value, "closed", None) is True:
            value = ClosedFile(value)
        if size > _LARGEST and name not in self._outputs:
            frames.stay(name, value, "it is larger than what is written without being asked for")
            return
        frames.add("name", name, value)

    def _write_changes(self, frames: Frames) -> None:
        if self._before is None or self._nothing:
            return
        made: list[tuple[str, list[Any]]] = []
        states: list[tuple[str, list[Any]]] = []
        for path, root in self._roots.items():
            if not self._same(path, root):
                anew, changed = self._states(path, frames)
                made.append((path, anew))
                states.append((path, changed))
        states.append(("", list(self._moved(frames))))
        for kind, groups in (("made", made), ("states", states)):
            for path, items in groups:
                frames.add_all(kind, path, items)
        for name, (containers, before) in self._written.items():
            if not all(map(_alike, map(_items, containers), before)):
                items = [
                    (self._known[id(obj)], *_state(obj))
                    for obj in containers
                    if type(obj) is not tuple
                ]
                frames.add_all("states", name, items)
        attributes = [*self._changed_attributes(), *self._own_attributes()]
        if attributes:
            frames.add_all("attributes", "", attributes)
        self._write_modules(frames)
        self._write_surroundings(frames)

    def _write_modules(self, frames: Frames) -> None:
        """Write what the cell has set on modules: on the notebook's, and by name on libraries."""
        for dotted, before in self._on_libraries.items():
            place = place_of_attribute(dotted)
            now = held_by(*place)
            if now is not before and not (type(now) in _PLAIN and now == before):
                gone = now is MISSING
                if is_definition(now) and f"{now.__module__}.{now.__qualname__}" == dotted:
                    # By that name the notebook has what it has put there.
                    frames.stay(dotted, now, "the notebook has replaced it")
                    continue
                frames.add("module", dotted, (*place, gone, None if gone else now))
        modules = self._states_of_modules
        if modules is None:
            return
        for obj, named in modules.changed():
            called = ".".join(filter(None, named[1:4]))
            try:
                kind, content = _state(obj)
            except Exception as error:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
                frames.stay(called, obj, said(error))
            else:
                frames.add_all("states", called, [(named, kind, content)] if kind else [])
        for change in modules.rebound():
            frames.add("module", ".".join(filter(None, change[:3])), change)

    def _write_surroundings(self, frames: Frames) -> None:
        for library, changes in self._settings.changed() if self._settings else ():
            if not frames.add("settings", library, {"options": {library: changes}}):
                frames.stay(f"options of {library}", changes, "they cannot be pickled")
        around = self._changed_surroundings()
        if around:
            frames.add("settings", "", around)

    def _moved(self, frames: Frames) -> Iterator[tuple[Any, ...]]:
        """Yield where what was made again stands now: the notebook's own is to stand there."""
        for name, (value, before) in self._again.items():
            place = place_of(value)
            if place == before:
                continue
            if place[0] in ("over", "closed", "at"):
                yield ("again", name), "place", place
            else:
                frames.stay(name, value, "the job has read on; the notebook's is where it was")

    def _changed_attributes(self) -> Iterator[tuple[str, str, bool, Any]]:
        for name, (owner, before) in self._attributes.items():
            now = space_of(owner)
            for key in {**before, **now}:
                if key in ("__dict__", "__weakref__", "__annotations_cache__"):
                    continue
                old, new = before.get(key, MISSING), now.get(key, MISSING)
                if old is not new:
                    yield name, key, new is MISSING, None if new is MISSING else new
        for name, (method, first) in self._closures.items():
            cells = {
                number: held
                for number, held in closed_over(method).items()
                if held is not first.get(number, MISSING) and is_data("", held)
            }
            if cells:
                yield name, "__closure__", False, cells

    def _own_attributes(self) -> Iterator[tuple[str, str, bool, Any]]:
        """Yield what the cell's own functions and classes hold: at home they are made anew."""
        for name in self._defines:
            value = self.namespace.get(name)
            named = self._known.get(id(value)) == ("name", name)
            if not (is_definition(value) and (named or self.at_home(value))):
                continue
            inner = list(inner_classes(name, value))
            methods = [one for pair in ((name, value), *inner) for one in methods_of(*pair)]
            for path, owner in ((name, value), *inner, *methods):
                for key, held in list(vars(owner).items()):
                    if key != "__wrapped__" and is_data(key, held):
                        yield path, key, False, held
                if type(owner) is not FUNCTION:
                    continue
                contents = closed_over(owner)
                kept = {number: held for number, held in contents.items() if is_data("", held)}
                if owner is not value:  # dataclasses close over what is one for the process
                    kept = {n: held for n, held in kept.items() if _is_state(held)}
                if kept:
                    yield path, "__closure__", False, kept

    def _changed_surroundings(self) -> dict[str, Any]:
        """Return what the cell has set for the whole process, and how its random states are."""
        found: dict[str, Any] = {}
        variables, folder, path = self._around
        now, there, ways = _surroundings()
        changed = {
            name: now.get(name)
            for name in {**variables, **now}
            if variables.get(name) != now.get(name) and not name.startswith("SUBMARINE_")
        }
        if changed:
            found["environ"] = changed
        if there != folder:
            found["folder"] = there
        if ways != path:
            found["path"] = [one for one in ways if one not in path]
        states = []
        for module, get, put in self._random:
            loaded = sys.modules.get(module)
            if loaded is not None:
                with suppress(Exception):
                    states.append((module, put, getattr(loaded, get)()))
        if states:
            found["random"] = states
        return found

    def _states(self, path: str, frames: Frames) -> tuple[list[Any], list[Any]]:
        """Return what of a file of values has to be made anew, and the states of all else."""
        anew: list[Any] = []
        states: list[Any] = []
        objects = self._objects[path]
        owned = {id(owner) for obj in objects.values() for owner in memory_of(obj)}
        owned |= self._untouched(path)
        spaces = {id(space) for obj in objects.values() if type(space := _space(obj)) is dict}
        for number, obj in objects.items():
            if id(obj) in owned or self._is_view(obj) or isinstance(obj, (tuple, frozenset)):
                continue  # it goes home with the array whose memory it is, or that it looks at
            if id(obj) in self._unchanged:
                continue
            try:
                kind, content = _state(obj)
            except Exception as error:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
                kind, content = "", None
                if (
                    type(obj).__flags__ & _OF_PYTHON and _root(obj) != "_thread"
                ):  # code, locks and the like travels with what has it
                    frames.stay(f"changes of {value_name(path)}", obj, said(error))
            if kind == "state":
                spaces.discard(id(content[0]))
            if kind and type(obj) is not self._kinds[path][number]:
                kind, content = "class", (type(obj), kind, content)
            if kind:
                found = ("file", path, number), kind, content
                (anew if kind in _ANEW else states).append(found)
        # What `__setstate__` has made an object's `__dict__` of (matplotlib's figures) is raw: the
        # state that its own `__getstate__` gives, says all.
        return anew, [item for item in states if id(objects[item[0][2]]) not in spaces]

    def _untouched(self, path: str) -> set[int]:
        """Return the large arrays, by id, that hold what they held as they came."""
        numpy: Any = sys.modules.get("numpy")
        came = self._came.get(path)
        if not came or numpy is None:
            return set()
        numbers = {address_of(numpy.frombuffer(block, "u1")): at for at, block in enumerate(came)}
        first = list(self._blocks(path) or ())
        found = set()
        for obj in self._objects[path].values():
            held = bytes_of(obj, numpy)
            number = None if held is None else numbers.get(address_of(held))
            if held is None or number is None or len(first[number]) != held.nbytes:
                continue
            if is_pristine(came[number]) or say_the_same(first[number], memoryview(held)):
                found.add(id(obj))
        return found

    def _is_view(self, obj: object) -> bool:
        root = root_of(obj)
        whole = self._memory[id(root)][1] if root is not None and id(root) in self._memory else obj
        return whole is not obj and id(whole) in self._known and view_on(obj, whole) is not None

    def _same(self, path: str, root: object) -> bool:
        """Return whether the values of a file, pickled again, say what they said as they came."""
        pickle = standard("pickle", self.bundle)
        with open(f"{self.bundle}/{path}", "rb") as file:  # noqa: PTH123 - pathlib is slow
            if self._says(file, path, root, comparing(pickle)):
                return True
            if os.fstat(file.fileno()).st_size > _COPIED:
                return False
        unpickler, again = self._unpickled(path)
        if self._has_changed(path, unpickler.memo.copy()):
            return False
        del unpickler
        # Sets and functions without a name are not written alike in two processes. What is loaded
        # once more is, unless the cell has changed it. Equal strings count as one: which of them
        # are, Python decides anew with each loading.
        strings: dict[str, str] = {}
        from submarine_runtime.byvalue import ByValue  # noqa: PLC0415 - only where it comes to it
        from submarine_runtime.frameworks import reduced  # noqa: PLC0415 - likewise

        class Pickler(ByValue, pickle.Pickler):  # type: ignore[misc, name-defined]
            namespace = self.namespace

            def persistent_id(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
                if type(obj) is str:
                    return strings.setdefault(obj, obj)
                return self.globals_of(obj) if type(obj) is dict else None

            def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
                found = NotImplemented if is_definition(obj) else reduced(obj)
                return self.by_value(obj) if found is NotImplemented else found

        file = standard("io", self.bundle).BytesIO()
        try:
            Pickler(file, 5, buffer_callback=is_small).dump(again)
        except Exception:  # noqa: BLE001 - a foreign __reduce__
            return False
        file.seek(0)
        return self._says(file, path, root, Pickler)

    def _has_changed(self, path: str, first: dict[int, Any]) -> bool:
        """Return whether a list or dict of a file surely holds something else than it held.

        Those that surely hold the same are noted, so that they need not go home: of a million
        small lists, the one that the cell has changed.

        Parameters
        ----------
        first
            The memo of the file, loaded once more.
        """
        changed = False
        for number, obj in self._objects[path].items():
            kind, old = type(obj), first.get(number)
            if kind in (list, dict) and type(old) is kind:
                pairs = zip(_items(obj), _items(old))  # noqa: B905 - of one length, see below
                found = len(obj) == len(old) and self._all_alike(pairs, path, first)
                if found:
                    self._unchanged.add(id(obj))
                changed = changed or found is False
        return changed

    def _all_alike(
        self, pairs: Iterator[tuple[Any, Any]], path: str, first: dict[int, Any], deep: int = 3
    ) -> bool | None:
        """Return whether each object is what it was; None where that cannot be told at a glance."""
        known, surely = self._known, True
        for now, old in pairs:
            kind = type(now)
            if now is old:
                continue
            if kind is not type(old):
                return False
            if kind in _PLAIN:
                # The sign of a zero, and what is no number, only their words tell.
                if (now != old or not now) and repr(now) != repr(old):
                    return False
            elif kind in (list, dict, set):
                named = known.get(id(now), ("",))
                if named[:2] != ("file", path) or first.get(named[2]) is not old:
                    return False
            elif kind is tuple and deep and id(now) not in known and len(now) == len(old):
                inner = zip(now, old)  # noqa: B905 - of one length
                if (found := self._all_alike(inner, path, first, deep - 1)) is False:
                    return False
                surely = surely and found is True
            else:
                # Others may be another object at home, which their holder has to be told.
                surely = False
        return True if surely else None

    def _says(self, file: Any, path: str, root: object, pickler: Any) -> bool:  # noqa: ANN401
        comparer = Comparer(file, self._blocks(path), self._came.get(path, []))
        try:
            pickler(comparer, 5, buffer_callback=comparer.block).dump(root)
        except Exception:  # noqa: BLE001 - a difference, or a foreign __reduce__
            return False
        return not file.read(1) and comparer.is_at_end()

    def key_of(self, obj: object) -> tuple[Any, ...] | None:
        """Return what the notebook knows `obj` by; None where it does not."""
        found = self._known.get(id(obj))
        if found is not None:
            return found
        if self._states_of_modules and id(obj) in self._states_of_modules.held:
            return self._states_of_modules.held[id(obj)][1]
        if type(obj) is type(sys):
            return ("module", obj.__name__)
        if obj is self.namespace:
            return ("globals",)
        return None

    def _about(self, value: object) -> int:
        with suppress(Exception):  # a foreign __class__, __len__ or __iter__ raises what it likes
            return self._size(value)
        return 0

    def _size(self, value: object, depth: int = 0) -> int:
        """Return about how many bytes a value takes, at a glance."""
        if id(value) in self._known:
            return 0
        size = getattr(value, "nbytes", None) if _root(value) in _ARRAYS else None
        if isinstance(size, int):
            return size
        if isinstance(value, (str, bytes, bytearray)):
            return len(value)
        inner: Any = ()
        if isinstance(value, (list, tuple, set, frozenset)):
            inner = value
        elif isinstance(value, dict):
            inner = value.values()
        elif isinstance(getattr(value, "__dict__", None), dict) and not is_definition(value):
            inner = vars(value).values()
        total = 64
        if depth < _DEEPEST and inner:
            seen = 0
            for count, item in enumerate(inner, 1):
                seen += self._size(item, depth + 1)
                if count >= _SAMPLE:
                    break
            total += seen * len(inner) // count
        return total


def _write_error(frames: Frames, ending: Ending) -> None:
    if ending.error is None or ending.exit_code == 0:
        return
    from submarine_runtime.failure import Raised  # noqa: PLC0415 - only on a failure

    for state in (True, False):
        if frames.add("error", "", Raised(ending.error, state=state)):
            return


def _space(obj: object) -> object:
    """Return an object's `__dict__`; None where it has none, or is that itself."""
    try:
        found = vars(obj)
    except Exception:  # noqa: BLE001 - a foreign property raises what it likes
        return None
    return None if found is obj else found


def _state(obj: Any) -> tuple[str, Any]:  # noqa: ANN401, PLR0911 - each kind of object has its own
    """Return what an object holds now, and how the original takes it in."""
    kind = type(obj)
    if kind is FUNCTION:
        return ("some", (vars(obj), None, None, None)) if vars(obj) else ("", None)
    if kind is CELL:
        content = content_of(obj)
        return ("", None) if content is MISSING else ("cell", content)
    if kind in (list, dict, set):
        return kind.__name__, _plain(obj)
    if kind is bytearray:
        return "list", bytes(obj)
    root = _root(obj)
    if root == "numpy" and isinstance(obj, sys.modules["numpy"].ndarray):
        return "array", Content(obj)
    from submarine_runtime import frameworks  # noqa: PLC0415 - as above

    found = frameworks.state_of(obj)
    if found is not None:
        return found
    copyreg = sys.modules["copyreg"]
    reducer = copyreg.dispatch_table.get(kind)
    reduced = reducer(obj) if reducer else frameworks.reduced(obj)
    if reduced is NotImplemented:
        reduced = obj.__reduce_ex__(5)
    if not isinstance(reduced, tuple):
        return "", None
    parts: list[Any] = [*reduced, *[None] * (6 - len(reduced))]
    function, args, state, items, pairs, setter = parts
    plain = function in (
        copyreg.__newobj__,
        getattr(copyreg, "__newobj_ex__", None),
        copyreg._reconstructor,  # noqa: SLF001 - what object.__reduce_ex__ gives
        frameworks.make_object,
    )
    if not plain and state is None and items is None and pairs is None:
        return "whole", CallOnLoad(function, args)
    return "state", (
        state,
        None if items is None else list(items),
        None if pairs is None else dict(pairs),
        setter,
    )


def _plain(container: Any) -> Any:  # noqa: ANN401 - a list, a dict or a set
    """Return a copy, without what is Python's own in the globals of a function."""
    if type(container) is dict and "__builtins__" in container:
        return {key: held for key, held in container.items() if key != "__builtins__"}
    return type(container)(container)


def place_of(obj: Any) -> tuple[Any, ...]:  # noqa: ANN401 - the user's own
    """Return how far `obj`, an iterator or a file, has been read."""
    if type(obj).__name__ == "generator":
        frame = obj.gi_frame
        return ("over",) if frame is None else ("begun", frame.f_lasti)
    if _root(obj) in ("_io", "io"):
        if obj.closed:
            return ("closed",)
        try:
            return "at", obj.tell()
        except (OSError, ValueError):
            return ("somewhere",)
    return "taken", getattr(obj, "line_num", None), getattr(obj, "_num_yielded", None)


def _imported(name: str) -> Any:  # noqa: ANN401 - a module
    __import__(name)
    return sys.modules[name]


def containers_of(value: object) -> Iterator[Any]:
    """Yield the lists, dicts and sets of a plain value, and the tuples that hold some.

    The outer ones first, in a fixed order.
    """
    kind = type(value)
    if kind in (list, dict, set):
        yield value
    if isinstance(value, (list, tuple)):
        inner = [found for item in value for found in containers_of(item)]
        if kind is tuple and inner:
            yield value
        yield from inner
    elif isinstance(value, dict):
        for item in value.values():
            yield from containers_of(item)


def _items(container: Any) -> list[Any]:  # noqa: ANN401 - a list, a dict or a set
    """Return what a container holds, flat."""
    if isinstance(container, dict):
        return [item for pair in container.items() for item in pair]
    return list(container)


def _alike(left: list[Any], right: list[Any]) -> bool:
    """Return whether two containers hold the same objects, or equal plain values."""
    return len(left) == len(right) and all(
        one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other)
        for one, other in zip(left, right)  # noqa: B905 - of one length, see above
    )


def _mutable(memo: dict[int, Any], namespace: dict[str, Any]) -> dict[int, Any]:
    """Return the objects of a memo that can change, without those that loading itself made.

    A state that was handed to an object, or an argument of a constructor, only the memo holds.
    """
    alone = _references({0: [0]}, 0)[1]
    found = {}
    # The last first: a tuple of arguments lets go of what was made for it alone.
    for number in sorted(memo, reverse=True):
        obj, references = _references(memo, number)
        kind = type(obj)
        if kind in _CONTAINERS or kind in _PLAIN_KINDS:  # most are: they need no second look
            if references > alone and kind in _CONTAINERS:
                found[number] = obj
            continue
        # What torch holds of its storages is no reference of Python's.
        alive = references > alone or type(obj).__name__ == "UntypedStorage"
        alive = alive or getweakrefcount(obj) > 0  # in the notebook others hold it
        by_value = nameless(obj, namespace) or not isinstance(obj, _CHANGELESS)
        if alive and (_holds(obj) or by_value):
            found[number] = obj
    return dict(reversed(found.items()))


def _holds(obj: object) -> bool:
    """Return whether a tuple or a frozenset holds more than plain values: it may hold changes."""
    return isinstance(obj, (tuple, frozenset)) and not _PLAIN_KINDS.issuperset(map(type, obj))


def _references(memo: dict[int, Any], number: int) -> tuple[Any, int]:
    obj = memo.pop(number)
    return obj, sys.getrefcount(obj)


def _is_state(value: object) -> bool:
    """Return whether a value is what a decorator may keep: a number, a text, a container."""
    kind = type(value)
    known = kind in _PLAIN or issubclass(kind, (list, dict, set))
    return known or type_module(value) == "collections"


def _surroundings() -> tuple[dict[str, str], str, list[str]]:
    folder = ""
    with suppress(OSError):
        folder = os.getcwd()  # noqa: PTH109 - pathlib takes long to import
    return dict(os.environ), folder, [path for path in sys.path if isinstance(path, str)]


def _nothing(_message: object) -> None:
    pass


def _is_plain(value: object) -> bool:
    """Return whether a value is no definition, nor what a decorator made of one."""
    return not (is_definition(value) or callable(value))


_CHANGELESS = (
    str, bytes, int, float, complex, tuple, frozenset, type, FUNCTION, type(len), type(sys),
)  # fmt: skip
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_PLAIN_KINDS = frozenset(_PLAIN)
_CONTAINERS = frozenset((list, dict, set, bytearray))
_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_ANEW = ("array", "storage", "tensor", "variable", "class", "whole")
_ARRAYS = ("numpy", "torch", "jax", "jaxlib", "pandas", "tensorflow")


def _root(value: object) -> str:
    return type_module(value).partition(".")[0]
