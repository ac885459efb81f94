"""Notes which installed modules a job has loaded, so that its next run can begin with them loaded.

`task` writes the list at the job's end (`note`); `submarine_engine.clusters.local.zygotes` reads
it. A job that may be tried again notes each module as it is imported (`record_imports`), since its
first attempt may be killed.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime import lean
from submarine_runtime.lean import mode_in, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILE = "imported.json"
IMPORTS = "imports"
HEAVY = 150
"""Modules outside the standard library from which on it is worth a process of its own."""

_PLACES = ("/site-packages/", "/dist-packages/")
_MOST = 20_000
_besides: set[str] = set()
_LIBRARY = f"{os.__file__.rpartition('/')[0]}/"


def leave_out(names: Iterable[str]) -> None:
    """Take the modules `names` for none of the job's: who forked it has loaded them for itself."""
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


def record_imports(folder: str) -> int:
    """Note in `folder` each module that is imported from now on, a line each.

    Returns the descriptor of the file, -1 where it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(f"{folder}/{IMPORTS}", flags, mode_in(folder))
    except OSError:  # a full disk is no reason to fail
        return -1
    sys.meta_path.insert(0, _ImportRecorder(descriptor))
    return descriptor


class _ImportRecorder:
    """A finder in `sys.meta_path` that notes each name which is imported, and finds nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._left = _MOST

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Note a name; most are never looked for, since they are loaded."""
        if self._left > 0:
            self._left -= 1
            with suppress(OSError, ValueError):  # the job's code may have closed it
                os.write(self._descriptor, f"{name}\n".encode())


def is_installed(name: str) -> bool:
    """Return whether the module `name` is of the standard library or a package, not the user's.

    Its outermost package says so; it need not be loaded.
    """
    top = name.partition(".")[0]
    if top in _known:
        return _known[top]
    found = False
    with suppress(Exception):
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(top, None) if find else None
            if spec is not None:
                origin = spec.origin or ""
                places = [origin, *(f"{one}/" for one in spec.submodule_search_locations or ())]
                found = origin in _BUILT_IN or any(
                    one.startswith(_LIBRARY) or _is_extra(one) for one in places
                )
                break
    _known[top] = found
    return found


_known: dict[str, bool] = {}
_BUILT_IN = ("built-in", "frozen")


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
