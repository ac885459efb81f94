"""Finds what a cell has set on the notebook's own modules, such as ``config.rate = 0.1``.

`home` uses it. Such a module travels as its file, and the job imports it afresh. So what the module
holds is noted at its import, or at the cell's beginning, and what differs at the end is sent back.
"""

from __future__ import annotations

import sys

from submarine_runtime.lean import is_data, standard, suppress, type_module

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    Known = Callable[[object], Any]
    Change = tuple[str, str, str, bool, Any]

_MISSING = object()
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_BY_NAME = (type(lambda: 0), type(len), type(sys))
_MOST = 10_000
"""Objects in one value of a module, beyond which the inner ones are not looked at one by one."""


class ModuleStates:
    """Knows what modules, and the classes in them, held when the cell began.

    Parameters
    ----------
    names
        The modules that lie beside the script.
    watch
        Calls a function with a module right after it is imported, by its name.
    known
        Says by what the notebook knows an object; None where it does not.
    bundle
        The bundle's folder.
    """

    def __init__(
        self,
        names: Collection[str],
        watch: Callable[[str, Callable[[Any], None]], None],
        known: Known,
        bundle: str,
    ) -> None:
        self._known = known
        self._bundle = bundle
        self._before: dict[tuple[str, str], dict[str, Any]] = {}
        self._said: dict[int, bytes] = {}
        self.held: dict[int, tuple[object, tuple[Any, ...]]] = {}
        """By its id, what a module holds and can be changed in place, and what names it: module,
        class, name, and the steps from there."""
        self._pickler: Any = None
        for name in names:
            module = sys.modules.get(name)
            if module is not None:
                self.note(module)
            else:
                watch(name, self.note)

    def note(self, module: Any, before: Mapping[str, object] | None = None) -> None:  # noqa: ANN401 - a module
        """Note what a module holds now.

        Parameters
        ----------
        before
            What it held before it was run again: what that left as it was counts as set since.
        """
        for where, owner in _owners(module):
            held = _data(owner)
            known = self._before.get(where, {})
            if before and owner is module:
                self._before[where] = {
                    key: known.get(key, _MISSING) if before.get(key, _MISSING) is value else value
                    for key, value in held.items()
                }
            else:
                self._before[where] = held
            new = []
            for key, value in held.items():
                for path, part in parts_of(where[0], key, value):
                    if id(part) not in self.held and not self._known(part):
                        self.held[id(part)] = part, ("held", *where, key, path)
                        new.append(part)
            for part in new:
                said = self._says(part)
                if said is not None:
                    self._said[id(part)] = said

    def forget(self, module: str, inner: str, names: Iterable[str]) -> None:
        """Take what a module holds by some names for set since it was imported.

        Parameters
        ----------
        module
            The module's name.
        inner
            The class in it whose names they are; empty for the module itself.
        names
            The names; those that were not noted are passed over.
        """
        noted = self._before.get((module, inner), {})
        noted.update((name, _MISSING) for name in names if name in noted)

    def rebound(self) -> Iterator[Change]:
        """Yield each name that was bound anew: module, class, key, whether it is gone, value."""
        for (name, inner), before in list(self._before.items()):
            owner = _owner_named(name, inner)
            now = {} if owner is None else _data(owner)
            for key in {**before, **now}:
                old, new = before.get(key, _MISSING), now.get(key, _MISSING)
                if not _same(old, new):
                    yield name, inner, key, new is _MISSING, None if new is _MISSING else new

    def changed(self) -> Iterator[tuple[object, tuple[Any, ...]]]:
        """Yield the objects that hold something else now, and what names each."""
        for value, named in list(self.held.values()):
            before = self._said.get(id(value))
            if before is not None and self._says(value) != before:
                yield value, named

    def set_since(self) -> Iterator[tuple[str, str, str, Any]]:
        """Yield all that is another object now, or holds something else, by each of its names."""
        changed = {id(value) for value, _ in self.changed()}
        # A list, as in the others: what a look at a value imports is noted meanwhile.
        for (name, inner), before in list(self._before.items()):
            owner = _owner_named(name, inner)
            for key, value in ({} if owner is None else _data(owner)).items():
                old = before.get(key, _MISSING)
                if not _same(old, value) or any(
                    id(part) in changed for _, part in parts_of(name, key, value)
                ):
                    yield name, inner, key, value

    def all_held(self) -> Iterator[tuple[str, str, str, Any]]:
        """Yield all that can be changed in place, by each of its names."""
        for name, inner in list(self._before):
            owner = _owner_named(name, inner)
            for key, value in ({} if owner is None else _data(owner)).items():
                if type(value) not in _PLAIN and is_data(key, value):
                    yield name, inner, key, value

    def _says(self, value: object) -> bytes | None:
        """Return a digest of what a value holds; None where pickle cannot tell."""
        digest = standard("hashlib", self._bundle).blake2b()

        def take(buffer: Any) -> bool:  # noqa: ANN401 - a PickleBuffer
            digest.update(buffer.raw())
            return False

        class File:
            write = digest.update

        try:
            pickler = self._digesting()(File, 5, buffer_callback=take)
            pickler.value = value
            pickler.dump(value)
        except Exception:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
            return None
        return bytes(digest.digest())

    def _digesting(self) -> Any:  # noqa: ANN401 - a class of picklers
        """Return what writes an object without those in it that are known by names of their own."""
        if self._pickler is None:
            pickle, known, held = standard("pickle", self._bundle), self._known, self.held

            class Pickler(pickle.Pickler):  # type: ignore[misc, name-defined]
                value: object = None

                def persistent_id(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
                    if type(obj) in _BY_NAME or issubclass(type(obj), type):
                        return id(obj)
                    if obj is self.value:
                        return None
                    return id(obj) if id(obj) in held else known(obj)

            self._pickler = Pickler
        return self._pickler


def parts_of(module: str, key: str, value: object) -> Iterator[tuple[tuple[Any, ...], object]]:
    """Yield the objects in what a module holds that can be changed, each with the steps to it.

    The outer ones first, in an order that is the same in the notebook and in the job: lists, dicts,
    objects of classes of the module's package and what they hold, and all others as they are.

    Parameters
    ----------
    module
        The module's name.
    key
        The name that the module, or a class in it, has for the value.
    value
        What it holds by that name.
    """
    if not is_data(key, value):
        return
    package, seen = module.partition(".")[0], set()
    todo: list[tuple[tuple[Any, ...], object]] = [((), value)]
    for path, part in todo:
        if type(part) in _PLAIN or type(part) in _BY_NAME or id(part) in seen:
            continue
        if not is_data("", part):
            continue
        seen.add(id(part))
        if type(part) is not tuple:
            yield path, part
        if len(todo) < _MOST:
            todo += [((*path, step), inner) for step, inner in _inner(part, package)]


def _inner(part: Any, package: str) -> list[tuple[Any, object]]:  # noqa: ANN401 - the user's own
    """Return what an object holds, each with the step that leads there."""
    kind = type(part)
    if issubclass(kind, dict):
        return [item for item in dict.items(part) if type(item[0]) in _PLAIN]
    if kind in (list, tuple):
        return list(enumerate(part))
    held = None
    if type_module(part).partition(".")[0] == package:
        with suppress(Exception):  # a foreign __dict__ raises what it likes
            held = vars(part)
    return [(f".{name}", inner) for name, inner in held.items()] if type(held) is dict else []


def _same(old: object, new: object) -> bool:
    return old is new or (type(old) is type(new) and type(old) in _PLAIN and old == new)


def _owners(module: Any) -> Iterator[tuple[tuple[str, str], Any]]:  # noqa: ANN401 - a module
    """Yield a module and the classes that it defines, each with what names it."""
    name = module.__name__
    yield (name, ""), module
    for value in list(vars(module).values()):
        if issubclass(type(value), type) and value.__module__ == name:
            yield (name, value.__qualname__), value


def _owner_named(name: str, inner: str) -> Any:  # noqa: ANN401 - a module, or a class of it
    owner: Any = sys.modules.get(name)
    for step in inner.split(".") if inner else ():
        owner = getattr(owner, step, None)
    return owner


def _data(owner: Any) -> dict[str, Any]:  # noqa: ANN401 - a module, or a class of it
    """Return what it holds, without what is Python's own and modules that it imports."""
    return {
        key: value
        for key, value in list(vars(owner).items())
        if is_data(key, None) and type(value) is not type(sys)
    }
