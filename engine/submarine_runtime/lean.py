"""Pieces of the standard library without what they import, and the library itself when it is late.

The user's first line waits for every import before it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

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


def standard(name: str, folder: str) -> Any:  # noqa: ANN401 - a module
    """Import a module of the standard library, also beside a file of the user's of that name.

    Parameters
    ----------
    folder
        Where the user's own modules lie.
    """
    here = sys.modules.get(name)
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
