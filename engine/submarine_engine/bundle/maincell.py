"""The cell that becomes the job: its definitions lead, the rest runs where the script is run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from submarine_engine.bundle import awaiting
from submarine_engine.bundle.bindings import FUNCTIONS
from submarine_engine.bundle.constants import assigned_names, is_constant
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.reader import read_statements
from submarine_engine.bundle.reads import Reads
from submarine_engine.bundle.statements import Parsed, Statement, parse
from submarine_engine.bundle.text import (
    Lines,
    code_lines,
    outgrows,
    shifted,
    single_spaced,
    without_semicolon,
)
from submarine_engine.errors import BundleError, CellSyntaxError

GUARD = 'if __name__ == "__main__":'

_INDENT = 4
_DEFINITIONS = (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class MainCell:
    """A main cell, taken apart.

    Parameters
    ----------
    leading
        How many of its statements lead it: imports, functions, classes, and constants among those.
    awaits
        Whether the rest awaits at the cell's top level.
    """

    cell: Cell
    parsed: Parsed
    leading: int
    awaits: bool = False

    @property
    def rest(self) -> Sequence[Statement]:
        """The statements that run only where the script is the program."""
        return self.parsed.statements[self.leading :]

    def reads(self, *, lazy: bool) -> Reads:
        """Return what the rest reads."""
        return read_statements([statement.node for statement in self.rest], lazy=lazy)

    def block(self, lead: Lines, asyncio: str) -> Lines:
        """Return `lead` and the rest as the closing block of a script, comments included.

        A line of our own has the number 0. `asyncio` is what that module is called in the script.
        """
        if not self.rest:
            return []
        first = self.parsed.statements[self.leading - 1].last + 1 if self.leading else 1
        lines = self.parsed.numbered(first, len(self.parsed.lines))
        last = self.rest[-1].node
        if self.rest[-1].alone or len(self.rest) > 1:
            lines = [
                (number, without_semicolon(line, last.end_col_offset or 0))
                if number == last.end_lineno
                else (number, line)
                for number, line in lines
            ]
        lines = _stripped(lines)
        fixed = self.parsed.fixed()
        if self.awaits:
            return self._coroutine(lead, lines, fixed, asyncio)
        if all(statement.guarded for statement in self.rest):
            return lead + lines
        lines = lead + lines
        head: Lines = [(0, GUARD)]
        if outgrows(lines, _INDENT, fixed):
            # No formatter breaks these lines anew, and so they stay those of the cell.
            head.append((0, " " * _INDENT + "# fmt: off"))
        return head + single_spaced(shifted(lines, _INDENT, fixed), fixed)

    def _coroutine(self, lead: Lines, lines: Lines, fixed: frozenset[int], asyncio: str) -> Lines:
        nodes = [statement.node for statement in self.rest]
        bound = {name for statement in self.rest for name in statement.binds}
        begin = awaiting.head(nodes)
        end, run = awaiting.tail(nodes[-1], bound, asyncio)
        if outgrows(lead + lines, _INDENT + len("return "), fixed):
            begin.append(" " * _INDENT + "# fmt: off")
        lines = lead + awaiting.edited(lines, nodes, self.cell.label)
        return [
            *((0, line) for line in begin),
            *single_spaced(shifted(lines, _INDENT, fixed), fixed),
            *((0, line) for line in (*end, "", "", GUARD)),
            *((0, " " * _INDENT + line) for line in run),
        ]

    def comments(self, index: int) -> Lines:
        """Return all the comments between a leading statement and the one before it.

        Empty lines between them and the statement are kept.
        """
        statement = self.parsed.statements[index]
        first = self.parsed.statements[index - 1].last + 1 if index else 1
        return _from_first(self.parsed.numbered(first, statement.first - 1))


def take_apart(cell: Cell) -> MainCell:
    """Return the main cell's parts.

    Raises
    ------
    CellSyntaxError
        It does not parse.
    BundleError
        There is nothing in it.
    """
    check_syntax(cell, may_await=True)
    parsed = parse(cell.source)
    if not parsed.statements:
        _refuse_too_deep(cell)
        raise BundleError(
            "there is nothing to run", where=cell.label, fix="write the training code into it"
        )
    leading = 0
    for index, statement in enumerate(parsed.statements):
        definition = isinstance(statement.node, _DEFINITIONS)
        leads = definition or _is_constant(statement) or _is_text(statement)
        if not leads or statement.guarded or not statement.alone or awaiting.awaits(statement.node):
            break
        leading = index + 1 if definition else leading
    rest = parsed.statements[leading:]
    return MainCell(cell, parsed, leading, any(awaiting.awaits(one.node) for one in rest))


def check_syntax(cell: Cell, *, may_await: bool = False) -> None:
    """Raise the `CellSyntaxError` of a cell that Python would refuse to run.

    Parameters
    ----------
    may_await
        Whether it may await at its top level, as a notebook's cell may.
    """
    try:
        _compile(cell.source, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if may_await else 0)
    except SyntaxError as error:
        _refuse(cell, error)
    except ValueError as error:
        raise CellSyntaxError(str(error), where=cell.label, fix="correct the cell") from None
    except (RecursionError, MemoryError):
        raise too_deep(cell) from None


def too_deep(cell: Cell, line: int = 0) -> CellSyntaxError:
    """Return the error of a cell whose code is nested too deeply to be analysed."""
    return CellSyntaxError(
        "it is nested too deeply to be read",
        where=f"{cell.label}, line {line}" if line else cell.label,
        fix="break the long expression into several statements",
    )


def _refuse_too_deep(cell: Cell) -> None:
    """Raise where a cell that Python compiles is too deep to be taken apart."""
    try:
        ast.parse(cell.source)
    except (RecursionError, MemoryError):
        raise too_deep(cell) from None


def _compile(source: str, flags: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notebook shows them where it runs the cell
        compile(source, "<cell>", "exec", flags, dont_inherit=True)


def _refuse(cell: Cell, error: SyntaxError) -> None:
    line = error.lineno or 1
    what, fix = error.msg, "correct the cell"
    try:
        _compile(cell.source, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        pass
    else:
        what = "`await` at the top level has no place in a part of a script"
        fix = "write `async def main(): …` and call asyncio.run(main())"
    lines = code_lines(cell.source)
    if 0 < line <= len(lines):
        text = lines[line - 1]
        what += f"\n    {text.strip()}"
        column = (error.offset or 0) - 1 - (len(text) - len(text.lstrip()))
        if column >= 0:
            what += f"\n    {' ' * column}^"
    raise CellSyntaxError(what, where=f"{cell.label}, line {line}", fix=fix) from None


def _is_constant(statement: Statement) -> bool:
    names = assigned_names(statement.node)
    return bool(names) and all(is_constant(statement.node, name) for name in names or ())


def _is_text(statement: Statement) -> bool:
    """Return whether it is a bare string, such as a docstring for the cell."""
    value = statement.node.value if isinstance(statement.node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _stripped(lines: Lines) -> Lines:
    """Return `lines` without empty ones at both ends."""
    return _from_first(_from_first(lines)[::-1])[::-1]


def _from_first(lines: Lines) -> Lines:
    """Return `lines` from the first that is not empty."""
    return list(dropwhile(lambda line: not line[1].strip(), lines))
