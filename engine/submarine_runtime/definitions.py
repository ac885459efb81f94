"""Tells of a function or class which module it is of, by which names to find it, what it holds.

Both sides ask it when they pickle what a notebook has defined: `submarine_engine.bundle` on the way
to the job, `home` on the way back.
"""

from __future__ import annotations

import sys

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MISSING = object()


def _closed_over(value: object) -> Callable[[], object]:
    return lambda: value


CELL: type = type(_closed_over(0).__closure__[0])  # type: ignore[index]  # types.CellType


FUNCTION = type(lambda: 0)


def nameless(value: object, namespace: dict[str, Any] | None = None) -> bool:
    """Return whether a value is a function that no name leads to: it travels by value.

    Parameters
    ----------
    namespace
        The variables of the notebook or the script: there the name of a function that a decorator
        has wrapped leads to another one.
    """
    if type(value) is not FUNCTION or "<" in value.__qualname__:
        return type(value) is FUNCTION
    if namespace is None or value.__module__ != "__main__":
        return False
    first, *rest = value.__qualname__.split(".")
    found = namespace.get(first)
    for part in rest:
        found = getattr(found, part, None)
    return found is not value


def made_by_source(value: object) -> bool:
    """Return whether a value is what a call, or a decorator, made of a function of the notebook."""
    if type(value) is FUNCTION:
        return nameless(value) and is_own(value)
    if issubclass(type(value), type) or type(value) is type(sys) or not callable(value):
        return False
    try:
        wrapped = getattr(value, "__wrapped__", None)
    except Exception:  # noqa: BLE001 - a foreign __getattr__ raises what it likes
        return False
    return type(wrapped) is FUNCTION and is_own(wrapped)


def is_definition(value: object) -> bool:
    """Return whether a value is a function or a class."""
    # Not isinstance: that asks a foreign object for its __class__, which may lie, or raise.
    return issubclass(type(value), (type, FUNCTION))


def is_own(value: object) -> bool:
    """Return whether the definition `value` is the script's, and tells its name and its content."""
    try:
        vars(value)
        named: Any = value
        return bool(named.__qualname__ and named.__module__ == "__main__")
    except Exception:  # noqa: BLE001 - a metaclass may answer with anything, or raise
        return False


def resolved(namespace: Any, dotted: str) -> Any:  # noqa: ANN401 - the user's own
    """Return what a name, or an attribute of a name (``Net.registry``), stands for; else None.

    Also what a method has closed over: ``Net.forward.__closure__[0].cell_contents``.

    Parameters
    ----------
    namespace
        The variables among which the first name is looked up.
    dotted
        The name, with what leads on from there.
    """
    first, *rest = dotted.split(".")
    value: Any = namespace.get(first)
    with suppress(Exception):  # a foreign property raises what it likes
        for step in rest:
            name, bracket, number = step.partition("[")
            value = getattr(value, name, None)
            if bracket:
                value = value[int(number[:-1])]
        return value
    return None


def space_of(owner: Any) -> dict[str, Any]:  # noqa: ANN401 - a function or a class
    """Return the attributes of the definition `owner`; of a function those too without a place."""
    if type(owner) is not FUNCTION:
        return {key: held for key, held in vars(owner).items() if key != "__doc__"}
    own = {key: getattr(owner, key) for key in ("__doc__", "__defaults__", "__kwdefaults__")}
    return {**vars(owner), **own}


def inner_classes(name: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a definition
    """Yield the classes that are defined in a class, each with what names it.

    Parameters
    ----------
    name
        What names the class: what is yielded begins with it.
    value
        The class; nothing comes of any other value.
    """
    if type(value) is FUNCTION or not is_definition(value):
        return
    for key, held in list(vars(value).items()):
        own = issubclass(type(held), type) and is_own(held)
        if own and held.__qualname__ == f"{value.__qualname__}.{key}":
            yield f"{name}.{key}", held
            yield from inner_classes(f"{name}.{key}", held)


def methods_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a definition
    """Yield the methods of a class that the notebook's own decorators may have made.

    Each with what names it, and with those that it has closed over.

    Parameters
    ----------
    name
        What names the class: what is yielded begins with it.
    value
        The class; nothing comes of any other value.
    """
    if type(value) is FUNCTION or not is_definition(value):
        return
    for key, held in list(vars(value).items()):
        if type(held) is property:
            yield from _own_functions(f"{name}.{key}.fget", held.fget, set())
        elif type(held) is classmethod:
            yield from _own_functions(f"{name}.{key}.__func__", held.__func__, set())
        else:
            held = held.__func__ if type(held) is staticmethod else held  # noqa: PLW2901 - what it is of
            yield from _own_functions(f"{name}.{key}", held, set())


def _own_functions(path: str, function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if type(function) is not FUNCTION or id(function) in seen:
        return
    if function.__globals__.get("__name__") != "__main__":
        return  # a library's
    seen.add(id(function))
    yield path, function
    for number, held in closed_over(function).items():
        yield from _own_functions(f"{path}.__closure__[{number}].cell_contents", held, seen)


def closed_over(function: Any) -> dict[int, Any]:  # noqa: ANN401 - a function
    """Return what a function has closed over, by the numbers of its cells."""
    contents = {number: content_of(cell) for number, cell in enumerate(function.__closure__ or ())}
    return {number: held for number, held in contents.items() if held is not MISSING}


def content_of(cell: Any) -> Any:  # noqa: ANN401 - a closure's cell
    """Return what a closure's cell holds; `MISSING` where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return MISSING


def place_of_attribute(dotted: str) -> tuple[str, str, str]:
    """Return the module of the attribute `dotted`, what leads from there to its owner, its name."""
    steps = dotted.split(".")
    for count in range(len(steps) - 1, 0, -1):
        module = ".".join(steps[:count])
        if module in sys.modules:
            return module, ".".join(steps[count:-1]), steps[-1]
    return steps[0], ".".join(steps[1:-1]), steps[-1]


def held_by(module: str, inner: str, key: str) -> Any:  # noqa: ANN401 - whatever it is
    """Return what a module, or a class in it, has by a name; `MISSING` where it has none.

    Parameters
    ----------
    module
        Its name.
    inner
        What leads from there to the class, with dots; empty for the module itself.
    key
        The name by which it has it.
    """
    with suppress(Exception):  # a foreign property raises what it likes
        owner: Any = sys.modules.get(module)
        for step in inner.split(".") if inner else ():
            owner = getattr(owner, step)
        if issubclass(type(owner), type):
            return vars(owner).get(key, MISSING)  # not as it binds a method
        if issubclass(type(owner), type(sys)):
            return getattr(owner, key, MISSING)  # torch has modules with properties
    return MISSING
