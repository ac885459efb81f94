"""What a main cell needs from the other cells, directly and through what it needs.

`Origins` tells where a name is from, and so how it travels: as source, as an import, or as value.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from submarine_runtime.home import containers_of
from submarine_runtime.lean import type_name
from submarine_runtime.module_state import parts_of

from submarine_engine.bundle import settings
from submarine_engine.bundle.capture import Capture, free_name
from submarine_engine.bundle.executed import (
    Executed,
    Import,
    Position,
    import_module,
    importable,
    imports_of,
)
from submarine_engine.bundle.maincell import awaits
from submarine_engine.bundle.model import Cell, MadeAgain
from submarine_engine.bundle.modules import ModuleValue, imported_names
from submarine_engine.bundle.secrets import is_secret
from submarine_engine.bundle.source import Kind
from submarine_engine.bundle.statements import Reads, Statement, Use
from submarine_engine.bundle.values import (
    assigned_names,
    attributes,
    can_be_made_again,
    constant,
    function_like,
    has_begun,
    is_constant,
    place_of,
    remembers,
    same,
)
from submarine_engine.errors import CannotTravelError

# Where a name comes from, and so how it travels: as source, as an import, or as its value.


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
class ByValue:
    """By the value that it has now; `source` tells whether its statement could make it again."""

    value: object
    cell: str
    bound: Position | None = None
    source: bool = False


@dataclass(frozen=True, slots=True)
class Outdated:
    """The value that a statement was run with is gone: `newer` has bound the name since."""

    newer: Position


Origin = Builtin | Imported | Defined | ByValue | Outdated


IPYTHONS = {"display": "IPython.display", "get_ipython": "IPython"}
"""What IPython hides among the builtins, and where it is imported from."""


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
    by_value
        Functions and classes that travel as they are, also where a statement defines them.
    hidden
        Names that IPython hides among the builtins of the notebook's kernel, which is not here.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that names come from
        self,
        executed: Executed,
        namespace: Mapping[str, object],
        main: int,
        as_source: Mapping[str, frozenset[str]],
        by_value: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> None:
        self._hidden = hidden
        self.by_value = by_value
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

    def variables(self) -> list[str]:
        """Return the names that a user has in the notebook."""
        return [
            name
            for name, value in self._namespace.items()
            if name.isidentifier()
            and not (name.startswith("_") and self.executed.last(name) is None)
            and not (name in ("In", "Out") or _hidden(name, value) or hasattr(builtins, name))
        ]

    def known(self) -> set[str]:
        """Return all names that could be meant, for suggestions."""
        return set(self._namespace) | set(dir(builtins))

    def _find(self, name: str, at: Position | None) -> Origin | None:
        position = self.executed.last(name, at)
        if (star := self._star(name, at, position)) is not None:
            return star
        if position is None:
            hidden = _hidden(name, self._namespace.get(name))
            return Builtin() if hidden else self._unbound(name)
        kind = self.executed.kind(position, name)
        node = self.executed.statement(position).node
        if kind is Kind.IMPORT and isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._imported(name, position, at)
        if kind is Kind.DEFINE and self._remembers(name, position, node):
            return ByValue(self._namespace[name], self.executed.cell(position).label, position)
        if kind in (Kind.IMPORT, Kind.DEFINE) or position >= self.end:
            return Defined(self._latest_alike(name, position), position)
        return self._assigned(name, position)

    # Names that a statement binds

    def _remembers(self, name: str, position: Position, node: ast.stmt) -> bool:
        if name in self.as_source or position != self.executed.last(name, self.end):
            return False
        return name in self.by_value or remembers(self._namespace.get(name), node)

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
        return ByValue(value, self.executed.cell(position).label, position, source=simple)

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
            if name in IPYTHONS and module.startswith("IPython"):
                return Imported((Import(IPYTHONS[name], name),))
            return Builtin()
        if name not in self._namespace:
            return Imported((Import(IPYTHONS[name], name),)) if name in self._hidden else None
        value = self._namespace[name]
        if isinstance(value, types.ModuleType) and value.__name__ in sys.modules:
            return Imported((import_module(value.__name__, name),))
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            home = importable(value)
            if home and "." not in home[1]:
                asname = name if name != home[1] else None
                return Imported((Import(home[0], home[1], asname),))
        return ByValue(value, "")


def _hidden(name: str, value: object) -> bool:
    """Return whether IPython has put its own in the place of Python's."""
    return name in ("exit", "quit") and type(value).__module__.startswith("IPython")


