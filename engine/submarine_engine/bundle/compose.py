"""Writes the script: imports, what is needed with where it came from, then the main cell."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import PurePath

from submarine_engine.bundle import settings
from submarine_engine.bundle.bindings import FUNCTIONS
from submarine_engine.bundle.capture import Load
from submarine_engine.bundle.executed import Executed, Position
from submarine_engine.bundle.imports import Import, rendered
from submarine_engine.bundle.loading import Loading, free_name
from submarine_engine.bundle.maincell import MainCell
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.plan import Plan
from submarine_engine.bundle.script import Script
from submarine_engine.bundle.statements import Statement
from submarine_engine.bundle.text import Lines

VALUES = "Values from the notebook"

_HEADER = (
    "# Written by Submarine; each section says which cell of the notebook it comes from.",
    "# To run it: python {entry}",
)


def compose(
    plan: Plan, executed: Executed, main: MainCell, entry: str, local: Collection[str] = ()
) -> Script:
    """Write the script.

    Parameters
    ----------
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
    def __init__(self, plan: Plan, executed: Executed, main: MainCell, script: Script) -> None:
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
        if self.plan.head:
            self.script.section(settings.TITLE)
            self.script.own(self.plan.head)
        self.states: list[str] = []
        self.imports(local)
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

    def imports(self, local: Collection[str]) -> None:
        futures = [
            Import("__future__", name, position=position, line=self.line(position))
            for name, position in sorted(self.executed.futures().items())
        ]
        ours = [*(self.loading.imports() if self.loads else ())]
        if self.main.awaits:
            ours.append(_asyncio(self.asyncio))
        every = [*futures, *self.plan.imports, *ours]
        if self.plan.states:
            name, keys = self.plan.states
            more, self.states = settings.states_in(keys, name, self.plan.imports, self.plan.names)
            every += more
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
        self.script.take(cell, lines)
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


def _asyncio(name: str) -> Import:
    return Import("asyncio", asname=None if name == "asyncio" else name)


def _apart(upper: Statement, lower: Statement) -> bool:
    """Return whether two empty lines belong between neighbours; not so below a mere stub."""
    named = (*FUNCTIONS, ast.ClassDef)
    stub = isinstance(upper.node, named) and upper.first == upper.last
    return not stub and (isinstance(upper.node, named) or isinstance(lower.node, named))
