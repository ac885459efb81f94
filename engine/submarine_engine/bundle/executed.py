"""What took effect in the notebook, in the order in which it did."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from submarine_engine.bundle.bindings import FUNCTIONS, Kind
from submarine_engine.bundle.glance import may_add, may_bind, may_import_all
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.statements import Parsed, Statement, parse

Position = tuple[int, int]
"""A statement that took effect: which cell in order of execution, which statement in it."""


class Executed:
    """The statements that took effect, found by the names that they bind.

    Cells are parsed only where a name that is asked for may be bound in them.

    Parameters
    ----------
    cells
        In order of execution.
    leading
        How many statements of the last cell count; None for all.
    package
        What relative imports are relative to: the ``__package__`` of a program.
    """

    def __init__(
        self, cells: Sequence[Cell], leading: int | None = None, package: str = ""
    ) -> None:
        self.cells = cells
        self.package = package
        self._leading = leading
        self._sources = [cell.source for cell in cells]
        self._holding: dict[str, list[int]] = {}
        self._stars: list[int] | None = None
        self._last: dict[tuple[str, Position | None], Position | None] = {}

    def parsed(self, index: int) -> Parsed:
        """Return the statements of a cell, whether they took effect or not."""
        return parse(self.cells[index].source)

    def statement(self, position: Position) -> Statement:
        """Return the statement at `position`."""
        return self.parsed(position[0]).statements[position[1]]

    def cell(self, position: Position) -> Cell:
        """Return the cell of `position`."""
        return self.cells[position[0]]

    def effective(self, index: int) -> list[tuple[Position, Statement]]:
        """Return those statements of a cell that took effect."""
        executed = self.cells[index].executed
        statements = self.parsed(index).statements
        if self._leading is not None and index == len(self.cells) - 1:
            statements = statements[: self._leading]
        return [
            ((index, number), statement)
            for number, statement in enumerate(statements)
            if executed is None or (statement.node.end_lineno or 0) <= executed
        ]

    def last(self, name: str, before: Position | None = None) -> Position | None:
        """Return the last statement that bound or deleted `name`, before `before`."""
        key = (name, before)
        if key not in self._last:
            self._last[key] = next(self.bindings(name, before), None)
        return self._last[key]

    def bindings(self, name: str, before: Position | None = None) -> Iterator[Position]:
        """Yield the statements that bind or delete `name`, the last one first."""
        for index in reversed(self._cells_with(name)):
            if (before is None or index <= before[0]) and may_bind(self._sources[index], name):
                for position, statement in reversed(self.effective(index)):
                    if name in statement.binds and (before is None or position < before):
                        yield position

    def imports_below(self, name: str, before: Position | None = None) -> Iterator[Position]:
        """Yield the statements that are ``import name.module``, the last one first."""
        dotted = re.compile(rf"import\b[^\n]*\b{name}\s*\.")
        for index in reversed(self._cells_with(name)):
            if not dotted.search(self._sources[index]):
                continue
            for position, statement in reversed(self.effective(index)):
                found = isinstance(statement.node, ast.Import) and name in statement.binds
                if found and (before is None or position < before):
                    yield position

    def stars(self, before: Position | None = None) -> Iterator[tuple[Position, str]]:
        """Yield the star imports with their modules, the last one first."""
        if self._stars is None:
            self._stars = [i for i, source in enumerate(self._sources) if may_import_all(source)]
        for index in reversed(self._stars):
            for position, statement in reversed(self.effective(index)):
                node = statement.node
                if not isinstance(node, ast.ImportFrom) or node.names[0].name != "*":
                    continue
                if before is None or position < before:
                    yield position, absolute(node, self.package)

    def futures(self) -> dict[str, Position]:
        """Return the names imported from ``__future__``: they hold for all later cells."""
        found: dict[str, Position] = {}
        for index in self._cells_with("__future__"):
            for position, statement in self.effective(index):
                node = statement.node
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    found |= {alias.name: position for alias in node.names}
        return found

    def additions(self, name: str, after: Position) -> Iterator[Position]:
        """Yield the statements that add to what `name` means: ``Net.forward = forward``.

        Those are assignments to its attributes and items, ``setattr``, what it registers, and what
        a decorator adds to it (``@add_to_class(Net)``, ``@patch`` of fastcore); until the name is
        bound anew.
        """
        newer = [place for place in self.bindings(name) if place > after]
        until = min(newer, default=(len(self.cells), 0))
        for index in self._cells_with(name):
            if after[0] <= index <= until[0] and may_add(self._sources[index], name):
                for position, statement in self.effective(index):
                    if after < position < until and _adds_to(statement.node, name):
                        yield position

    def used_after(self, name: str, position: Position, *, later: bool = False) -> bool:
        """Return whether a statement after `position` used `name` as it ran.

        With `later`, also where it defined a function that uses it.
        """
        return any(
            name in statement.reads(lazy=False).now
            or (later and any(name in uses for uses in statement.reads(lazy=False).later.values()))
            for index in self._cells_with(name)
            if index >= position[0]
            for place, statement in self.effective(index)
            if position < place
        )

    def _cells_with(self, text: str) -> list[int]:
        if not text.isascii():
            return [index for index, source in enumerate(self._sources) if not source.isascii()]
        if text not in self._holding:
            self._holding[text] = [i for i, source in enumerate(self._sources) if text in source]
        return self._holding[text]

    def kind(self, position: Position, name: str) -> Kind:
        """Return how the statement at `position` binds `name`."""
        return self.statement(position).binds[name]


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the module that an import is from."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")[: 1 - node.level or None]
    return ".".join([*filter(None, parents), *([node.module] if node.module else [])])


def _adds_to(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(_root(target) == name and not isinstance(target, ast.Name) for target in targets)
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return any(
            _registers(decorator, name)
            or _is_given(decorator, name)
            or _patches(decorator, node, name)
            for decorator in node.decorator_list
        )
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Name) and call.func.id == "setattr" and call.args:
            return _root(call.args[0]) == name
        return _registers(call, name)
    return False


def _is_given(decorator: ast.expr, name: str) -> bool:
    """Return whether `name` itself is an argument: ``@add_to_class(Net)``."""
    if not isinstance(decorator, ast.Call):
        return False
    if isinstance(decorator.func, ast.Attribute) and decorator.func.attr == "register":
        return False  # it is added to what registers it
    given = [*decorator.args, *(keyword.value for keyword in decorator.keywords)]
    return any(isinstance(value, ast.Name) and value.id == name for value in given)


def _patches(decorator: ast.expr, node: ast.stmt, name: str) -> bool:
    """Return whether it is fastcore's: ``@patch`` above ``def forward(self: Net)``."""
    words = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    if words != "patch" or not isinstance(node, FUNCTIONS):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args]
    return bool(arguments) and _root(arguments[0].annotation or ast.Constant(None)) == name


def _registers(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Attribute) and node.attr == "register" and _root(node) == name


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