def _shared(namespace: Mapping[str, object], name: str) -> bool:
    """Return whether anything else holds a list, dict or set of the value: it must stay one."""
    alone = max(_holders({"": [[0]]}, ""))
    return any(count > alone for count in _holders(namespace, name))


def _holders(namespace: Mapping[str, object], name: str) -> list[int]:
    return [sys.getrefcount(container) for container in containers_of(namespace[name])]


_NOTHING: frozenset[str] = frozenset()
_FIRST: Position = (-1, -1)


class NeedsValueError(Exception):
    """No statement can make the function or class `name`: begin again, and take it by value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NeedsSourceError(Exception):
    """The value of `name` cannot travel, but the statement that made it can: begin again so.

    `refers` are the definitions that the value refers to, which the job needs all the same. `again`
    is set where the value is lost by it: it is made again in the job.
    """

    def __init__(
        self, name: str, refers: frozenset[str] = frozenset(), again: MadeAgain | None = None
    ) -> None:
        super().__init__(name)
        self.name = name
        self.refers = refers
        self.again = again


class NeedsPlainError(Exception):
    """What decorators did to values is in these: begin again, and do not run them again."""

    def __init__(self, decorators: Mapping[Position, Sequence[ast.expr]]) -> None:
        super().__init__(decorators)
        self.decorators = decorators


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name is needed: a line of a cell, or a value (whose name it is) that refers to it."""

    cell: Cell | None = None
    line: int = 0
    value: str = ""

    def __str__(self) -> str:
        if self.cell is None:
            return self.value
        return f"{self.cell.label}, line {self.line}" if self.line else self.cell.label


@dataclass(frozen=True, slots=True)
class _Want:
    """A name that is needed, as the statement `at` finds it.

    `free` holds the names that the main cell will have bound by the time it is looked up.
    """

    name: str
    at: Position | None
    free: frozenset[str]
    hard: bool
    place: Place


