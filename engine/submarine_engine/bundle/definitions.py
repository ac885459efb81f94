"""What of a main cell is executed in the notebook, too: it defines, and has no other effect."""

from __future__ import annotations

import ast
import sys

from submarine_engine.bundle.bindings import FUNCTIONS
from submarine_engine.bundle.constants import assigned_names, is_constant
from submarine_engine.bundle.maincell import MainCell
from submarine_engine.bundle.model import Definition
from submarine_engine.bundle.statements import Statement

_DEFINITIONS = (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)


def definitions(main: MainCell) -> tuple[Definition, ...]:
    """Return the statements of the main cell that define what later cells need, in their order.

    Imports, functions and classes, and literal constants that one of them reads. One that reads, as
    it runs, a name that the cell computes (a default, a base class, a decorator) is left out: what
    it made comes home as a value.
    """
    lazy = sys.version_info >= (3, 14) or any(map(_asks_for_lazy, main.parsed.statements))
    computed: dict[str, int] = {}
    for statement in main.parsed.statements:
        for name in statement.binds:
            computed[name] = computed.get(name, 0) + 1
    found: list[tuple[Statement, Definition]] = []
    for statement in main.parsed.statements:
        if not (_defines(statement) and statement.alone):
            continue
        if any(name in computed for name in statement.reads(lazy=lazy).now):
            continue
        lines = main.parsed.text(statement)
        lines = [line for line in lines if line[0] >= statement.first]
        source = "\n".join(line for _, line in lines)
        names = tuple(statement.binds)
        found.append((statement, Definition(line=statement.first, source=source, names=names)))
        for name in names:
            computed[name] -= 1
            if not computed[name]:
                del computed[name]
    read = {name for one, _ in found for name in one.reads(lazy=lazy).now}
    return tuple(
        definition
        for one, definition in found
        if isinstance(one.node, _DEFINITIONS) or read.intersection(definition.names)
    )


def _defines(statement: Statement) -> bool:
    if isinstance(statement.node, _DEFINITIONS):
        return True
    names = assigned_names(statement.node)
    return bool(names) and all(is_constant(statement.node, name) for name in names or ())


def _asks_for_lazy(statement: Statement) -> bool:
    node = statement.node
    if not isinstance(node, ast.ImportFrom) or node.module != "__future__":
        return False
    return any(alias.name == "annotations" for alias in node.names)
