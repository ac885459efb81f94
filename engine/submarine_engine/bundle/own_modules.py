"""The modules beside a notebook or a program, and what was set on them since they were imported."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakSet

from submarine_runtime.lean import is_data, type_module

from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.modules import ModuleStates, ModuleValue
from submarine_engine.bundle.settings import added_paths
from submarine_engine.bundle.values import assigned_names, constant, is_constant, same

_OURS = frozenset(
    f"submarine_{room}" for room in ("engine", "runtime", "magics", "kernel", "jupyter", "zeppelin")
)
"""Packages that jobs bring themselves; a source tree of theirs may lie beside a notebook."""

_PLAIN = (str, bytes, int, float, complex, bool, type(None))


class OwnModules:
    """Notes what modules beside the notebook hold right after they are imported.

    Parameters
    ----------
    cells
        Those that ran before this was made. Where one of them uses a module, nobody has seen what
        that held when it was imported: then its file tells, as far as it does.
    """

    def __init__(self, cells: Sequence[Cell] = ()) -> None:
        self._noted: dict[str, ModuleType] = {}
        self._written: dict[str, tuple[int, int]] = {}  # by file: when, and how large
        self._seen: set[str] = set()
        self._states = ModuleStates((), lambda *_: None, lambda _: None, str(Path.cwd()))
        self.note()
        names = "|".join(map(re.escape, _called(self._noted.values(), cells)))
        if names and any(re.search(rf"\b(?:{names})\b", _without_imports(c)) for c in cells):
            for module in self._noted.values():
                doubt(module, self._states, computed=True)
        _FINDER.listeners.add(self)
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)

    def note(self) -> None:
        """Note the modules that came in another way than by an import statement."""
        folders = _folders()
        new = sys.modules.keys() - self._seen - {"__main__"}
        self._seen = set(sys.modules)
        for name in sorted(new):
            module = sys.modules.get(name)
            if type(module) is not ModuleType or self._noted.get(name) is module or _is_ours(name):
                continue
            if _lies_in(_file(module), folders):
                self.imported(module, {})

    def imported(self, module: ModuleType, before: Mapping[str, object]) -> None:
        """Note what a module holds now that it was imported, or reloaded.

        Parameters
        ----------
        before
            What it held ahead of that: what reloading left as it was had been set on it.
        """
        self._noted[module.__name__] = module
        if written := _written(file := _file(module)):
            self._written[file] = written
        self._states.note(module, before)

    def edited(self, travelling: Collection[str]) -> list[str]:
        """Return which files of a bundle were written since they were imported here.

        Parameters
        ----------
        travelling
            `Manifest.modules`: paths below the notebook's folder, or below one of ``sys.path``.
        """
        since = [file for file, when in self._written.items() if _written(file) not in (None, when)]
        return [path for path in travelling if any(file.endswith(f"/{path}") for file in since)]

    def changes(self) -> tuple[ModuleValue, ...]:
        """Return what was set."""
        self.note()
        return tuple(self._states.set_since())

    def held(self) -> tuple[ModuleValue, ...]:
        """Return all that they hold and that can be changed in place."""
        return tuple(self._states.all_held())


def set_in(root: Path) -> tuple[ModuleValue, ...]:
    """Return what a program has set on modules in its folder `root`, as far as their files tell.

    That is what differs from a literal there, and what functions bind by ``global``.
    """
    states = ModuleStates((), lambda *_: None, lambda _: None, str(root))
    for module in list(sys.modules.values()):
        name = module.__name__ if type(module) is ModuleType else "__main__"
        if name == "__main__" or _is_ours(name):
            continue
        if _lies_in(_file(module), [str(root)]):
            states.note(module)
            doubt(module, states, computed=False)
    return tuple(states.set_since())


def doubt(module: ModuleType, states: ModuleStates, *, computed: bool) -> None:
    """Treat as changed every name whose value the module's file does not prove unchanged.

    Parameters
    ----------
    module
        One of the notebook's own.
    states
        Notes of what modules hold, in which those names count as set since the import.
    computed
        Whether what a statement computes is treated so, too: calls may have changed it in place.
    """
    with suppress(OSError, ValueError, SyntaxError, RecursionError):
        said = _said(_file(module))
        unsure = _unsure(said.constants[""], vars(module), said.rebound, computed=computed)
        states.forget(module.__name__, "", unsure)
        for name, constants in said.constants.items():
            kind = vars(module).get(name)
            if isinstance(kind, type):
                unsure = _unsure(constants, vars(kind), (), computed=computed)
                states.forget(module.__name__, name, unsure)


class _Said(NamedTuple):
    """What a file says of the names that it binds.

    Parameters
    ----------
    constants
        The statement that gives a name a literal: by the class whose body it stands in, the module
        itself under an empty name, then by name.
    rebound
        Names that functions bind by ``global``.
    """

    constants: dict[str, dict[str, ast.stmt]]
    rebound: frozenset[str]


def _said(file: str) -> _Said:
    told = Path(file).stat()
    return _read_said(file, told.st_mtime_ns, told.st_size)


@lru_cache(maxsize=1000)
def _read_said(file: str, *_: int) -> _Said:
    # A program submits many jobs, and its modules' files stay as they are.
    tree = ast.parse(Path(file).read_bytes())
    bodies = {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
    rebound = (node.names for node in ast.walk(tree) if isinstance(node, ast.Global))
    return _Said(
        {name: _constants(body) for name, body in {**bodies, "": tree.body}.items()},
        frozenset(chain.from_iterable(rebound)),
    )


def _constants(body: Iterable[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the statements that bind a name at last, where that is to a literal."""
    bound = {name: node for node in body for name in assigned_names(node) or ()}
    return {name: node for name, node in bound.items() if is_constant(node, name)}


