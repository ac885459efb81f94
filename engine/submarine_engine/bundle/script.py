"""The script: parts in an order that runs, then lines, each with the cell that it is from."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import PurePath
from typing import TypeVar

from submarine_runtime.lean import type_name

from submarine_engine.bundle import settings
from submarine_engine.bundle.capture import Captured, Load, Loading, free_name
from submarine_engine.bundle.executed import Executed, Import, Position, rendered
from submarine_engine.bundle.maincell import MainCell
from submarine_engine.bundle.model import Cell, LineSpan, MadeAgain
from submarine_engine.bundle.needs import (
    ByValue,
    Defined,
    Imported,
    Needs,
    NeedsPlainError,
    NeedsSourceError,
    NeedsValueError,
)
from submarine_engine.bundle.source import FUNCTIONS, Lines
from submarine_engine.bundle.statements import Statement
from submarine_engine.bundle.values import function_like
from submarine_engine.errors import CannotTravelError

# An order in which everything stands below what it needs.


Node = TypeVar("Node", bound=Hashable)


def reachable(start: Collection[Node], edges: Callable[[Node], Collection[Node]]) -> set[Node]:
    """Return `start` and everything that `edges` lead to from there."""
    found = set(start)
    todo = list(start)
    while todo:
        for node in edges(todo.pop()):
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def ordered(
    nodes: Collection[Node],
    needs: Mapping[Node, Collection[Node]],
    wishes: Mapping[Node, Collection[Node]],
) -> list[Node]:
    """Return `nodes` in their order, but each below what it needs.

    Parameters
    ----------
    nodes
        In the order that they should keep where nothing is against it.
    needs
        What must stand above each node. Where nodes need each other in a circle, no order is
        right, and one of these is passed over.
    wishes
        What should stand above it where no need is against it.
    """
    rank = {node: index for index, node in enumerate(nodes)}
    above = {node: reachable([node], lambda n: needs.get(n, ())) for node in nodes}
    done: dict[Node, None] = {}
    active: set[Node] = set()

    def place(node: Node) -> None:
        if node in done or node in active:
            return
        active.add(node)
        for other in sorted(needs.get(node, ()), key=rank.__getitem__):
            place(other)
        for other in sorted(wishes.get(node, ()), key=rank.__getitem__):
            if not above[other] & active:
                place(other)
        active.remove(node)
        done[node] = None

    for node in nodes:
        place(node)
    return list(done)


# The parts of a script above the main cell's statements, in an order that runs.


_UNCHANGING = (str, bytes, int, float, complex, types.NoneType, types.FunctionType, type)


USUAL = (("pickle", None, None), ("pathlib", "Path", None))
"""Imports that the script needs to load values: the module, the name, and what it is called."""

PlanNode = Position | str
"""A statement, or a value by its name."""

Item = Position | Load | str
"""A statement, a file that holds values, or a value that is written out, by its name."""


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """What a script consists of.

    Parameters
    ----------
    imports
        For its top.
    items
        Below them, in this order: statements, files to load, and names with a literal.
    captured
        The values.
    names
        All names that mean something in the script, but for what every Python file may import.
    head
        Lines that stand before the first import.
    paths
        Folders that the notebook has added to ``sys.path``.
    states
        The variable that holds the random states of the notebook, and whose they are.
    held
        As of `Needs`.
    seeks
        Lines that stand below statements: each moves a file to where the notebook has it.
    left
        As of `Needs`.
    """

    imports: tuple[Import, ...]
    items: tuple[Item, ...]
    captured: Captured
    names: frozenset[str]
    head: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    states: tuple[str, tuple[str, ...]] | None = None
    held: Mapping[str, object] = field(default_factory=dict)
    seeks: Mapping[Position, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()


class _Graph:
    """What needs what."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.executed = needs.origins.executed
        self.nodes: list[PlanNode] = [*needs.sources, *needs.kept]
        self.now = {node: self._now(node) for node in self.nodes}
        self.later = {node: self._later(node) for node in self.nodes}

    def _providers(self, name: str, at: Position | None = None) -> Iterator[PlanNode]:
        origin = self.needs.origins.of(name, at)
        if isinstance(origin, Defined) and origin.position in self.needs.sources:
            yield origin.position
        elif isinstance(origin, ByValue) and name in self.needs.kept:
            yield name
        elif isinstance(origin, Imported) and origin.bound in self.needs.sources:
            yield origin.bound  # an import that stays in its place

    def _now(self, node: PlanNode) -> set[PlanNode]:
        found: set[PlanNode] = set()
        if isinstance(node, str):
            for name in self.needs.refers[node]:
                found.update(self._providers(name, self.needs.origins.end))
        else:
            for name, use in self.needs.reads(node).now.items():
                if name not in use.bound:
                    found.update(self._providers(name, node))
            for other in [other for other in found if not isinstance(other, str)]:
                added = self.needs.additions.get(other, ())
                found.update(addition for addition in added if addition < node)
        return found - {node}

    def _later(self, node: PlanNode) -> set[PlanNode]:
        found: set[PlanNode] = set()
        if isinstance(node, str):
            for name in self.needs.called[node]:
                found.update(self._providers(name, self.needs.origins.end))
        else:
            for uses in self.needs.reads(node).later.values():
                for name in uses:
                    found.update(self._providers(name))
        return found - {node}

    def changes(self, node: PlanNode, decorator: ast.expr) -> bool:
        """Return whether a decorator of `node` may change a value that travels."""
        names = {one.id for one in ast.walk(decorator) if isinstance(one, ast.Name)}
        start = {
            provider
            for name in names
            for provider in self._providers(name, node if isinstance(node, tuple) else None)
        }
        reached = reachable(start, lambda one: self.now[one] | self.later[one])
        return any(
            isinstance(one, str)
            and (one in self.needs.sets or not isinstance(self.needs.kept[one].value, _UNCHANGING))
            for one in reached
        )

    def wishes(self, node: PlanNode) -> set[PlanNode]:
        """Return what may run while `node` is defined or loaded, and what that needs."""
        return reachable(self.now[node], lambda n: self.now[n] | self.later[n]) - {node}

    def chain(self) -> None:
        """Keep the order in which each name was bound, where it is bound more than once."""
        main = len(self.executed.cells) - 1
        bound: dict[str, list[tuple[Position, bool, PlanNode]]] = {}
        for position, place in self.needs.sources.items():
            for name in self.executed.statement(position).binds:
                bound.setdefault(name, []).append((place, False, position))
        for name, kept in self.needs.kept.items():
            bound.setdefault(name, []).append((kept.bound or (main, -1), True, name))
        for name, places in bound.items():
            nodes = [node for _, _, node in sorted(places, key=lambda place: place[:2])]
            for earlier, later in pairwise(nodes):
                self.now[later].add(earlier)
                # Who was defined with the earlier one must not see the later one.
                self.now[later].update(
                    node
                    for node in self.nodes
                    if node not in nodes and self._uses(node, name, earlier)
                )

    def _uses(self, node: PlanNode, name: str, provider: PlanNode) -> bool:
        if isinstance(node, str):
            at, used = self.needs.origins.end, name in self.needs.refers[node]
        else:
            at, used = node, name in self.needs.reads(node).now
        return used and provider in self._providers(name, at)


