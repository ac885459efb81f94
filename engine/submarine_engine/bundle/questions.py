"""Calls that ask a person: refused before the job is submitted where nobody could answer them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from submarine_engine.bundle.imports import Import
from submarine_engine.bundle.needs import Needs
from submarine_engine.bundle.origins import Builtin, Imported
from submarine_engine.bundle.statements import Statement
from submarine_engine.errors import BundleError

_ANSWER = "ask in the notebook, in a cell above, and use the answer here"
_LOOK = "leave it out, or debug that code in the notebook: without %%submarine it stops there"
_ASKS = {
    "builtins.input": _ANSWER,
    "getpass.getpass": _ANSWER,
    "builtins.breakpoint": _LOOK,
    "pdb.set_trace": _LOOK,
    "pdb.post_mortem": _LOOK,
    "pdb.pm": _LOOK,
    "ipdb.set_trace": _LOOK,
    "IPython.embed": _LOOK,
    "IPython.core.debugger.set_trace": _LOOK,
    "code.interact": _LOOK,
}


def refuse_questions(needs: Needs, rest: Sequence[Statement], *, answered: bool) -> None:
    """Raise for calls that ask a person, in the main cell and in the definitions that it needs.

    Parameters
    ----------
    rest
        The statements that the main cell runs.
    answered
        Whether somebody waits for the job and is asked there: a debugger is refused all the same.

    Raises
    ------
    BundleError
        There are such calls; it names each with its cell and line.
    """
    executed = needs.origins.executed
    statements = [(executed.cell(at), executed.statement(at)) for at in sorted(needs.sources)]
    statements += [(needs.cell, statement) for statement in rest]
    own = _imported([statement.node for statement in rest])
    found = dict.fromkeys(
        (typed, fix, f"{cell.label}, line {line}")
        for cell, statement in statements
        for typed, fix, line in _questions(needs, statement, own)
        if not (answered and fix == _ANSWER)
    )
    if not found:
        return
    (first, fix, where), *others = found
    what = f"`{first}` asks a person, and a job has nobody to ask"
    if others:
        listed = ", ".join(f"`{typed}` ({place})" for typed, _, place in others)
        what += f"; so {'does' if len(others) == 1 else 'do'} {listed}"
    raise BundleError(what, where=where, fix=fix)


def _questions(
    needs: Needs, statement: Statement, own: Mapping[str, Import]
) -> Iterator[tuple[str, str, int]]:
    """Yield the calls in a statement that ask: as typed, the way out, and the line.

    `own` are the imports of what the main cell runs.
    """
    calls = [node for node in ast.walk(statement.node) if isinstance(node, ast.Call)]
    if not calls:
        return
    reads = statement.reads(lazy=needs.lazy)
    of_module = set(reads.now).union(*reads.later.values())
    local = _imported([statement.node])
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        typed = _dotted(call.func)
        root, dot, below = typed.partition(".")
        if root not in of_module:
            meant = _path(local.get(root))
        elif root in needs.main.maybe:
            meant = _path(own.get(root))
        else:
            meant = _meaning(needs, root)
        if fix := _ASKS.get(meant + dot + below):
            yield f"{typed}()", fix, call.lineno


def _meaning(needs: Needs, name: str) -> str:
    """Return the dotted name of what `name` is in the notebook; empty where it is its own."""
    origin = needs.origins.of(name)
    if isinstance(origin, Builtin):
        return f"builtins.{name}"
    return _path(origin.imports[0]) if isinstance(origin, Imported) else ""


def _path(item: Import | None) -> str:
    if item is None:
        return ""
    if item.name is not None:
        return f"{item.module}.{item.name}"
    return item.module if item.asname else item.module.partition(".")[0]


def _imported(nodes: Sequence[ast.stmt]) -> dict[str, Import]:
    """Return the imports anywhere in statements by the names that they bind."""
    found = [
        Import(alias.name, None, alias.asname)
        if isinstance(node, ast.Import)
        else Import(node.module or "", alias.name, alias.asname)
        for statement in nodes
        for node in ast.walk(statement)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    return {item.binds: item for item in found}


def _dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for an expression that is nothing else; empty for all others."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""