def _unsure(
    constants: Mapping[str, ast.stmt],
    held: Mapping[str, object],
    rebound: Collection[str],
    *,
    computed: bool,
) -> Iterator[str]:
    """Yield the names that may hold something else than the file's statements gave them.

    What a statement computes (``DEVICE = pick()``) and no function binds again is as it was, unless
    it can change in place.
    """
    for name, value in held.items():
        if name in constants:
            if not same(constant(constants[name], name), value):
                yield name
        elif name in rebound or (computed and _can_change(name, value)):
            yield name


def _can_change(name: str, value: object) -> bool:
    """Return whether a value is data that can change, and no lock, which holds nothing."""
    return type(value) not in _PLAIN and is_data(name, value) and type_module(value) != "_thread"


def _called(modules: Collection[ModuleType], cells: Iterable[Cell]) -> Iterator[str]:
    """Yield the names that cells give to modules and to what is in them."""
    own = {module.__name__.partition(".")[0] for module in modules}
    for node in _imports(cells) if own else ():
        module = getattr(node, "module", None)
        for alias in node.names:
            if (module or alias.name).partition(".")[0] in own:
                yield alias.asname or alias.name.partition(".")[0]


def _imports(cells: Iterable[Cell]) -> Iterator[ast.Import | ast.ImportFrom]:
    for cell in cells:
        with suppress(ValueError, SyntaxError, RecursionError):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield node


def _without_imports(cell: Cell) -> str:
    lines = cell.source.split("\n")
    for node in _imports([cell]):
        last = node.end_lineno or node.lineno
        lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
    return "\n".join(lines)


class _Finder:
    """Finds nothing itself: has the notebook's own modules loaded, and noted right after that."""

    def __init__(self) -> None:
        self.listeners: WeakSet[OwnModules] = WeakSet()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ANN401 - as importlib has them
        """Let the others find a module of the notebook's own."""
        if not self.listeners or _is_ours(name):
            return None
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        if path is not None and all(f"{entry}/".startswith(_INSTALLED) for entry in path):
            return None
        folders = _folders()
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None and _is_in(spec.origin, folders):
                    spec.loader = _Noting(spec.loader, self.listeners)  # type: ignore[assignment]
                return spec
        return None


class _Noting:
    """Loads a module as its own loader does, and has it noted then."""

    def __init__(self, loader: Any, listeners: WeakSet[OwnModules]) -> None:  # noqa: ANN401
        self._loader = loader
        self._listeners = listeners

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever loaders have
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        before = dict(vars(module))
        self._loader.exec_module(module)
        if type(module) is ModuleType:
            for one in list(self._listeners):
                one.imported(module, before)


_FINDER = _Finder()
_INSTALLED = tuple(
    f"{one}/" for one in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())
)


def _folders() -> list[str]:
    """Return where the notebook's own modules lie."""
    with suppress(OSError):  # the working directory may be gone
        return _folders_of(str(Path.cwd()), tuple(filter(_is_text, sys.path)))
    return []


@lru_cache(maxsize=4)
def _folders_of(here: str, _path: tuple[str, ...]) -> list[str]:
    return [here, *added_paths(["sys.path"], None)]


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in _OURS


def _is_text(entry: object) -> bool:
    return isinstance(entry, str)


def _file(module: ModuleType) -> str:
    file = vars(module).get("__file__")
    return file if isinstance(file, str) else ""


def _written(file: str) -> tuple[int, int] | None:
    """Return when a file was written, and how large it is; None where it is not there."""
    with suppress(OSError, ValueError):
        found = Path(file).stat()
        return found.st_mtime_ns, found.st_size
    return None


def _lies_in(file: str, folders: Iterable[str]) -> bool:
    return file.endswith(".py") and _is_in(file, folders)


def _is_in(path: object, folders: Iterable[str]) -> bool:
    """Return whether a path leads into one of `folders`, but not to what is installed there."""
    if not isinstance(path, str) or path.startswith(_INSTALLED):
        return False
    return any(path.startswith(f"{folder}/") for folder in folders)