def plan(needs: Needs) -> ScriptPlan:
    """Put what `needs` found into an order, and take the values.

    Raises
    ------
    NeedsPlainError
        Decorators would do again to values what they have done.
    NeedsSourceError
        A value and a class need each other.
    NeedsValueError
        The source of a function or a class is in no cell that ran, or it and a value need each
        other.
    CannotTravelError
        They do, and no statement makes the value.
    CaptureTooLargeError
        The values exceed the limit.
    """
    imports = _imports(needs)
    graph = _Graph(needs)
    if decorators := _effects(graph):
        raise NeedsPlainError(decorators)
    for name in needs.kept:
        _refuse_circle(graph, name)
    wishes = {node: graph.wishes(node) for node in graph.nodes}
    graph.chain()
    captured = needs.capture.finish()
    item: dict[PlanNode, Item] = {name: load for load in captured.loads for name in load.names}
    nodes = sorted(graph.nodes, key=_rank(needs, captured))
    items = dict.fromkeys(item.get(node, node) for node in nodes)
    return ScriptPlan(
        imports,
        tuple(ordered(list(items), _mapped(graph.now, item), _mapped(wishes, item))),
        captured,
        _names(needs, imports),
    )


def _mapped(
    edges: dict[PlanNode, set[PlanNode]], item: dict[PlanNode, Item]
) -> dict[Item, set[Item]]:
    """Return `edges` with the files that values are loaded from in place of the values."""
    found: dict[Item, set[Item]] = {}
    for node, others in edges.items():
        start = item.get(node, node)
        found.setdefault(start, set()).update(
            {item.get(other, other) for other in others} - {start}
        )
    return found


