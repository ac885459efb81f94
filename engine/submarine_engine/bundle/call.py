"""A function call as a job: the script ends in the call, written as a person would write it."""

from __future__ import annotations

import builtins
import functools
import inspect
import keyword
import re
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from submarine_runtime.lean import type_name

from submarine_engine.bundle.build import build
from submarine_engine.bundle.capture import LIMIT
from submarine_engine.bundle.executed import Executed
from submarine_engine.bundle.imports import importable
from submarine_engine.bundle.lambdas import lambda_source
from submarine_engine.bundle.literals import LINE, literal
from submarine_engine.bundle.model import Bundle, Cell
from submarine_engine.bundle.script import THE_CALL
from submarine_engine.bundle.secrets import is_secret
from submarine_engine.errors import CannotTravelError

_WIDTH = LINE - 4  # the call stands in a block
_HISTORY = re.compile(r"_+|_i?\d+|_i+|In|Out")


def build_call(  # noqa: PLR0913 - what a call is made from, each by its name
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    *,
    limit: int = LIMIT,
    root: Path | None = None,
    answered: bool = False,
) -> Bundle:
    """Make one training script that ends in ``function(*args, **kwargs)``.

    Parameters
    ----------
    function
        A function or a class of the notebook or of a module, a method, a `functools.partial`, a
        callable value, a lambda. One that a function has made travels by value.
    args, kwargs
        Small ones are written out, what has a name goes by that name, others travel as values.
    cells, namespace, limit, root, answered
        As for `build`.

    Raises
    ------
    CannotTravelError
        The function has no source to travel by, or a value cannot leave this process.
    UndefinedNameError, CaptureTooLargeError, BundleError
        As for `build`.
    """
    call = _Call(cells, namespace)
    source = call.source(function, args, kwargs)
    main = Cell(number=None, source=source, file=THE_CALL)
    try:
        known = {**namespace, **call.values}
        return build(main, cells, known, limit=limit, root=root, answered=answered)
    except CannotTravelError as error:
        error.where = error.where or THE_CALL
        raise


class _Call:
    """Writes a call, and collects the values that it needs under names of its own."""

    def __init__(self, cells: Sequence[Cell], namespace: Mapping[str, object]) -> None:
        self.namespace = namespace
        self.values: dict[str, object] = {}
        self._imports: dict[str, None] = {}
        self._before: list[str] = []
        self._taken: set[str] = set()
        self._executed = Executed(cells)
        self._names: dict[int, list[str]] = {}
        for name, value in namespace.items():
            if name.isidentifier() and not _HISTORY.fullmatch(name):
                self._names.setdefault(id(value), []).append(name)

    def source(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> str:
        """Return the source of a cell that makes the call."""
        while isinstance(function, functools.partial):
            args = (*function.args, *args)
            kwargs = {**function.keywords, **kwargs}
            function = function.func
        called = self.called(function)
        given = [
            self.value(value, hint)
            for value, hint in zip(args, _hints(function, len(args)), strict=True)
        ]
        odd = {}
        for name, value in kwargs.items():
            if name.isidentifier() and not keyword.iskeyword(name):
                given.append(f"{name}={self.value(value, name)}")
            else:
                odd[name] = value
        if odd:
            given.append(f"**{self.value(odd, 'options')}")
        line = _laid_out(called, given)
        if inspect.iscoroutinefunction(function):
            self._imports["import asyncio"] = None
            line = f"asyncio.run({called}({', '.join(given)}))"
        return "\n".join([*self._imports, *self._before, line])

    def called(self, function: Callable[..., object]) -> str:
        """Return an expression for what is called."""
        name = getattr(function, "__name__", type(function).__name__)
        if known := self.known(function, name):
            return known
        if isinstance(function, types.MethodType):
            owner = function.__self__
            kind = owner if isinstance(owner, type) else type(owner)
            return f"{self.value(owner, kind.__name__.lower())}.{function.__name__}"
        if imported := self.imported(function):
            return imported
        if not isinstance(function, (types.FunctionType, type)):
            return self.value(function, name.lower())
        if isinstance(function, types.FunctionType) and name == "<lambda>":
            return self.written(function) or self.value(function, "function")
        if "<locals>" in function.__qualname__:
            return self.value(function, name)  # no name leads to it: it travels by value
        raise CannotTravelError(
            f"`{name}` does not mean this {type_name(function)} any more",
            where=THE_CALL,
            fix="give the one that the name means now",
        )

    def written(self, function: types.FunctionType) -> str | None:
        """Write out a lambda; None where its source is not all of it."""
        source = lambda_source(function)
        if source is None or function.__code__.co_freevars:
            return None
        name = self.free("function")
        self._before.append(f"{name} = {source}")
        return name

    def value(self, value: object, hint: str) -> str:
        """Return an expression for a value that the call is given."""
        simple = isinstance(value, (int, float, complex, str, bytes, tuple, type(None)))
        known = self.known(value, hint)
        secret = is_secret(hint, value)
        if secret and not (known and is_secret(known, value)):
            known = self.free(hint)
            self.values[known] = value
        if known and (secret or not simple):
            return known
        written = literal(value)
        if written is not None and "\n" not in written and len(written) <= _WIDTH // 2:
            return written
        if known:
            return known
        if isinstance(value, types.ModuleType):
            self._imports[f"import {value.__name__}"] = None
            return value.__name__
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and (
            imported := self.imported(value)
        ):
            return imported
        name = self.free(hint)
        self.values[name] = value
        return name

    def known(self, value: object, hint: str) -> str | None:
        """Return the name that the notebook has for `value`, `hint` if it is one of them."""
        names = self._names.get(id(value), [])
        public = [name for name in names if not name.startswith("_")]
        return hint if hint in names else next(iter([*public, *names]), None)

    def imported(self, value: object) -> str | None:
        """Import `value` from its module, and return how it is called then."""
        home = importable(value)
        if home is None:
            return None
        module, qualname = home
        if module == "builtins" and qualname not in self.namespace:
            return qualname
        top, _, rest = qualname.partition(".")
        name = top
        plain = f"from {module} import {top}"
        if plain not in self._imports and self._means_something(top):
            name = self.free(top)
            self._imports[f"{plain} as {name}"] = None
        else:
            self._imports[plain] = None
            self._taken.add(top)
        return f"{name}.{rest}" if rest else name

    def free(self, hint: str) -> str:
        """Return a name that means nothing yet, like `hint`."""
        base = re.sub(r"\W", "_", hint).strip("_") or "value"
        name, count = base, 1
        while not name.isidentifier() or self._means_something(name):
            count += 1
            name = f"{base}_{count}" if base.isidentifier() else f"value_{count}"
        return name

    def _means_something(self, name: str) -> bool:
        return (
            name in self.namespace
            or name in self.values
            or name in self._taken
            or hasattr(builtins, name)
            or keyword.iskeyword(name)
            or self._executed.last(name) is not None
        )


def _hints(function: Callable[..., object], count: int) -> list[str]:
    """Return what the positional arguments are called by the function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins do not tell
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    return [*names, *["argument"] * count][:count]


def _laid_out(called: str, given: Sequence[str]) -> str:
    """Return the call as ``ruff format`` leaves it, inside a block."""
    flat = ", ".join(given)
    line = f"{called}({flat})"
    if len(line) <= _WIDTH:
        return line
    if len(flat) + 4 <= _WIDTH:
        return f"{called}(\n    {flat}\n)"
    return "\n".join([f"{called}(", *(f"    {argument}," for argument in given), ")"])
