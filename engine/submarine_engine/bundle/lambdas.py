"""The source of a lambda that no name leads to."""

from __future__ import annotations

import ast
import linecache
import types
import warnings
from collections.abc import Iterator

from submarine_engine.bundle.text import UNREADABLE


def lambda_source(function: types.FunctionType) -> str | None:
    """Return the source of a lambda as one expression on one line; None where it is not found.

    It is looked for in the file or cell that it was compiled from, as tracebacks do, and has to
    compile to the same code.
    """
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except UNREADABLE:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            text = ast.get_source_segment(source, node) or ""
            if "\n" in text:
                text = ast.unparse(node)
            if any(_alike(code, other) for other in _compiled(text)):
                return text
    return None


def _compiled(text: str) -> Iterator[types.CodeType]:
    constants = compile(text, "<lambda>", "eval", dont_inherit=True).co_consts
    yield from (constant for constant in constants if isinstance(constant, types.CodeType))


def _alike(one: types.CodeType, other: types.CodeType) -> bool:
    same = one.co_code == other.co_code and one.co_names == other.co_names
    constants = [code.co_consts for code in (one, other)]
    plain = [[c for c in each if not isinstance(c, types.CodeType)] for each in constants]
    return same and plain[0] == plain[1] and one.co_varnames == other.co_varnames