class Needs:
    """Everything that the script must hold above the statements of the main cell.

    Parameters
    ----------
    origins
        Where names come from.
    capture
        Takes the values.
    main, cell
        What the statements of the main cell read, and the cell.
    lazy
        Whether annotations stay unevaluated.

    Attributes
    ----------
    sources
        Statements, with the place of each in the order of execution.
    additions
        The statements that add to what each statement defines; they are `sources` as well.
    kept
        Values by name.
    held
        Lists, dicts and sets that a definition makes as they are now, by dotted names.
    refers
        The functions and classes of the notebook that each value refers to.
    called
        The variables that functions in each value read when they are called.
    imports
        Import statements by the name that they bind; several where it was bound differently at
        different times.
    missing
        Names that are needed and defined nowhere, with the first place that needs each.
    refused
        What else stands in the way.
    """

    def __init__(
        self, origins: Origins, capture: Capture, main: Reads, cell: Cell, *, lazy: bool
    ) -> None:
        self.origins, self.capture, self.lazy = origins, capture, lazy
        self.main, self.cell = main, cell
        self.sources: dict[Position, Position] = {}
        self.additions: dict[Position, list[Position]] = {}
        self.kept: dict[str, ByValue] = {}
        self.held: dict[str, object] = {}
        self.refers: dict[str, frozenset[str]] = {}
        self.called: dict[str, frozenset[str]] = {}
        self.imports: dict[str, dict[object, Imported]] = {}
        self.missing: dict[str, Place] = {}
        self.refused: list[CannotTravelError] = []
        self.sets: set[str] = set(main.sets)
        self._todo: deque[_Want] = deque()
        self._followed: set[tuple[str, str, str]] = set()
        self._wanted: dict[tuple[str, Position | None], tuple[frozenset[str], bool]] = {}
        self._entered: dict[Position, frozenset[str]] = {}
        self._owners: dict[str, frozenset[str]] = {}
        self._everything = _NOTHING
        self._left: dict[str, str] = {}
        self._unset: dict[str, str] = {}

    def left(self) -> tuple[str, ...]:
        """Return in words what does not travel although the job may miss it."""
        missed = [f"`{name}` ({kind})" for name, kind in self._left.items()]
        unset = [f"`{name}` ({kind})" for name, kind in self._unset.items()]
        lines = [
            f"the cell goes through all names; not among them: {', '.join(missed)}",
            f"not in the job, for it cannot leave this process: {', '.join(unset)}",
        ]
        return tuple(line for line, found in zip(lines, (missed, unset), strict=True) if found)

    def follow(self, leading: Sequence[Position], outputs: Sequence[str]) -> None:
        """Follow what the main cell needs: its `leading` statements, the others, its outputs.

        What one of the others binds is not needed from elsewhere by what runs after it.
        """
        for position in leading:
            statement = self.origins.executed.statement(position)
            if isinstance(statement.node, (ast.Import, ast.ImportFrom)):
                for name in statement.binds:
                    self._want(name, _NOTHING, Place(self.cell, statement.first), hard=True)
            else:
                self._enter(position, position, _NOTHING)
        for name, use in self.main.now.items():
            self._want(name, use.bound, Place(self.cell, use.line), hard=use.hard)
        for name, use in self.main.later.get("", {}).items():
            self._want_later(name, use, use.bound, self.cell)
        for owner in self.main.later:
            # Where nobody calls it by its name, the cell may have run to its end when it runs.
            self._own(owner, self.main.bound)
        for name in outputs:
            self._want(name, self.main.maybe, Place(self.cell), hard=True)
        if self.main.everything:
            self._want_all()
        self._follow_all()

    def _follow_all(self) -> None:
        while self._todo:
            want = self._todo.popleft()
            try:
                self._resolve(want)
            except RecursionError:
                raise self._too_deep(want) from None

    def _want_all(self) -> None:
        """Take along all of the notebook's names that can travel: the code goes through them."""
        self._everything = frozenset(self.origins.variables())
        for name in sorted(self._everything):
            self._want(name, _NOTHING, Place(self.cell), hard=False)

    def _too_deep(self, want: _Want) -> CannotTravelError:
        executed = self.origins.executed
        position = executed.last(want.name, want.at)
        place = (
            Place(executed.cell(position), executed.statement(position).first) if position else ""
        )
        return CannotTravelError(
            f"`{want.name}` comes from code that is nested too deeply to be analysed",
            where=str(place),
            fix="break the long expression into several statements, and run that cell again",
        )

    def follow_settings(self) -> None:
        """Follow the statements that set what the packages that are used so far go by."""
        executed = self.origins.executed
        used = self.used()
        for index in range(len(executed.cells) - 1):
            if not settings.may_set(executed.cells[index].source):
                continue
            for position, statement in executed.effective(index):
                if (path := self._sets(statement, position)) and settings.is_setting(path, used):
                    self._enter(position, position, _NOTHING)
        while self._todo:
            self._resolve(self._todo.popleft())

    def shared(self, held: Sequence[ModuleValue]) -> list[ModuleValue]:
        """Return what of `held` is in a value that travels, but for what is followed already.

        Parameters
        ----------
        held
            All that modules beside the notebook hold and that can be changed in place.
        """
        if not held:
            return []
        objects = self.capture.objects()
        return [
            one
            for one in held
            if one[:3] not in self._followed
            and any(id(part) in objects for _, part in parts_of(one[0], one[2], one[3]))
        ]

    def follow_modules(self, changes: Sequence[ModuleValue]) -> None:
        """Take along the `changes`: what modules beside the notebook hold now."""
        for module, inner, key, value in changes:
            self._followed.add((module, inner, key))
            name = self._imported_as(module)
            dotted = ".".join(filter(None, (name, inner, key)))
            names = [name for name in self.imports if _is_object(self.origins.value(name), value)]
            for one in (dotted, *names):
                want = _Want(one, None, _NOTHING, hard=False, place=Place(value=dotted))
                self._keep(want, ByValue(value, ""))
            if dotted in self.kept:
                self.refers[dotted] |= {name}
        while self._todo:
            self._resolve(self._todo.popleft())

    def _imported_as(self, module: str) -> str:
        """Return what the script calls a module, which it imports if it does not yet."""
        for variants in self.imports.values():
            for known in variants.values():
                item = known.imports[0]
                plain = item.name is None and (item.asname or "." not in module)
                if len(variants) == 1 and plain and item.module == module:
                    return item.binds
        taken = self.origins.known() | set(self.main.maybe) | self.imports.keys()
        name = free_name(module.rpartition(".")[2], taken)
        item = import_module(module, name)
        self.imports[name] = {(item.module, item.name): Imported((item,))}
        return name

    def import_lines(self) -> str:
        """Return an import statement for each module that the script may import."""
        nodes: list[ast.AST] = [*(self.origins.executed.statement(p).node for p in self.sources)]
        nodes.append(ast.parse(self.cell.source))
        found = {name for node in nodes for name in imported_names(node)}
        for variants in self.imports.values():
            for known in variants.values():
                found |= {f"{item.module}.{item.name or ''}".strip(".") for item in known.imports}
        found |= {module for name in self.kept for module in self.capture.modules(name)}
        return "".join(
            f"import {name}\n"
            for name in sorted(found)
            if all(map(str.isidentifier, name.split(".")))
        )

    def used(self) -> set[str]:
        """Return the packages that the script and its values use."""
        found = {
            item.module
            for each in self.imports.values()
            for one in each.values()
            for item in one.imports
        }
        found |= {module for name in self.kept for module in self.capture.modules(name)}
        return {module.partition(".")[0] for module in found}

    def _sets(self, statement: Statement, position: Position) -> str:
        """Return what a statement may set, by its module's own name; empty if it sets nothing."""
        target = settings.target_of(statement.node)
        if target is None:
            return ""
        origin = self.origins.of(target[0], position)
        if not isinstance(origin, Imported):
            return ""
        for name, use in statement.reads(lazy=self.lazy).now.items():
            found = self.origins.of(name, position)
            if name not in use.bound and (found is None or isinstance(found, Outdated)):
                return ""
        first = origin.imports[0]
        module = first.binds if first.name is first.asname is None else first.module
        return ".".join([module, *([first.name] if first.name else []), *target[1]])

    def reads(self, position: Position) -> Reads:
        """Return what the statement at `position` reads."""
        return self.origins.executed.statement(position).reads(lazy=self.lazy)

    def _want(
        self,
        name: str,
        free: frozenset[str],
        place: Place,
        *,
        hard: bool,
        at: Position | None = None,
    ) -> None:
        if name in free:
            self._own(name, free)
            return
        key = (name, at)
        if (before := self._wanted.get(key)) is not None:
            if before[0] <= free and (before[1] or not hard):
                return
            free, hard = free & before[0], hard or before[1]
        self._wanted[key] = free, hard
        self._todo.append(_Want(name, at, free, hard, place))

    def _own(self, owner: str, free: frozenset[str]) -> None:
        """Follow a function of the main cell, which runs when `free` is bound."""
        before = self._owners.get(owner)
        if owner not in self.main.later or (before is not None and before <= free):
            return
        self._owners[owner] = free = free if before is None else free & before
        for name, use in self.main.later[owner].items():
            self._want_later(name, use, free, self.cell)

    def _want_later(self, name: str, use: Use, free: frozenset[str], cell: Cell) -> None:
        # What the main cell may bind in time is no error where it is not there yet.
        hard = use.hard and name not in self.main.maybe
        self._want(name, free, Place(cell, use.line), hard=hard)

    def _resolve(self, want: _Want) -> None:
        origin = self.origins.of(want.name, want.at)
        if isinstance(origin, Imported):
            variants = self.imports.setdefault(want.name, {})
            known = variants.setdefault(origin.meaning, origin)
            if (origin.bound or _FIRST) > (known.bound or _FIRST):
                variants[origin.meaning] = origin
            if want.at is None:
                self._keep_settings(want.name)
        elif isinstance(origin, Defined):
            self._enter(origin.position, origin.bound, want.free)
            if want.at is None:
                self._keep_attributes(want.name, origin.position)
            self._want_referred(want.name, self.origins.as_source.get(want.name, _NOTHING))
        elif isinstance(origin, ByValue):
            self._keep(want, origin)
        elif want.hard and origin is None:
            self.missing.setdefault(want.name, want.place)
        elif want.hard and isinstance(origin, Outdated):
            newer = self.origins.executed.cell(origin.newer).label
            self.refused.append(
                CannotTravelError(
                    f"this used `{want.name}` as it was before {newer} set it again, "
                    "and that value is gone",
                    where=str(want.place),
                    fix=f"run {want.place.cell.label if want.place.cell else newer} again",
                )
            )

    def _enter(self, position: Position, bound: Position, free: frozenset[str]) -> None:
        """Take along the statement at `position`, which took effect at `bound` first."""
        executed = self.origins.executed
        self.sources[position] = min(bound, self.sources.get(position, bound))
        before = self._entered.get(position)
        if before is not None and before <= free:
            return
        self._entered[position] = free = free if before is None else free & before
        statement, cell = executed.statement(position), executed.cell(position)
        reads = self.reads(position)
        for uses in reads.later.values():
            for name, use in uses.items():
                self._want_later(name, use, free, cell)
        if before is None:
            self.sets |= reads.sets
            if reads.everything:
                self._want_all()
            for name, use in reads.now.items():
                if name not in use.bound:
                    place = Place(cell, use.line)
                    self._want(name, _NOTHING, place, hard=use.hard, at=position)
        self.additions[position] = [
            addition for name in statement.binds for addition in executed.additions(name, position)
        ]
        for addition in self.additions[position]:
            self._enter(addition, addition, free)

    def _keep_attributes(self, name: str, position: Position) -> None:
        """Take along what a class or function holds now that its definition does not say."""
        value = self.origins.value(name)
        if getattr(value, "__module__", None) != "__main__":
            return
        statement = self.origins.executed.statement(position)
        added = self.additions.get(position, ())
        said = {ast.unparse(node) for place in added for node in self._targets(place)}
        for key, held, original in attributes(value, statement.node):
            dotted = f"{name}.{key}"
            if original:
                if any(True for _ in containers_of(held)):
                    self.held[dotted] = held
            elif dotted not in said and dotted not in self.kept:
                cell = self.origins.executed.cell(position).label
                place = Place(value=dotted)
                want = _Want(dotted, None, _NOTHING, hard=False, place=place)
                self._keep(want, ByValue(held, cell))
                if dotted in self.kept:
                    self.refers[dotted] |= {name}

    def _keep_settings(self, name: str) -> None:
        """Take along what cells have set on an imported module or class: ``config.epochs = 5``."""
        executed = self.origins.executed
        first = executed.next_binding(name)
        # Every cell may import it once more, which changes nothing of what was set on it.
        for position in executed.additions(name, first, rebound=True) if first else ():
            for dotted in settings.attributes_set(executed.statement(position).node):
                self._keep_set(name, dotted, executed.cell(position).label)

    def _keep_set(self, name: str, dotted: str, cell: str) -> None:
        root, *path = dotted.split(".")
        held = _set_on_a_module(self.origins.value(name), path) if root == name else None
        if held is None or dotted in self.kept or dotted in self._unset:
            return
        want = _Want(dotted, None, _NOTHING, hard=False, place=Place(value=dotted))
        self._keep(want, ByValue(held[0], cell))
        if dotted in self.kept:
            self.refers[dotted] |= {name}
        else:
            self._unset[dotted] = type_name(held[0])

    def _targets(self, position: Position) -> Sequence[ast.expr]:
        node = self.origins.executed.statement(position).node
        return node.targets if isinstance(node, ast.Assign) else ()

    def keep(self, name: str, value: object) -> None:
        """Take along `value`, which no cell has bound, by the name `name`."""
        self.refers[name] = self.capture.add(name, value)
        self.called[name] = self.capture.reads(name)
        self.kept[name] = ByValue(value, "")

    def _keep(self, want: _Want, kept: ByValue) -> None:
        name = want.name
        if name in self.kept:
            return
        try:
            refers = self.capture.add(name, kept.value, kept.cell)
        except CannotTravelError as error:
            if name in self._everything and not want.hard:
                self._left[name] = type_name(kept.value)
                return
            self._left.pop(name, None)
            used = self.origins.executed.used_after
            lazily = isinstance(kept.value, Iterator)
            touched = bool(kept.bound and used(name, kept.bound, later=lazily))
            if isinstance(kept.value, types.FunctionType) and kept.bound:
                raise NeedsSourceError(name) from error  # what it remembers stays here
            if kept.source and can_be_made_again(kept.value, touched=touched):
                made = MadeAgain(
                    name=name,
                    cell=kept.cell,
                    type=type_name(kept.value),
                    place=place_of(kept.value) or 0,
                )
                raise NeedsSourceError(name, again=made) from error
            if has_begun(kept.value, touched=touched):
                error.what = (
                    f"`{name}` ({type_name(kept.value)}) has been read from, and the job can only "
                    "make a fresh one"
                )
                error.fix = f"make it in this cell, or run {kept.cell} again before this cell"
            if want.hard:
                if kept.bound:
                    line = self.origins.executed.statement(kept.bound).first
                    error.where = f"{kept.cell}, line {line}"
                self.refused.append(error)
            return
        self.kept[name] = kept
        self.refers[name] = refers
        self.called[name] = self.capture.reads(name)
        self._unset |= _handlers(name, kept.value)
        self._want_referred(name, refers)
        for read in sorted(self.called[name]):
            self._want(read, _NOTHING, Place(value=name), hard=False, at=self.origins.end)

    def _want_referred(self, value: str, refers: frozenset[str]) -> None:
        """Follow what a value refers to: what the names mean now, before the main cell."""
        for name in sorted(refers):
            self._want(name, _NOTHING, Place(value=value), hard=True, at=self.origins.end)


def _handlers(name: str, value: object) -> dict[str, str]:
    """Return the handlers of a logger of the notebook's, which travels by its name alone."""
    logging = sys.modules.get("logging")
    if logging is None or not isinstance(value, logging.Logger):
        return {}
    kinds = {type_name(one): None for one in value.handlers}
    # Those of the root are a setting, which travels.
    return {f"{name}.handlers": ", ".join(kinds)} if kinds and value.parent else {}


def _is_object(here: object, value: object) -> bool:
    """Return whether both are one object that can change."""
    plain = (str, bytes, int, float, complex, type(None))
    return here is value and not issubclass(type(value), plain)


def _set_on_a_module(owner: object, path: Sequence[str]) -> tuple[object] | None:
    """Return what ``a.b.name`` has now, where ``a.b`` is a module, or a class of one."""
    for step in path[:-1]:
        owner = vars(owner).get(step) if isinstance(owner, (types.ModuleType, type)) else None
    if not isinstance(owner, (types.ModuleType, type)) or path[-1] not in vars(owner):
        return None
    module = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
    if module.partition(".")[0] in settings.KEPT_APART:
        return None
    return (vars(owner)[path[-1]],)
