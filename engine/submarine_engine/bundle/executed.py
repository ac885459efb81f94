"""What took effect in the notebook, in its order: statements, patches, and imports.

Cells are parsed only where a quick look (`may_bind`) leaves it open that they bind a needed name:
to parse 1,000 cells for each job would take too long.
"""

from __future__ import annotations

import ast
import copy
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.source import FUNCTIONS, LINE, Kind
from submarine_engine.bundle.statements import Parsed, Statement, parse

# Quick looks at a cell: what it may bind. To parse 1,000 cells for each job would take too long.
#
# A look may find what is not so, and then the cell is parsed in vain; it never misses what is so.


_STAR = re.compile(r"\bimport\s*\(?\s*\*")

_KEYWORDS = ("def", "class", "type", "import")  # behind these any name is bound
_WORD = ("_", ".")
_OPERATORS = "+-*/%@&^|<>"


def may_bind(source: str, name: str) -> bool:
    """Return whether `source` may bind `name`."""
    if not name.isascii():
        return not source.isascii()
    end = 0
    while (start := source.find(name, end)) >= 0:
        end = start + len(name)
        if _is_word(source, start, end) and _may_bind_at(source, start, end):
            return True
    return False


_MAY_FOLLOW = (".", "[", " ", "\\", ")", ",")
_CALL = re.compile(r"(?:\.\w+)+\(")


def may_add(source: str, name: str) -> bool:
    """Return whether `source` may set attributes or items of `name`, or add or register to it."""
    if not name.isascii() or "setattr" in source:
        return True
    end = 0
    while (start := source.find(name, end)) >= 0:
        end = start + len(name)
        if source[end : end + 1] in _MAY_FOLLOW and _is_word(source, start, end):
            call = _CALL.match(source, end)  # most of what is said of a module: ``math.sqrt(…)``
            if call is None or call[0].endswith(".register("):
                return True
    return False


def may_import_all(source: str) -> bool:
    """Return whether `source` may have a star import."""
    return "import" in source and "*" in source and _STAR.search(source) is not None


def _is_word(source: str, start: int, end: int) -> bool:
    before, after = source[start - 1 : start], source[end : end + 1]
    return not (before.isalnum() or before in _WORD or after.isalnum() or after == "_")


def _may_bind_at(source: str, start: int, end: int) -> bool:
    words = source[max(0, start - 20) : start].split()
    if words and words[-1] in _KEYWORDS:
        return True
    rest = source[end : end + 8].lstrip(" \t")
    if rest[:1] in ("(", "["):
        return False
    if rest[:1] == ".":
        line = source[source.rfind("\n", 0, start) + 1 : start]
        return "import" in line or (words[-1:] == [","] or words[-1:] == ["\\"])
    operator = rest[: len(rest) - len(rest.lstrip(_OPERATORS))]
    return not operator or rest[len(operator) :][:1] == "=" or operator == "|"


