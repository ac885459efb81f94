"""Statements that are worth more as they were written than as the value that they made."""

from __future__ import annotations

import ast
import dis
import functools
import operator
import types
from collections.abc import Callable

_LARGEST = 1 << 64
_STATELESS = (type, types.BuiltinFunctionType, types.ModuleType, str, bytes, int, float, complex)

_OPERATORS: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class NotConstantError(ValueError):
    """The expression is no literal."""


def assigned_names(node: ast.stmt) -> list[str] | None:
    """Return the names that a plain assignment binds, in order; None for all else."""
    targets: list[ast.expr]
    if isinstance(node, ast.AnnAssign) and node.value:
        targets = [node.target]
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    else:
        return None
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else None


def constant(node: ast.stmt, name: str) -> object:
    """Return the value that a plain assignment of a literal, maybe one of several, gives `name`.

    Raises
    ------
    NotConstantError
        It is not such an assignment.
    """
    names = assigned_names(node)
    value = getattr(node, "value", None)
    if names is None or name not in names or not isinstance(value, ast.expr):
        raise NotConstantError
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
        if not isinstance(value, (ast.Tuple, ast.List)) or len(value.elts) != len(names):
            raise NotConstantError
        value = value.elts[names.index(name)]
    try:
        return _evaluate(value)
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise NotConstantError from None


def is_constant(node: ast.stmt, name: str) -> bool:
    """Return whether `constant` has an answer."""
    try:
        constant(node, name)
    except NotConstantError:
        return False
    return True


def _evaluate(node: ast.expr) -> object:
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        return _calculated(_OPERATORS.get(type(node.op)), left, right)
    return ast.literal_eval(node)


def _calculated(
    calculate: Callable[[object, object], object] | None, left: object, right: object
) -> object:
    """Calculate as the cell did, but for numbers that take long."""
    numbers = {type(left), type(right)} <= {int, float}
    large = any(isinstance(side, int) and abs(side) > _LARGEST for side in (left, right))
    if calculate is operator.pow:
        large = large or not (isinstance(right, int) and abs(right) <= 64)  # noqa: PLR2004
    if calculate is None or not numbers or large:
        raise NotConstantError
    return calculate(left, right)


def same(left: object, right: object) -> bool:
    """Return whether two values of builtin types are alike in type, content and order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, (int, str, bytes, set, frozenset, type(None), type(...))):
        return left == right
    return isinstance(left, (float, complex)) and repr(left) == repr(right)


def function_like(value: object) -> bool:
    """Return whether `value` does rather than is: what makes it again is its source.

    Functions, classes, what wraps a function (``jax.jit(step)``), and tuples of those (an optax
    optimizer). Not every callable: a model can be called as well, and is what it has learnt; and so
    is a function that remembers in its closure.
    """
    if isinstance(value, types.FunctionType):
        return not _remembers(value, set())
    if isinstance(value, (type, types.BuiltinFunctionType, types.MethodType)):
        return not (isinstance(value, types.MethodType) and not isinstance(value.__self__, type))
    if isinstance(value, tuple):
        return bool(value) and all(map(function_like, value))
    if isinstance(value, functools.partial):
        return False
    try:
        wrapped = getattr(value, "__wrapped__", None)
    except Exception:  # noqa: BLE001 - a foreign __getattr__ raises what it likes
        return False
    return isinstance(wrapped, types.FunctionType) and function_like(wrapped)


def _remembers(function: types.FunctionType, seen: set[int]) -> bool:
    """Return whether the closure of a function holds what its source would not make again."""
    free = function.__code__.co_freevars
    if not free or id(function) in seen:
        return False
    seen.add(id(function))
    if any(
        instruction.opname in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in free
        for instruction in dis.get_instructions(function.__code__)
    ):
        return True
    return any(_is_state(_content(cell), seen) for cell in function.__closure__ or ())


def _is_state(value: object, seen: set[int]) -> bool:
    if isinstance(value, types.FunctionType):
        return _remembers(value, seen)
    if isinstance(value, tuple):
        return any(_is_state(item, seen) for item in value)
    return not (value is None or isinstance(value, _STATELESS))


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty yet
        return None
