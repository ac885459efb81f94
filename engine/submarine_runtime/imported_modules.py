"""Which installed modules a job had loaded at its end, so that its next run finds them loaded."""

from __future__ import annotations

import os
import sys

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = "imported.json"
HEAVY = 150
"""Modules outside the standard library from which on it is worth a process of its own."""

_PLACES = ("/site-packages/", "/dist-packages/")
_MOST = 20_000
_besides: set[str] = set()
_LIBRARY = f"{os.__file__.rpartition('/')[0]}/"


def leave_out(names: Iterable[str]) -> None:
    """Take modules for none of the job's: who forked it has loaded them for itself."""
    _besides.update(names)


def note(folder: str) -> None:
    """Write the names of the installed modules that are loaded, in their order, into `folder`.

    Modules of the user's own are left out: they change between two runs. Nothing is written where
    too few are loaded to matter.
    """
    if len(sys.modules) <= HEAVY:
        return
    found = [(name, path) for name, path in installed() if name not in _besides]
    if sum(not path.startswith(_LIBRARY) or _is_extra(path) for _, path in found) < HEAVY:
        return
    with suppress(OSError):  # a full disk is no reason to fail
        aside = f"{folder}/.{FILE}.new"
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode_in(folder))
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
            file.write(lean.dumps({"version": 1, "names": [name for name, _ in found][:_MOST]}))
        os.replace(aside, f"{folder}/{FILE}")  # noqa: PTH105 - pathlib takes long to import


def installed() -> Iterator[tuple[str, str]]:
    """Yield name and file of each loaded module of the standard library or of a package."""
    for name, module in list(sys.modules.items()):
        # Not by `getattr`: a lazy module would import what it stands for.
        spec = getattr(module, "__dict__", {}).get("__spec__")
        path = getattr(spec, "origin", None)
        if (
            isinstance(path, str)
            and getattr(spec, "name", None) == name
            and (path.startswith(_LIBRARY) or _is_extra(path))
        ):
            yield name, path


def _is_extra(path: str) -> bool:
    return any(place in path for place in _PLACES)
