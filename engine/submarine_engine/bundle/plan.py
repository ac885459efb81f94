"""The parts of a script above the main cell's statements, in an order that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from submarine_engine.bundle.capture import Captured, Load
from submarine_engine.bundle.executed import Position
from submarine_engine.bundle.imports import Import
from submarine_engine.bundle.needs import Needs, NeedsSourceError, NeedsValueError
from submarine_engine.bundle.order import ordered, reachable
from submarine_engine.bundle.origins import Defined, Imported, Kept
from submarine_engine.errors import CannotTravelError

USUAL = (("pickle", None, None), ("pathlib", "Path", None))
"""Imports that the script needs to load values: the module, the name, and what it is called."""

Node = Position | str
"""A statement, or a value by its name."""

Item = Position | Load | str
"""A statement, a file that holds values, or a value that is written out, by its name."""


@dataclass(frozen=True, slots=True)
class Plan:
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


class _Graph:
    """What needs what."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.executed = needs.origins.executed
        self.nodes: list[Node] = [*needs.sources, *needs.kept]
        self.now = {node: self._now(node) for node in self.nodes}
        self.later = {node: self._later(node) for node in self.nodes}

    def _providers(self, name: str, at: Position | None = None) -> Iterator[Node]:
        origin = self.needs.origins.of(name, at)
        if isinstance(origin, Defined) and origin.position in self.needs.sources:
            yield origin.position
        elif isinstance(origin, Kept) and name in self.needs.kept:
            yield name
        elif isinstance(origin, Imported) and origin.bound in self.needs.sources:
            yield origin.bound  # an import that stays in its place

    def _now(self, node: Node) -> set[Node]:
        found: set[Node] = set()
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

    def _later(self, node: Node) -> set[Node]:
        found: set[Node] = set()
        if isinstance(node, str):
            for name in self.needs.called[node]:
                found.update(self._providers(name, self.needs.origins.end))
        else:
            for uses in self.needs.reads(node).later.values():
                for name in uses:
                    found.update(self._providers(name))
        return found - {node}

    def wishes(self, node: Node) -> set[Node]:
        """Return what may run while `node` is defined or loaded, and what that needs."""
        return reachable(self.now[node], lambda n: self.now[n] | self.later[n]) - {node}

    def chain(self) -> None:
        """Keep the order in which each name was bound, where it is bound more than once."""
        main = len(self.executed.cells) - 1
        bound: dict[str, list[tuple[Position, bool, Node]]] = {}
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

    def _uses(self, node: Node, name: str, provider: Node) -> bool:
        if isinstance(node, str):
            at, used = self.needs.origins.end, name in self.needs.refers[node]
        else:
            at, used = node, name in self.needs.reads(node).now
        return used and provider in self._providers(name, at)


def plan(needs: Needs) -> Plan:
    """Put what `needs` found into an order, and take the values.

    Raises
    ------
    NeedsSourceError
        A value and a definition need each other: a registry and what registers itself there.
    NeedsValueError
        The source of a function or a class is in no cell that ran.
    CannotTravelError
        They do, and no statement makes the value.
    CaptureTooLargeError
        The values exceed the limit.
    """
    imports = _imports(needs)
    graph = _Graph(needs)
    for name in needs.kept:
        _refuse_circle(graph, name)
    wishes = {node: graph.wishes(node) for node in graph.nodes}
    graph.chain()
    captured = needs.capture.finish()
    item: dict[Node, Item] = {name: load for load in captured.loads for name in load.names}
    nodes = sorted(graph.nodes, key=_rank(needs, captured))
    items = dict.fromkeys(item.get(node, node) for node in nodes)
    return Plan(
        imports,
        tuple(ordered(list(items), _mapped(graph.now, item), _mapped(wishes, item))),
        captured,
        _names(needs, imports),
    )


def _mapped(edges: dict[Node, set[Node]], item: dict[Node, Item]) -> dict[Item, set[Item]]:
    """Return `edges` with the files that values are loaded from in place of the values."""
    found: dict[Item, set[Item]] = {}
    for node, others in edges.items():
        start = item.get(node, node)
        found.setdefault(start, set()).update(
            {item.get(other, other) for other in others} - {start}
        )
    return found


def _rank(needs: Needs, captured: Captured) -> Callable[[Node], tuple[int, Position, str]]:
    """Return the sort key: values first, but for those that refer to definitions; main last."""
    main = len(needs.origins.executed.cells) - 1

    def rank(node: Node) -> tuple[int, Position, str]:
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
    if any(name in graph.wishes(node) for node in before):
        if needs.kept[name].source:
            raise NeedsSourceError(name, needs.refers[name])
        raise CannotTravelError(
            f"`{name}` refers to what cannot be defined without it",
            where=needs.kept[name].cell,
            fix="give it its first value in a plain assignment",
        )
