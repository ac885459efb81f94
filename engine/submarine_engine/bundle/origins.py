"""Where a name comes from, and so how it travels: as source, as an import, or as its value."""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass

from submarine_runtime.home import containers_of

from submarine_engine.bundle.awaiting import awaits
from submarine_engine.bundle.bindings import Kind
from submarine_engine.bundle.constants import (
    assigned_names,
    constant,
    function_like,
    is_constant,
    same,
)
from submarine_engine.bundle.executed import Executed, Position
from submarine_engine.bundle.imports import Import, import_module, importable, imports_of
from submarine_engine.bundle.secrets import is_secret


@dataclass(frozen=True, slots=True)
class Builtin:
    """Every Python has it."""


@dataclass(frozen=True, slots=True)
class Imported:
    """By import statements, `bound` by the last of them."""

    imports: tuple[Import, ...]
    bound: Position | None = None

    @property
    def meaning(self) -> object:
        """What the name stands for: the same for imports that say the same in other words."""
        first = self.imports[0]
        if first.name is None and first.asname is None:
            return first.binds
        return first.module, first.name


@dataclass(frozen=True, slots=True)
class Defined:
    """By the source of a statement; `bound` tells its place in the order of execution."""

    position: Position
    bound: Position


@dataclass(frozen=True, slots=True)
class Kept:
    """By the value that it has now; `source` tells whether its statement could make it again."""

    value: object
    cell: str
    bound: Position | None = None
    source: bool = False


@dataclass(frozen=True, slots=True)
class Outdated:
    """The value that a statement was run with is gone: `newer` has bound the name since."""

    newer: Position


Origin = Builtin | Imported | Defined | Kept | Outdated