def _rank(needs: Needs, captured: Captured) -> Callable[[PlanNode], tuple[int, Position, str]]:
    """Return the sort key: values first, but for those that refer to definitions; main last."""
    main = len(needs.origins.executed.cells) - 1

    def rank(node: PlanNode) -> tuple[int, Position, str]:
        if isinstance(node, str):
            group = 0 if node in captured.literals else 3 if needs.refers[node] else 1
            return group, needs.kept[node].bound or (-1, -1), node
        return 4 if node[0] == main else 2, needs.sources[node], ""

    return rank


def _imports(needs: Needs) -> tuple[Import, ...]:
    """Return the imports for the top; one whose name means other things too stays in its place."""
    binds = {
        name
        for position in needs.sources
        for name in needs.origins.executed.statement(position).binds
    }
    top: list[Import] = []
    for name, variants in needs.imports.items():
        alone = len(variants) == 1 and name not in binds and name not in needs.kept
        for imported in variants.values():
            if alone or imported.bound is None:
                top += imported.imports
            else:
                needs.sources.setdefault(imported.bound, imported.bound)
    return tuple(top)


def _names(needs: Needs, imports: tuple[Import, ...]) -> frozenset[str]:
    bound = {*needs.kept, *needs.main.maybe}
    read = set(needs.main.now).union(*needs.main.later.values(), *needs.called.values())
    for position in needs.sources:
        bound.update(needs.origins.executed.statement(position).binds)
        reads = needs.reads(position)
        read.update(reads.now, *reads.later.values())
    usual = {item.binds for item in imports if (item.module, item.name, item.asname) in USUAL}
    return frozenset(bound | (read - usual) | ({item.binds for item in imports} - usual))


def _refuse_circle(graph: _Graph, name: str) -> None:
    """Refuse the value `name` where what it refers to cannot be defined without it."""
    needs = graph.needs
    if name in needs.refers[name]:
        raise NeedsValueError(name)
    before = reachable(graph.now[name], lambda node: graph.now[node])
    if circle := [node for node in before if name in graph.wishes(node)]:
        for function in _functions(needs, circle):
            raise NeedsValueError(function)
        kept = needs.kept[name]
        if kept.source:
            again = MadeAgain(name=name, cell=kept.cell, type=type_name(kept.value))
            raise NeedsSourceError(name, needs.refers[name], again)
        raise CannotTravelError(
            f"`{name}` and definitions that it holds need each other",
            where=needs.kept[name].cell,
            fix="assign it first in a statement of its own, and add the definitions below",
        )


