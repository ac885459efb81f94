"""Whoever reads a public function's docstring learns of each of its parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "engine/submarine_engine",
    ROOT / "engine/submarine_runtime",
    ROOT / "jupyter_ext/submarine_jupyter",
    ROOT / "kernel/submarine_kernel",
    ROOT / "magics/submarine_magics",
    ROOT / "zeppelin_interpreter/submarine_zeppelin",
]
CONTRACT = ROOT / "engine/submarine_engine/testing/contract"
"""Tests, whose parameters are fixtures."""

PLAIN = {"ABC", "Enum", "Exception", "Generic", "NamedTuple", "Protocol", "TypedDict", "object"}
"""Bases that declare no method whose words a class of ours could rely on."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Trees = dict[Path, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    files = chain.from_iterable(package.rglob("*.py") for package in PACKAGES)
    return {file: ast.parse(file.read_text()) for file in files if CONTRACT not in file.parents}


def test_each_parameter_of_a_public_function_is_named_in_its_docstring(trees):
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in chain.from_iterable(map(classes_in, trees.values())):
        classes.setdefault(node.name, []).append(node)
    unnamed = [
        f"{file.relative_to(ROOT)}:{function.lineno} {function.name}({name})"
        for file, tree in trees.items()
        for owner, function in public_functions(tree)
        if not (owner and declared_above(owner, function.name, classes))
        for name in parameters(function)
        if not re.search(rf"(?<![\w.]){name}\b", words_for(function, owner))
    ]
    assert unnamed == []


def classes_in(parent: ast.Module | ast.ClassDef) -> Iterator[ast.ClassDef]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef):
            yield node
            yield from classes_in(node)


def public_functions(
    parent: ast.Module | ast.ClassDef,
) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    """Yield the public functions of a module, and those of its classes, each with its class."""
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)
        elif isinstance(node, Function) and (node.name[0] != "_" or node.name == "__init__"):
            yield parent if isinstance(parent, ast.ClassDef) else None, node


def parameters(function: Function) -> list[str]:
    listed = function.args
    every = [*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg]
    names = [one.arg for one in every if one is not None]
    return [name for name in names if name not in {"self", "cls"} and name[0] != "_"]


def words_for(function: Function, owner: ast.ClassDef | None) -> str:
    """Return a function's docstring; how an object is made stands in that of its class."""
    words = ast.get_docstring(function) or ""
    if owner and function.name == "__init__":
        words += ast.get_docstring(owner) or ""
    return words


def declared_above(
    owner: ast.ClassDef, name: str, classes: dict[str, list[ast.ClassDef]], /, *seen: str
) -> bool:
    """Return whether a base of a class has the method: its words stand there."""
    if name == "__init__":
        return False
    for base in map(name_of, owner.bases):
        if base not in classes and base not in PLAIN:
            return True  # a library's, with a documentation of its own
        for above in () if base in seen else classes.get(base, ()):
            if any(isinstance(one, Function) and one.name == name for one in above.body):
                return True
            if declared_above(above, name, classes, *seen, base):
                return True
    return False


def name_of(base: ast.expr) -> str:
    """Return the last part of a base's name: ``Generic`` of ``typing.Generic[T]``."""
    if isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else ast.unparse(base)