class Origins:
    """Finds out where names come from.

    Parameters
    ----------
    executed
        What was executed; statements of the cell `main` have not run in this process.
    namespace
        The variables as they are now.
    main
        Index of the main cell.
    as_source
        Names whose value is to be made again by its statement, whatever it is, with the
        definitions that the value refers to.
    """

    def __init__(
        self,
        executed: Executed,
        namespace: Mapping[str, object],
        main: int,
        as_source: Mapping[str, frozenset[str]],
    ) -> None:
        self.executed = executed
        self._namespace = namespace
        self.end: Position = (main, 0)
        self.as_source = as_source
        self._found: dict[tuple[str, Position | None], Origin | None] = {}

    def of(self, name: str, at: Position | None = None) -> Origin | None:
        """Return where `name` comes from, as the statement `at` found it; None if from nowhere."""
        key = (name, at)
        if key not in self._found:
            self._found[key] = self._find(name, at)
        return self._found[key]

    def value(self, name: str) -> object:
        """Return the value that `name` has in the notebook; None where it has none."""
        return self._namespace.get(name)

    def known(self) -> set[str]:
        """Return all names that could be meant, for suggestions."""
        return set(self._namespace) | set(dir(builtins))

    def _find(self, name: str, at: Position | None) -> Origin | None:
        position = self.executed.last(name, at)
        if (star := self._star(name, at, position)) is not None:
            return star
        if position is None:
            return self._unbound(name)
        kind = self.executed.kind(position, name)
        node = self.executed.statement(position).node
        if kind is Kind.IMPORT and isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._imported(name, position, at)
        if kind in (Kind.IMPORT, Kind.DEFINE) or position >= self.end:
            return Defined(self._latest_alike(name, position), position)
        return self._assigned(name, position)

    # Names that a statement binds

    def _assigned(self, name: str, position: Position) -> Origin | None:
        """Return how what `position` assigned to `name` travels."""
        node = self.executed.statement(position).node
        literal = is_constant(node, name)
        newest = self.executed.last(name, self.end)
        if newest is not None and newest != position:
            if literal or isinstance(getattr(node, "value", None), ast.Lambda):
                return Defined(self._latest_alike(name, position), position)
            if self._latest_alike(name, position) != newest:
                if name in self.as_source and assigned_names(node) is not None:
                    return Defined(position, position)  # `ds = ds.map(…)`: made step by step
                return Outdated(newest)
        if name in self._namespace:
            return self._valued(name, newest or position)
        if literal:
            return Defined(position, position)
        deleted = self.executed.kind(position, name) is Kind.DELETE
        return Builtin() if deleted and hasattr(builtins, name) else None

    def _valued(self, name: str, position: Position) -> Origin:
        """Return how the value travels that `position` was the last to assign to `name`."""
        node = self.executed.statement(position).node
        names = assigned_names(node)
        simple = names is not None and not awaits(node)
        unchanged = all(self._is_unchanged(node, other) for other in names or [name])
        if (
            unchanged
            and not _shared(self._namespace, name)
            and not any(is_secret(other, self._namespace[other]) for other in names or [name])
        ):
            return Defined(position, position)
        value = self._namespace[name]
        alike = [self._namespace[other] for other in names or () if other in self._namespace]
        if simple and (name in self.as_source or all(map(function_like, alike))):
            return Defined(position, position)
        if isinstance(value, types.ModuleType) and value.__name__ in sys.modules:
            return Imported((import_module(value.__name__, name),), position)
        return Kept(value, self.executed.cell(position).label, position, source=simple)

    def _is_unchanged(self, node: ast.stmt, name: str) -> bool:
        known = is_constant(node, name) and name in self._namespace
        return known and same(constant(node, name), self._namespace[name])

    def _imported(self, name: str, position: Position, at: Position | None) -> Imported:
        """Return the import, and with ``import a.b`` those of the other modules below ``a``."""
        last = self._imports(name, position)[-1]
        found = {last.module: last}
        if last.name is None and last.asname is None:
            for place in self.executed.imports_below(name, at):
                for item in self._imports(name, place):
                    if item.asname is None:
                        found.setdefault(item.module, item)
        return Imported(tuple(found.values()), position)

    def _imports(self, name: str, position: Position) -> list[Import]:
        statement = self.executed.statement(position)
        last = (statement.node.end_lineno or 1) - 1
        text = self.executed.parsed(position[0]).lines[last]
        every = imports_of(statement, position, text, self.executed.package)
        return [item for item in every if item.binds == name]

    def _latest_alike(self, name: str, position: Position) -> Position:
        """Return the last of the statements that say the same: a cell that was run again.

        Only where the same was said each time, with names that meant the same each time.
        """
        latest = self.executed.last(name)
        if latest is None or latest == position:
            return position
        said = self._said(position)
        for place in self.executed.bindings(name):
            if self._said(place) != said or any(self.executed.additions(name, place)):
                break
            if place == position:
                return latest
        return position

    def _said(self, position: Position) -> tuple[str, ...]:
        statement = self.executed.statement(position)
        said = [ast.dump(statement.node)]
        for name in statement.reads(lazy=False).now:
            last = self.executed.last(name, position)
            said.append(ast.dump(self.executed.statement(last).node) if last else "")
        return tuple(said)

    # Names that no statement binds

    def _star(self, name: str, at: Position | None, position: Position | None) -> Imported | None:
        for place, module in self.executed.stars(at):
            if position is not None and place < position:
                return None
            loaded = sys.modules.get(module)
            public = getattr(loaded, "__all__", None)
            if not hasattr(loaded, name) or (
                name not in public if public is not None else name.startswith("_")
            ):
                continue
            if name not in self._namespace or self._namespace[name] is getattr(loaded, name):
                line = self.executed.statement(place).node.lineno
                return Imported((Import(module, name, None, place, line),), place)
        return None

    def _unbound(self, name: str) -> Origin | None:
        if hasattr(builtins, name):
            module = str(getattr(getattr(builtins, name), "__module__", ""))
            if name in ("display", "get_ipython") and module.startswith("IPython"):
                # IPython hides its own helpers among the builtins.
                hidden = "IPython.display" if name == "display" else "IPython"
                return Imported((Import(hidden, name),))
            return Builtin()
        if name not in self._namespace:
            return None
        value = self._namespace[name]
        if isinstance(value, types.ModuleType) and value.__name__ in sys.modules:
            return Imported((import_module(value.__name__, name),))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            home = importable(value)
            if home and "." not in home[1]:
                asname = name if name != home[1] else None
                return Imported((Import(home[0], home[1], asname),))
        return Kept(value, "")


def _shared(namespace: Mapping[str, object], name: str) -> bool:
    """Return whether anything else holds a list, dict or set of the value: it must stay one."""
    alone = max(_holders({"": [[0]]}, ""))
    return any(count > alone for count in _holders(namespace, name))


def _holders(namespace: Mapping[str, object], name: str) -> list[int]:
    return [sys.getrefcount(container) for container in containers_of(namespace[name])]
