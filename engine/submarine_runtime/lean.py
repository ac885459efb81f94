"""Small replacements for slow parts of the standard library, since the first line waits for each.

All of the runtime uses them: `suppress`, JSON by the C halves of `json` alone (the module imports
re and enum, 10 ms), the library itself where it is imported late, and who may read a task's files.
"""

from __future__ import annotations

import os
import sys
from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


# Pieces of the standard library without what they import, and the library itself when it is late.
#
# The user's first line waits for every import before it.


_PATH = list(sys.path)
"""Where modules are found before the user's own come first."""


class suppress:  # noqa: N801 - as contextlib has it
    """Passes over exceptions of the given kinds, as `contextlib.suppress` does."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


# As `type` itself has them: a metaclass may answer with anything, or raise.
_MODULE = type.__dict__["__module__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__


def type_name(value: object) -> str:
    """Return the qualified name of a value's type, whatever its metaclass does."""
    name, module = str(_QUALNAME(type(value))), type_module(value)
    return name if module == "builtins" else f"{module}.{name}"


def type_module(value: object) -> str:
    """Return the name of the module that has a value's type, whatever its metaclass does."""
    try:
        return str(_MODULE(type(value)))
    except Exception:  # noqa: BLE001 - a class may have a __module__ of its own, of any kind
        return "?"


def is_data(name: str, value: object) -> bool:
    """Return whether an attribute is data, neither code nor Python's own business.

    Parameters
    ----------
    name
        The attribute's; empty for what stands under no name.
    value
        What it holds.
    """
    if name.startswith(("__", "_abc_")):
        return False
    # Not isinstance: that asks a foreign object for its __class__, which may lie, or raise.
    return not (issubclass(type(value), type) or hasattr(type(value), "__get__"))


def standard(name: str, folder: str) -> Any:  # noqa: ANN401 - a module
    """Import a module of the standard library, also beside a file of the user's of that name.

    Parameters
    ----------
    folder
        Where the user's own modules lie; as in ``sys.path``, none named is the working folder.
    """
    here = sys.modules.get(name)
    if not folder:  # a shell puts that first: all modules lie below "/", and none would be left
        try:
            folder = os.getcwd()  # noqa: PTH109 - pathlib takes long to import
        except FileNotFoundError:
            folder = "\0"
    if here is not None and not (getattr(here, "__file__", None) or "").startswith(f"{folder}/"):
        return here
    hidden = {}
    for key, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if key != "__main__" and isinstance(file, str) and file.startswith(f"{folder}/"):
            hidden[key] = sys.modules.pop(key)
    path, sys.path = sys.path, _PATH
    try:
        return __import__(name)
    finally:
        sys.path = path
        sys.modules.update(hidden)


# Who may read what a task leaves behind.


def mode_in(folder: str) -> int:
    """Return the mode of a new file: its owner's alone, or its group's too where the folder is.

    The local cluster's folders are the owner's alone. YARN's log folder belongs to the group that
    its NodeManager reads it by, which may be another user (LinuxContainerExecutor).
    """
    return 0o600 | os.stat(folder).st_mode & 0o040  # noqa: PTH116 - pathlib takes long to import


# JSON by the C halves of `json` alone: the module itself imports re and enum, 10 ms.


class _Settings:
    """What `json.JSONDecoder` tells the scanner by default."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def loads(text: str) -> Any:  # noqa: ANN401 - as json has it
    """Return what the JSON `text` says; `ValueError` where it is not one value, and no more."""
    text = text.strip()
    try:
        value, end = make_scanner(_Settings)(text, 0)  # type: ignore[arg-type]
    # The scanner looks for the error's class in `json.decoder`, which nobody has imported.
    except (StopIteration, SystemError):
        raise ValueError("there is no JSON") from None
    if end != len(text):
        raise ValueError("there is more after the JSON")
    return value


def dumps(value: object) -> str:
    """Return the JSON of `value`: dicts, lists, text, finite numbers, booleans and None."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        members = (f"{dumps(key)}: {dumps(item)}" for key, item in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
