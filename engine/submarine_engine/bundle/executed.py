"""What took effect in the notebook, in the order in which it did."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from submarine_engine.bundle.bindings import FUNCTIONS, Kind
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.statements import Parsed, Statement, parse

Position = tuple[int, int]
"""A statement that took effect: which cell in order of execution, which statement in it."""

_BEFORE_NAME = ("def", "class", "type", "import")
_INSIDE = ("_", ".")
_STAR = re.compile(r"import\s*\(?\s*\*")
_OPERATORS = "+-*/%@&^|<>"


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
        for index in range(len(self.cells) - 1 if before is None else before[0], -1, -1):
            if index < len(self.cells) and may_bind(self.cells[index].source, name):
                for position, statement in reversed(self.effective(index)):
                    if name in statement.binds and (before is None or position < before):
                        yield position

    def stars(self, before: Position | None = None) -> Iterator[tuple[Position, str]]:
        """Yield the star imports with their modules, the last one first."""
        for index in range(len(self.cells) - 1, -1, -1):
            if not _STAR.search(self.cells[index].source):
                continue
            for position, statement in reversed(self.effective(index)):
                node = statement.node
                if not isinstance(node, ast.ImportFrom) or node.names[0].name != "*":
                    continue
                if before is None or position < before:
                    yield position, absolute(node, self.package)

    def futures(self) -> dict[str, Position]:
        """Return the names imported from ``__future__``: they hold for all later cells."""
        found: dict[str, Position] = {}
        for index, cell in enumerate(self.cells):
            if "__future__" in cell.source:
                for position, statement in self.effective(index):
                    node = statement.node
                    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                        found |= {alias.name: position for alias in node.names}
        return found

    def additions(self, name: str, after: Position) -> Iterator[Position]:
        """Yield the statements that add to what `name` means: ``Net.forward = forward``.

        Those are assignments to its attributes and items, ``setattr``, and what it registers.
        """
        for index in range(after[0], len(self.cells)):
            if may_add(self.cells[index].source, name):
                for position, statement in self.effective(index):
                    if position > after and _adds_to(statement.node, name):
                        yield position

    def kind(self, position: Position, name: str) -> Kind:
        """Return how the statement at `position` binds `name`."""
        return self.statement(position).binds[name]


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the module that an import is from."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")[: 1 - node.level or None]
    return ".".join([*filter(None, parents), *([node.module] if node.module else [])])


def may_bind(source: str, name: str) -> bool:
    """Return whether a quick look leaves it open that `source` binds `name`."""
    if not name.isascii():
        return not source.isascii()
    return any(_may_be_bound_at(source, *place) for place in _words(source, name))


def may_add(source: str, name: str) -> bool:
    """Return whether a quick look leaves it open that `source` adds to what `name` means."""
    if not name.isascii() or (name in source and "setattr" in source):
        return True
    return any(source[end : end + 1] in (".", "[") for _, end in _words(source, name))


def _words(source: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where `name` stands in `source` as a word, not behind a dot."""
    start = source.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = source[start - 1 : start], source[end : end + 1]
        if not (before.isalnum() or before in _INSIDE or after.isalnum() or after == "_"):
            yield start, end
        start = source.find(name, end)


def _may_be_bound_at(source: str, start: int, end: int) -> bool:
    words = source[max(0, start - 20) : start].split()
    if words and words[-1] in _BEFORE_NAME:
        return True
    rest = source[end : end + 8].lstrip(" ")
    if rest[:1] in ("(", "["):
        return False
    if rest[:1] == ".":
        return "import" in source[source.rfind("\n", 0, start) + 1 : start]
    operator = rest[: len(rest) - len(rest.lstrip(_OPERATORS))]
    return not operator or rest[len(operator) :][:1] == "=" or operator == "|"


def _adds_to(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(_root(target) == name and not isinstance(target, ast.Name) for target in targets)
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return any(_registers(decorator, name) for decorator in node.decorator_list)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if isinstance(call.func, ast.Name) and call.func.id == "setattr" and call.args:
            return _root(call.args[0]) == name
        return _registers(call, name)
    return False


def _registers(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Attribute) and node.attr == "register" and _root(node) == name


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
