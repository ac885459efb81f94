"""What a notebook's classes and functions hold besides their source: counters, caches, defaults."""

from __future__ import annotations

import ast
import types
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from contextlib import suppress

from submarine_runtime.home import is_data

from submarine_engine.bundle.bindings import FUNCTIONS
from submarine_engine.bundle.constants import NotConstantError, assigned_names, constant, same

_MISSING = object()


def attributes(value: object, node: ast.stmt) -> Iterator[tuple[str, object, bool]]:
    """Yield the data that a class or function of the notebook holds.

    Parameters
    ----------
    node
        The statement that defines it.

    Yields
    ------
    tuple
        The attribute's name, its value, and whether the definition itself makes it so.
    """
    if isinstance(value, type) and isinstance(node, ast.ClassDef):
        if type(value) in (type, ABCMeta) and not issubclass(value, tuple):
            yield from _of_class(value, node)
    elif isinstance(value, types.FunctionType) and isinstance(node, FUNCTIONS):
        yield from _of_function(value, node)


def _of_class(kind: type, node: ast.ClassDef) -> Iterator[tuple[str, object, bool]]:
    said: dict[str, ast.stmt] = {}
    for statement in node.body:
        for name in assigned_names(statement) or ():
            said[name] = statement
    for name, value in list(vars(kind).items()):
        if not is_data(name, value):
            continue
        if name not in said:
            yield name, value, False
            continue
        first = _constant(said[name], name)
        if first is not _MISSING:
            yield name, value, same(first, value)


def _constant(statement: ast.stmt, name: str) -> object:
    try:
        return constant(statement, name)
    except NotConstantError:
        return _MISSING


def _of_function(
    function: types.FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[tuple[str, object, bool]]:
    if function.__closure__ or node.decorator_list:
        return  # what a decorator made of it is not what its source says
    for name, value in list(vars(function).items()):
        if is_data(name, value):
            yield name, value, False
    said = node.args
    given: Mapping[str, object] = dict(_defaults(said.defaults))
    if function.__defaults__ and len(given) == len(said.defaults):
        yield (
            "__defaults__",
            function.__defaults__,
            same(tuple(given.values()), function.__defaults__),
        )
    named = {
        argument.arg: default
        for argument, default in zip(said.kwonlyargs, said.kw_defaults, strict=True)
        if default is not None
    }
    given = dict(zip(named, (value for _, value in _defaults(list(named.values()))), strict=False))
    if function.__kwdefaults__ and len(given) == len(named):
        yield "__kwdefaults__", function.__kwdefaults__, same(given, function.__kwdefaults__)


def _defaults(nodes: list[ast.expr]) -> Iterator[tuple[str, object]]:
    """Yield the values of literal defaults, numbered; it ends before one that is none."""
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        for number, node in enumerate(nodes):
            yield str(number), ast.literal_eval(node)
