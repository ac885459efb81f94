"""The calls of ``get_ipython()`` in code, as IPython's transformer makes them."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IPythonCall:
    """What a call of ``get_ipython()`` asks for.

    Parameters
    ----------
    method
        ``magic``, or for the shell ``system`` and ``getoutput``.
    magic
        The magic's name; empty for the shell.
    text
        The rest of the line.
    """

    method: str
    magic: str
    text: str

    @property
    def typed(self) -> str:
        """How a user types it."""
        if self.method == "magic":
            return f"%{self.magic} {self.text}".strip()
        return f"!{self.text}"


class KnownNames:
    """Names that have a value: in the notebook, or by the code of `tree` itself."""

    def __init__(self, outer: Container[str], tree: ast.AST) -> None:
        self.outer = outer
        self.own = set(_bound(tree))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outer


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements in `tree`."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                yield body


def ipython_calls(statement: ast.stmt) -> Iterator[tuple[ast.Call, IPythonCall]]:
    """Yield the calls on one line in `statement`, but not those of statements inside it."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call) and node.lineno == node.end_lineno:
            call = _ipython_call(node)
            if call is not None:
                yield node, call
                continue
        todo += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))
        ]


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _ipython_call(node: ast.Call) -> IPythonCall | None:
    function = node.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Call):
        return None
    if getattr(function.value.func, "id", "") != "get_ipython":
        return None
    words = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
    if node.keywords or len(words) != len(node.args) or not words:
        return None
    return _named(function.attr, words)


def _named(method: str, words: list[str]) -> IPythonCall | None:
    if method in ("system", "getoutput") and len(words) == 1:
        return IPythonCall(method, "", words[0])
    if method == "run_line_magic":
        return IPythonCall("magic", words[0].lstrip("%"), " ".join(words[1:]))
    if method == "magic" and len(words) == 1:
        name, _, line = words[0].partition(" ")
        return IPythonCall("magic", name.lstrip("%"), line.strip())
    return None
