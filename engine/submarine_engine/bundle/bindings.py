"""Which names statements bind in the scope that they stand in, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Kind(IntEnum):
    """How a statement binds a name; where it does so in several ways, the highest counts."""

    DELETE = 0
    ASSIGN = 1
    IMPORT = 2
    DEFINE = 3


def bound_names(statements: Iterable[ast.AST]) -> dict[str, Kind]:
    """Return the names that `statements` bind in their own scope, in the order of the text.

    Bodies of functions and classes have scopes of their own; so have comprehensions, but for what
    ``:=`` binds in them. The name of an exception handler is unbound when the handler ends, and is
    left out. A star import binds what nobody can tell from here, and is left out as well.
    """
    names: dict[str, Kind] = {}
    for name, kind in _bindings(statements):
        names[name] = max(kind, names.get(name, kind))
    return names


def parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield the names of a function's parameters."""
    for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
        yield from (argument.arg for argument in group)
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield argument.arg


def scope_names(body: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return what is local to the body of a function, and what it declares global.

    The local names are without the parameters.
    """
    local, outer, enclosing = set(bound_names(body)), set(), set()
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Global):
            outer.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            enclosing.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            local.add(node.name)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(node)
    return local - outer - enclosing, outer


def _bindings(statements: Iterable[ast.AST]) -> Iterator[tuple[str, Kind]]:
    todo = list(statements)[::-1]
    while todo:
        node = todo.pop()
        yield from _own(node)
        todo += list(_same_scope(node))[::-1]


def _own(node: ast.AST) -> Iterator[tuple[str, Kind]]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id, Kind.ASSIGN if isinstance(node.ctx, ast.Store) else Kind.DELETE
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name, Kind.DEFINE
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((name, Kind.IMPORT) for name in imported_names(node))
    elif name := _captured_by_pattern(node):
        yield name, Kind.ASSIGN
    elif type(node).__name__ == "TypeAlias":
        yield node.name.id, Kind.DEFINE  # type: ignore[attr-defined]


def imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the names that an import statement binds, but for those of a star."""
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if node.module == "__future__":
        return []
    return [alias.asname or alias.name for alias in node.names if alias.name != "*"]


def _captured_by_pattern(node: ast.AST) -> str | None:
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of `node` whose bindings are in the scope that `node` stands in."""
    left_out = {"type_params"}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        left_out.add("body")
    elif isinstance(node, ast.comprehension) or (
        isinstance(node, ast.AnnAssign) and not node.value
    ):
        left_out.add("target")
    for field, value in ast.iter_fields(node):
        if field in left_out:
            continue
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))
