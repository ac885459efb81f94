"""The cell that becomes the job: its definitions lead, the rest runs where the script is run.

With ``await`` at its top level it becomes a coroutine function.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.source import (
    FUNCTIONS,
    Lines,
    bound_names,
    code_lines,
    outgrows,
    shifted,
    single_spaced,
    without_semicolon,
)
from submarine_engine.bundle.statements import Parsed, Reads, Statement, parse, read_statements
from submarine_engine.bundle.values import assigned_names, is_constant
from submarine_engine.errors import BundleError, CellSyntaxError

# A main cell with ``await`` at its top level, as a coroutine function of the script.
#
# ``python script.py`` knows no such ``await``. A function that declares all of the cell's names
# global means the same: one event loop for the whole cell, and its names are the script's own.


COROUTINE = "__main__"
"""What the function is called, which no notebook does; `main` is what most call theirs."""

_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
_WIDTH = 84

Edit = tuple[int, int, int, str]
"""A line of the cell, columns (in bytes) from and to, and the text that is to stand there."""


def awaits(node: ast.stmt) -> bool:
    """Return whether the statement `node` of the outermost scope awaits there, as it runs."""
    waiting = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(
        isinstance(inner, waiting) or (isinstance(inner, ast.comprehension) and inner.is_async)
        for inner in _same_scope([node])
    )


def head(statements: Sequence[ast.stmt]) -> list[str]:
    """Return the lines that begin the function; names that `statements` bind are global in it."""
    handled = (node for node in _same_scope(statements) if isinstance(node, ast.ExceptHandler))
    bound = {*bound_names(statements), *(node.name for node in handled if node.name)}
    lines = [f"async def {COROUTINE}():"]
    line = ""
    for name in sorted(bound):
        if line and len(line) + len(name) + 2 > _WIDTH:
            lines.append(f"    {line}")
            line = ""
        line = f"{line}, {name}" if line else f"global {name}"
    return [*lines, f"    {line}"] if line else lines


def edited(lines: Lines, statements: Sequence[ast.stmt], where: str) -> Lines:
    """Return the lines of the cell as they stand in the function.

    Parameters
    ----------
    lines
        The cell's.
    statements
        Those of the cell, in their order.
    where
        The cell, for errors.

    Raises
    ------
    CellSyntaxError
        There is a statement that no function can hold.
    """
    texts = dict(lines)
    for number, start, end, text in sorted(_edits(statements, where), reverse=True):
        line = texts[number].encode("utf-8", "surrogatepass")
        changed = line[:start] + text.encode() + line[end:]
        texts[number] = changed.decode("utf-8", "surrogatepass")
    return [(number, texts[number] if number else line) for number, line in lines]


def tail(last: ast.stmt, bound: set[str], asyncio: str) -> tuple[list[str], list[str]]:
    """Return the lines that end the function, and those that run it.

    What a cell's last statement assigns or merely shows is assigned where the script is run, too:
    by that a job knows the cell's value.

    Parameters
    ----------
    last
        The cell's last statement.
    bound
        The names that the function's statements bind.
    asyncio
        What that module is called in the script.
    """
    call = f"{asyncio}.run({COROUTINE}())"
    if isinstance(last, ast.Expr):
        items = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        names = [item.id for item in items if isinstance(item, ast.Name)]
        if names and len(names) == len(items) and bound.issuperset(names):
            return [], [f"{', '.join(names)} = {call}"]
        return [], [call]
    names = [] if hasattr(last, "body") else _assigned(last)
    if not names:
        return [], [call]
    return [f"    return {', '.join(names)}"], [f"{', '.join(names)} = {call}"]


def _edits(statements: Sequence[ast.stmt], where: str) -> Iterator[Edit]:
    last = statements[-1]
    if isinstance(last, ast.Expr):
        yield last.lineno, last.col_offset, last.col_offset, "return "
    for node in _same_scope(statements):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            # No function may annotate a name that it declares global.
            annotation, target = node.annotation, node.target
            if node.lineno != annotation.end_lineno or not node.simple:
                raise _refused(node, where, "annotates a name", "leave the annotation out")
            end = annotation.end_col_offset or 0
            if node.value is None:
                yield node.lineno, node.col_offset, end, "pass"
            else:
                yield node.lineno, target.end_col_offset or 0, end, ""
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            raise _refused(node, where, "imports all names", "move that line to the cell's top")


def _refused(node: ast.stmt, where: str, does: str, fix: str) -> CellSyntaxError:
    return CellSyntaxError(
        f"`{ast.unparse(node)}` {does} below an `await`, which a job cannot run",
        where=f"{where}, line {node.lineno}",
        fix=f"{fix}, or into a cell above",
    )


def _assigned(last: ast.stmt) -> list[str]:
    if isinstance(last, ast.Assign):
        targets: list[ast.expr] = last.targets
    elif isinstance(last, (ast.AugAssign, ast.AnnAssign)) and last.value:
        targets = [last.target]
    else:
        return []
    return list(dict.fromkeys(name for target in targets for name in _names(target)))


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Starred):
        return _names(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for item in target.elts for name in _names(item)]
    return []


def _same_scope(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield what is evaluated in the scope of `nodes`: not the bodies of functions and classes."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, _SCOPES):
            body = node.body if isinstance(node.body, list) else [node.body]
            inner = [child for child in inner if child not in body]
        todo += inner


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
        """Return what the rest reads; `lazy` as for `read_statements`."""
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
        begin = head(nodes)
        end, run = tail(nodes[-1], bound, asyncio)
        if outgrows(lead + lines, _INDENT + len("return "), fixed):
            begin.append(" " * _INDENT + "# fmt: off")
        lines = lead + edited(lines, nodes, self.cell.label)
        return [
            *((0, line) for line in begin),
            *single_spaced(shifted(lines, _INDENT, fixed), fixed),
            *((0, line) for line in (*end, "", "", GUARD)),
            *((0, " " * _INDENT + line) for line in run),
        ]

    def comments(self, index: int) -> Lines:
        """Return all the comments between the leading statement `index` and the one before it.

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
        if cell.dropped:
            lines = "; ".join(f"`{line.text}`: {line.reason}" for line in cell.dropped)
            raise BundleError(
                f"nothing in it can run in a job ({lines})",
                where=cell.label,
                fix="run the cell without %%submarine",
            )
        raise BundleError(
            "there is nothing to run",
            where=cell.label,
            fix="write the code of the job below %%submarine",
        )
    leading = 0
    for index, statement in enumerate(parsed.statements):
        definition = isinstance(statement.node, _DEFINITIONS)
        leads = definition or _is_constant(statement) or _is_text(statement)
        if not leads or statement.guarded or not statement.alone or awaits(statement.node):
            break
        leading = index + 1 if definition else leading
    rest = parsed.statements[leading:]
    return MainCell(cell, parsed, leading, any(awaits(one.node) for one in rest))


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


def too_deep(cell: Cell) -> CellSyntaxError:
    """Return the error of a `cell` whose code is nested too deeply to be analysed."""
    return CellSyntaxError(
        "the code is nested too deeply to be analysed",
        where=cell.label,
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
        what = "`await` at the top level cannot stand in a part of a script"
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
