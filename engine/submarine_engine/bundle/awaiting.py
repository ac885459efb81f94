"""A main cell with ``await`` at its top level, as a coroutine function of the script.

``python script.py`` knows no such ``await``. A function that declares all of the cell's names
global means the same: one event loop for the whole cell, and its names are the script's own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from submarine_engine.bundle.bindings import FUNCTIONS, bound_names
from submarine_engine.bundle.text import Lines
from submarine_engine.errors import CellSyntaxError

COROUTINE = "__main__"
"""What the function is called, which no notebook does; `main` is what most call theirs."""

_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
_WIDTH = 84

Edit = tuple[int, int, int, str]
"""A line of the cell, columns (in bytes) from and to, and the text that is to stand there."""


def awaits(node: ast.stmt) -> bool:
    """Return whether a statement of the outermost scope awaits there, as it runs."""
    waiting = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(
        isinstance(inner, waiting) or (isinstance(inner, ast.comprehension) and inner.is_async)
        for inner in _same_scope([node])
    )


def head(statements: Sequence[ast.stmt]) -> list[str]:
    """Return the lines that begin the function."""
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
        f"`{ast.unparse(node)}` {does} below code that awaits, which no script can do",
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