# What took effect in the notebook, in the order in which it did.


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
        self.left_out: dict[Position, tuple[ast.expr, ...]] = {}
        """Decorators that do not run again."""
        self._undecorated: dict[Position, Statement] = {}

    def parsed(self, index: int) -> Parsed:
        """Return the statements of the cell at `index`, whether they took effect or not."""
        return parse(self.cells[index].source)

    def statement(self, position: Position) -> Statement:
        """Return the statement at `position`."""
        if position in self._undecorated:
            return self._undecorated[position]
        return self.parsed(position[0]).statements[position[1]]

    def leave_out(self, position: Position, decorators: Sequence[ast.expr]) -> None:
        """Have the function or class at `position` defined without some of its decorators."""
        statement = self.statement(position)
        node = copy.copy(statement.node)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            node.decorator_list = [one for one in node.decorator_list if one not in decorators]
        self.left_out[position] = (*self.left_out.get(position, ()), *decorators)
        self._undecorated[position] = Statement(
            node, statement.first, statement.last, statement.comment, statement.binds
        )

    def decorate(self) -> None:
        """Have all decorators run again."""
        self.left_out.clear()
        self._undecorated.clear()

    def cell(self, position: Position) -> Cell:
        """Return the cell of `position`."""
        return self.cells[position[0]]

    def effective(self, index: int) -> list[tuple[Position, Statement]]:
        """Return those statements of the cell at `index` that took effect."""
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
        """Yield the statements that bind or delete `name`, the last one first.

        Parameters
        ----------
        name
            The variable's.
        before
            Statements above this one alone; None for all.
        """
        for index in reversed(self._cells_with(name)):
            if (before is None or index <= before[0]) and may_bind(self._sources[index], name):
                for position, statement in reversed(self.effective(index)):
                    if name in statement.binds and (before is None or position < before):
                        yield position

    def next_binding(self, name: str, after: Position = (-1, 0)) -> Position | None:
        """Return the first statement that binds or deletes `name`, after `after`.

        Parameters
        ----------
        name
            The variable's.
        after
            A statement's; as it is, before all of them.
        """
        for index in self._cells_with(name):
            if index >= after[0] and may_bind(self._sources[index], name):
                for position, statement in self.effective(index):
                    if position > after and name in statement.binds:
                        return position
        return None

    def imports_below(self, name: str, before: Position | None = None) -> Iterator[Position]:
        """Yield the statements that are ``import name.module``, the last one first.

        Parameters
        ----------
        name
            The package's, which they bind.
        before
            Statements above this one alone; None for all.
        """
        dotted = re.compile(rf"import\b[^\n]*\b{name}\s*\.")
        for index in reversed(self._cells_with(name)):
            if not dotted.search(self._sources[index]):
                continue
            for position, statement in reversed(self.effective(index)):
                found = isinstance(statement.node, ast.Import) and name in statement.binds
                if found and (before is None or position < before):
                    yield position

    def stars(self, before: Position | None = None) -> Iterator[tuple[Position, str]]:
        """Yield the star imports with their modules, the last one first.

        Parameters
        ----------
        before
            Statements above this one alone; None for all.
        """
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

    def additions(self, name: str, after: Position, *, rebound: bool = False) -> Iterator[Position]:
        """Yield the statements that add to what `name` means: ``Net.forward = forward``.

        Those are assignments to its attributes and items, ``setattr``, what it registers, and what
        a decorator adds to it (``@add_to_class(Net)``, ``@patch`` of fastcore).

        Parameters
        ----------
        name
            The variable's.
        after
            The statement that gave it this meaning: later ones alone are looked at.
        rebound
            Whether to go on where the name is bound anew.
        """
        end = None if rebound else self.next_binding(name, after)
        until = end or (len(self.cells), 0)
        for index in self._cells_with(name):
            if after[0] <= index <= until[0] and may_add(self._sources[index], name):
                for position, statement in self.effective(index):
                    if after < position < until and _adds_to(statement.node, name):
                        yield position

    def used_after(self, name: str, position: Position, *, later: bool = False) -> bool:
        """Return whether a statement after `position` used `name` as it ran.

        With `later`, also where it defined a function that uses it.

        Parameters
        ----------
        name
            The variable's.
        position
            A statement's.
        later
            Whether a function that it defined, and that uses the name, counts too.
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
    """Return the module that an import is from.

    Parameters
    ----------
    node
        The import.
    package
        What it is relative to where it begins with dots; empty for no package.
    """
    if not node.level:
        return node.module or ""
    parents = package.split(".")[: 1 - node.level or None]
    return ".".join([*filter(None, parents), *([node.module] if node.module else [])])


def _adds_to(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(part, (ast.Attribute, ast.Subscript))
            and isinstance(part.ctx, ast.Store)
            and _root(part) == name
            for target in targets
            for part in ast.walk(target)
        )
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


# Import statements of many cells, merged as a person would have written them once.


@dataclass(frozen=True, slots=True)
class Import:
    """One name of an import statement.

    Parameters
    ----------
    module, name, asname
        ``from module import name as asname``; without `name`, ``import module as asname``.
    position, line
        The statement and the line that it was imported at last; None for one of our own.
    comment
        What stands behind it on its line.
    """

    module: str
    name: str | None = None
    asname: str | None = None
    position: Position | None = None
    line: int = 0
    comment: str = ""

    @property
    def binds(self) -> str:
        """The name that it binds."""
        return self.asname or self.name or self.module.partition(".")[0]


def imports_of(
    statement: Statement, position: Position, text: str, package: str = ""
) -> Iterator[Import]:
    """Yield the imports of an import statement, whose last line is `text`.

    Parameters
    ----------
    statement
        An ``import``, or ``from … import``.
    position
        Its place, which each import keeps.
    text
        Its last line as it was typed, for the comment behind it.
    package
        What relative imports are relative to; empty for no package.
    """
    node = statement.node
    assert isinstance(node, (ast.Import, ast.ImportFrom))  # noqa: S101 - for the type checker
    comment = text.encode()[node.end_col_offset or 0 :].decode().strip(" ;")
    comment = comment if statement.alone and comment.startswith("#") else ""
    for alias in node.names:
        asname = alias.asname if alias.asname != alias.name or "." in alias.name else None
        if isinstance(node, ast.Import):
            yield Import(alias.name, None, asname, position, alias.lineno, comment)
        else:
            module = absolute(node, package)
            yield Import(module, alias.name, asname, position, alias.lineno, comment)


def importable(value: object) -> tuple[str, str] | None:
    """Return the module and the qualified name that `value` can be imported by; None if it cannot.

    What is defined in ``__main__`` cannot: there is none in the job but the script.
    """
    module = getattr(value, "__module__", None)
    qualname = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__":
        return None
    found: object = sys.modules.get(module)
    for step in qualname.split("."):
        found = getattr(found, step, None)
    return (module, qualname) if found is value else None


def import_module(module: str, name: str) -> Import:
    """Return the import that binds `name` to a module."""
    if "." not in module:
        return Import(module, None, None if module == name else name)
    parent, _, last = module.rpartition(".")
    return Import(parent, last, None if last == name else name)


def rendered(
    imports: Iterable[Import], local: Collection[str] = ()
) -> list[tuple[list[str], Import | None]]:
    """Return the import statements, each with its lines and one of the imports that it is for.

    They stand in the order of isort: the future, the standard library, packages, and the modules
    `local` that lie beside the notebook; an empty line (for no import) between.
    """
    statements = sorted((_sort_key(group, local), group) for group in _grouped(imports))
    found: list[tuple[list[str], Import | None]] = []
    section = None
    for key, group in statements:
        if section is not None and key[0] != section:
            found.append(([""], None))
        section = key[0]
        found.append((_lines(group), group[0]))
    return found


def _grouped(imports: Iterable[Import]) -> Iterator[list[Import]]:
    groups: dict[tuple[object, ...], list[Import]] = {}
    for item in imports:
        # What is renamed stands on a line of its own.
        own = (item.name, item.asname) if item.asname or not item.name else ()
        group = groups.setdefault((item.module, item.name is None, item.name == "*", own), [])
        if item.name not in [other.name for other in group]:
            group.append(item)
    for group in groups.values():
        yield sorted(group, key=lambda item: _member_key(item.name or ""))


def _member_key(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _sort_key(group: list[Import], local: Collection[str]) -> tuple[object, ...]:
    first = group[0]
    top = first.module.partition(".")[0]
    if top == "__future__":
        section = 0
    elif top in local or not top:
        section = 3
    else:
        section = 1 if top in sys.stdlib_module_names else 2
    module = first.module
    asname = first.asname or ""
    return section, first.name is not None, module.lower(), module, first.name or "", asname


def _lines(group: list[Import]) -> list[str]:
    first = group[0]
    comments = "".join(dict.fromkeys(f"  {item.comment}" for item in group if item.comment))
    renamed = f" as {first.asname}" if first.asname else ""
    if first.name is None:
        line = f"import {first.module}{renamed}"
    else:
        names = [item.name or "" for item in group]
        line = f"from {first.module} import {', '.join(names)}{renamed}"
        if len(line) > LINE:
            start = f"from {first.module} import (" + comments
            return [start, *(f"    {name}{renamed}," for name in names), ")"]
    return [line + comments if len(line + comments) <= LINE else line]