def _functions(needs: Needs, nodes: Iterable[PlanNode]) -> Iterator[str]:
    """Yield the functions among definitions that can still be taken by value.

    Made again by its statement, a value would have lost what it has learnt since.
    """
    for node in sorted(node for node in nodes if not isinstance(node, str)):
        name = getattr(needs.origins.executed.statement(node).node, "name", "")
        tried = name in needs.origins.by_value or name in needs.origins.as_source
        if isinstance(needs.origins.value(name), types.FunctionType) and not tried:
            yield name


def _effects(graph: _Graph) -> dict[Position, list[ast.expr]]:
    """Return decorators that note a function somewhere and return it unchanged (``@app.on``).

    What they did is in the value that they noted it in: the function is in ``app`` by now.
    """
    needs = graph.needs
    added = {place for places in needs.additions.values() for place in places}
    found = {}
    for node in graph.nodes:
        if isinstance(node, str) or node in added or node >= needs.origins.end:
            continue
        statement = graph.executed.statement(node)
        decorators = getattr(statement.node, "decorator_list", ())
        leading = [one for one in decorators if graph.changes(node, one)]
        if leading and statement.alone and _is_as_written(needs, node, leading):
            found[node] = leading
    return found


def _is_as_written(needs: Needs, position: Position, without: Sequence[ast.expr]) -> bool:
    """Return whether a function or class is what its statement makes without those decorators."""
    node = needs.origins.executed.statement(position).node
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return False
    origin = needs.origins.of(node.name, needs.origins.end)
    if not isinstance(origin, Defined) or origin.position != position:
        return False
    value = needs.origins.value(node.name)
    if isinstance(node, ast.ClassDef):
        return isinstance(value, type) and value.__qualname__ == node.name
    if isinstance(value, types.FunctionType):
        return not hasattr(value, "__wrapped__") and _has_code_of(value, node)
    # What another decorator made of it in C: `functools.cache`, `jax.jit`.
    inner = getattr(value, "__wrapped__", None)
    made = len(node.decorator_list) > len(without) and function_like(value)
    return made and isinstance(inner, types.FunctionType) and _has_code_of(inner, node)


