"""The notebook's own modules, and what was set on them since they were imported."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from submarine_engine.bundle.modules import ModuleStates, ModuleValue
from submarine_engine.bundle.settings import added_paths


class OwnModules:
    """Notes what modules beside the notebook hold when they are seen first."""

    def __init__(self) -> None:
        self._seen: set[str] = set(sys.modules)
        self._states = ModuleStates((), lambda *_: None, lambda _: None, str(Path.cwd()))
        self._note({name for name in self._seen if name != "__main__"})

    def note(self) -> None:
        """Note the modules that were imported since the last time."""
        if len(sys.modules) != len(self._seen):
            new = sys.modules.keys() - self._seen
            self._seen = set(sys.modules)
            self._note(new)

    def changes(self) -> tuple[ModuleValue, ...]:
        """Return what was set."""
        self.note()
        return tuple(self._states.set_since())

    def held(self) -> tuple[ModuleValue, ...]:
        """Return all that they hold and that can be changed in place."""
        return tuple(self._states.all_held())

    def _note(self, names: set[str]) -> None:
        folders = [str(Path.cwd()), *added_paths(["sys.path"], None)]
        for name in sorted(names):
            module = sys.modules.get(name)
            if type(module) is ModuleType and _lies_in(module, folders):
                self._states.note(module)


def _lies_in(module: ModuleType, folders: list[str]) -> bool:
    file = vars(module).get("__file__")
    if not isinstance(file, str) or not file.endswith(".py"):
        return False
    if any(file.startswith(f"{folder}/") for folder in _installed()):
        return False
    return any(file.startswith(f"{folder}/") for folder in folders)


def _installed() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix)
    yield from sysconfig.get_paths().values()
