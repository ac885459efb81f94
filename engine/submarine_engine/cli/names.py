"""A name that a program lacks is said before anything is asked for, as it is for cells."""

from __future__ import annotations

import ast
import warnings

from submarine_engine.bundle.partcheck import missing_names
from submarine_engine.errors import UndefinedNameError

_MAKERS = frozenset({"builtins", "__builtins__", "exec", "globals", "locals", "vars", "_convert_"})
"""Who uses these may make names that nobody can read in the file."""


def check_names(source: bytes, label: str) -> None:
    """Refuse a file that reads a name which nobody defines.

    Parameters
    ----------
    source
        The file's content, which parses.
    label
        What people call the file.

    Raises
    ------
    UndefinedNameError
        At the line where the first such name is read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the job's own run shows them
        tree = ast.parse(source)
    if any(_makes_names(node) for node in ast.walk(tree)):
        return
    missing = missing_names(tree, {})
    if missing:
        (name, line), *others = missing
        listed = ", ".join(f"`{other}` (line {number})" for other, number in others)
        raise UndefinedNameError(
            f"`{name}` is not defined" + (f"; also missing: {listed}" if others else ""),
            where=f"{label}, line {line}",
            fix="define or import it there; a command is not looked into: --worker_launch_cmd",
        )


def _makes_names(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _MAKERS
    if isinstance(node, ast.Attribute):
        return node.attr in _MAKERS
    return isinstance(node, ast.Import) and any(alias.name in _MAKERS for alias in node.names)