def _has_code_of(
    function: types.FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> bool:
    given = (*node.args.posonlyargs, *node.args.args)
    code = function.__code__
    return (
        function.__closure__ is None
        and function.__qualname__ == code.co_name == node.name
        and code.co_varnames[: code.co_argcount] == tuple(one.arg for one in given)
    )


# A script under construction, which knows the cell and line that each of its lines is from.


THE_CALL = "the call"
IPYTHON_SYNTAX = "IPython syntax"
"""What stands in place of a file's name for cells that nobody typed."""

_NOT_TYPED = (THE_CALL, IPYTHON_SYNTAX)


class Script:
    """A script that grows line by line, and knows where each line came from.

    Parameters
    ----------
    entry
        The path that it will have in the bundle.
    """

    def __init__(self, entry: str) -> None:
        self.entry = entry
        self._lines: list[tuple[str, Cell | None, int]] = []
        self._title: str | None = None

    @property
    def text(self) -> str:
        """The script."""
        return "".join(f"{line}\n" for line, _, _ in self._lines)

    def own(self, lines: Iterable[str]) -> None:
        """Add lines of our own."""
        self._lines += [(line, None, 0) for line in lines]

    def take(self, cell: Cell, lines: Lines) -> None:
        """Add lines of a cell; those with the number 0 are our own."""
        self._lines += [(line, cell if number else None, number) for number, line in lines]

    def space(self, count: int) -> None:
        """Add `count` empty lines."""
        self.own([""] * count)

    def section(self, title: str) -> bool:
        """Begin a section, unless the last one has that title; return whether it did."""
        title = " ".join(title.split())
        if title == self._title:
            return False
        self._title = title
        self.space(2)
        self.own([f"# %% {title}"])
        return True

    def spans(self) -> tuple[LineSpan, ...]:
        """Return where the lines came from."""
        runs = groupby(
            enumerate(self._lines, 1),
            lambda entry: (id(entry[1][1]), entry[0] - entry[1][2]),  # one cell, line for line
        )
        found = []
        for _, run in runs:
            entries = list(run)
            line, (_, cell, number) = entries[0]
            if cell is not None and cell.file not in _NOT_TYPED:
                found.append(_span(self.entry, line, len(entries), cell, number))
        return tuple(found)


def _span(entry: str, line: int, count: int, cell: Cell, number: int) -> LineSpan:
    return LineSpan(
        file=entry,
        line=line,
        count=count,
        cell=cell.label,
        cell_id=cell.id,
        cell_number=cell.number,
        cell_line=number,
    )


# Writes the script: imports, what is needed with where it came from, then the main cell.


VALUES = "Values from the notebook"
LEFT_OUT = "  (not again: what it did is in the values)"

_HEADER = (
    "# Written by Submarine; each section says which cell of the notebook it comes from.",
    "# To run it: python {entry}",
)


def compose(
    plan: ScriptPlan, executed: Executed, main: MainCell, entry: str, local: Collection[str] = ()
) -> Script:
    """Write the script.

    Parameters
    ----------
    plan
        What it consists of, in its order.
    executed
        The statements that took effect; the last cell is the main one.
    main
        The main cell.
    entry
        The path that the script will have in the bundle.
    local
        Modules that lie beside the notebook, which are imported last.
    """
    return _Composer(plan, executed, main, Script(entry)).compose(local)


def title(cell: Cell) -> str:
    """Return what the sections of a cell are called."""
    if cell.file:
        return PurePath(cell.file).name
    return cell.label if cell.number is not None or cell.name else "Main"


class _Composer:
    def __init__(
        self, plan: ScriptPlan, executed: Executed, main: MainCell, script: Script
    ) -> None:
        self.plan, self.executed, self.main, self.script = plan, executed, main, script
        self.main_index = len(executed.cells) - 1
        self.loads = plan.captured.loads
        self.loading = Loading.among(self.loads, plan.names)
        imported = any((one.module, one.name) == ("asyncio", None) for one in plan.imports)
        self.asyncio = free_name("asyncio", plan.names - {"asyncio"} if imported else plan.names)
        self.before: Position | None = None  # the statement right above
        self.can_load = False

    def compose(self, local: Collection[str]) -> Script:
        self.script.own(line.format(entry=self.script.entry) for line in _HEADER)
        futures = [
            Import("__future__", name, position=position, line=self.line(position))
            for name, position in sorted(self.executed.futures().items())
        ]
        if self.plan.head:
            self.write(futures, local)  # Python wants them above all else
            futures = []
            self.script.section(settings.TITLE)
            self.script.own(self.plan.head)
        self.states: list[str] = []
        self.imports(futures, local)
        lead = self.comments_of_imports()
        for item in self.plan.items:
            if isinstance(item, tuple):
                if item[0] == self.main_index:
                    self.set_states()
                if item[0] == self.main_index and lead:
                    self.begin_main(lead)
                    lead = []
                self.statement(item)
            else:
                self.value(item)
        self.set_states()
        self.closing(lead)
        return self.script

    def imports(self, futures: Sequence[Import], local: Collection[str]) -> None:
        ours = [*(self.loading.imports() if self.loads else ())]
        if self.main.awaits:
            ours.append(_asyncio(self.asyncio))
        there = {item.module for item in self.plan.imports}
        ours += [Import(module) for module in self.plan.captured.patches if module not in there]
        every = [*futures, *self.plan.imports, *ours]
        if self.plan.states:
            name, keys = self.plan.states
            more, self.states = settings.states_in(keys, name, self.plan.imports, self.plan.names)
            every += more
        self.write(every, local)

    def write(self, every: Sequence[Import], local: Collection[str]) -> None:
        if every:
            self.script.section("Imports")
        for lines, item in rendered(every, local):
            if item is None or item.position is None:
                self.script.own(lines)
            else:
                # All of its lines are about that one.
                cell = self.executed.cell(item.position)
                self.script.take(cell, [(item.line, line) for line in lines])

    def line(self, position: Position) -> int:
        return self.executed.statement(position).first

    def statement(self, position: Position) -> None:
        cell, statement = self.executed.cell(position), self.executed.statement(position)
        parsed = self.executed.parsed(position[0])
        lines = parsed.text(statement)
        if position[0] == self.main_index:
            own = self.main.comments(position[1])
            lines = own + [line for line in lines if line[0] >= statement.first]
        if not self.script.section(title(cell)) and self.before:
            self.script.space(self.gap(self.before, position, lines))
        self.script.take(cell, _commented(lines, self.executed.left_out.get(position, ())))
        if position in self.plan.seeks:
            self.script.own([self.plan.seeks[position]])
        self.before = position

    def gap(self, above: Position, position: Position, lines: Lines) -> int:
        """Return how many empty lines stand between two statements of one cell."""
        upper, lower = self.executed.statement(above), self.executed.statement(position)
        if above[0] == position[0] and upper.last < lines[0][0]:
            between = self.executed.parsed(above[0]).lines[upper.last : lines[0][0] - 1]
            if above[1] + 1 == position[1] and not any(line.strip() for line in between):
                return 2 if _apart(upper, lower) else min(2, len(between))
        if upper.compound or lower.compound:
            return 2
        return 1 if isinstance(upper.node, ast.Expr) else 0

    def value(self, item: Load | str) -> None:
        begun = self.script.section(VALUES)
        self.before = None
        if isinstance(item, str):
            source = f"{item} = {self.plan.captured.literals[item]}"
            self.script.own(source.split("\n"))
            return
        if not self.can_load:
            self.script.space(0 if begun else 2)
            self.script.own(self.loading.helper())
            self.script.space(2)
            self.can_load = True
        self.script.own(self.loading.line(item))

    def comments_of_imports(self) -> Lines:
        """Return the comments of the main cell's leading imports, which are merged away."""
        found: Lines = []
        for index in range(self.main.leading):
            node = self.main.parsed.statements[index].node
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                comments = self.main.comments(index)
                found += [line for line in comments if line[1].strip()]
        return found

    def begin_main(self, lead: Lines) -> None:
        self.script.section(title(self.main.cell))
        self.script.take(self.main.cell, lead)
        self.script.space(2)

    def set_states(self) -> None:
        """Set the random states right above the main cell: what runs before it may draw numbers."""
        if self.states:
            self.script.section(settings.TITLE)
            self.script.own(self.states)
            self.states = []

    def closing(self, lead: Lines) -> None:
        lines = self.main.block(lead, self.asyncio)
        if not lines:
            return
        if not self.script.section(title(self.main.cell)):
            self.script.space(2)
        self.script.take(self.main.cell, lines)


def _commented(lines: Lines, decorators: Sequence[ast.expr]) -> Lines:
    """Return lines with the decorators that do not run again as comments."""
    ends = {one.end_lineno for one in decorators}
    within = {
        number for one in decorators for number in range(one.lineno, (one.end_lineno or 0) + 1)
    }
    return [
        (number, f"# {line}{LEFT_OUT if number in ends else ''}" if number in within else line)
        for number, line in lines
    ]


def _asyncio(name: str) -> Import:
    return Import("asyncio", asname=None if name == "asyncio" else name)


def _apart(upper: Statement, lower: Statement) -> bool:
    """Return whether two empty lines belong between neighbours; not so below a mere stub."""
    named = (*FUNCTIONS, ast.ClassDef)
    stub = isinstance(upper.node, named) and upper.first == upper.last
    return not stub and (isinstance(upper.node, named) or isinstance(lower.node, named))
