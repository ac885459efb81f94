"""Finds out what statements read of their module, and when: by their scopes, without running."""

# ruff: noqa: N802, N815 - the names and the meaning are those of ast.NodeVisitor
from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from submarine_engine.bundle.bindings import bound_names, imported_names, parameters, scope_names
from submarine_engine.bundle.flow import Flow
from submarine_engine.bundle.reads import Reads, Use
from submarine_engine.bundle.text import UNREADABLE

_ALWAYS_THERE = re.compile(
    "__(annotations|builtins|class|conditional_annotations|debug|dict|doc|file|loader|module|name"
    "|package|qualname|spec)__"
)


def read_statements(statements: Sequence[ast.stmt], *, lazy: bool) -> Reads:
    """Return what `statements` read of their module.

    Parameters
    ----------
    lazy
        Whether annotations are left unevaluated (``from __future__ import annotations``, and
        Python 3.14 on).
    """
    reader = _Reader(lazy=lazy)
    reader.block(statements)
    reads = reader.reads
    reads.bound, reads.maybe = frozenset(reader.bound), frozenset(reader.maybe)
    reads.sets, reads.stars = frozenset(reader.sets), tuple(reader.stars)
    return reads


@dataclass(slots=True)
class _Scope:
    kind: str  # "function", "class", "block" (a comprehension) or "types" (type parameters)
    names: set[str]
    outer: set[str] | frozenset[str] = frozenset()  # declared global


class _Reader(Flow):
    """Visits code in the order in which it is evaluated."""

    def __init__(self, *, lazy: bool) -> None:
        super().__init__()
        self.lazy = lazy
        self.reads = Reads()
        self.scopes: list[_Scope] = []
        self.owner: str | None = None
        self.deferred = 0
        self.sets: set[str] = set()
        self.stars: list[str] = []

    @property
    def in_module(self) -> bool:
        return not self.scopes

    # Names

    def use(self, name: str, line: int) -> None:
        """Record that `name` is read, unless it is one of an inner scope."""
        if _ALWAYS_THERE.fullmatch(name):
            return
        through_types = True
        for scope in reversed(self.scopes):
            if name in scope.outer:
                break
            if name in scope.names and (scope.kind != "class" or through_types):
                return
            through_types = through_types and scope.kind == "types"
        if self.deferred:
            self.record(self.reads.later.setdefault(self.owner or "", {}), name, line, hard=True)
        else:
            self.record(self.reads.now, name, line, hard=name not in self.maybe)

    def record(self, uses: dict[str, Use], name: str, line: int, *, hard: bool) -> None:
        hard = hard and not self.soft
        bound = self.snapshot()
        if (old := uses.get(name)) is not None:
            # The first place where it is not bound is the one to tell.
            line = old.line if name not in old.bound else line
            hard, bound = hard or old.hard, old.bound & bound
        uses[name] = Use(line, hard, bound)

    def bind(self, name: str) -> None:
        scope = next((scope for scope in reversed(self.scopes) if scope.kind != "block"), None)
        if scope is None:
            self.set_bound(name)
        elif name in scope.outer:
            self.sets.add(name)
        elif scope.kind == "class":
            scope.names.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.use(node.id, node.lineno)
        elif isinstance(node.ctx, ast.Store):
            self.bind(node.id)
        else:
            self.use(node.id, node.lineno)
            if self.in_module:
                self.set_unbound(node.id)

    # Scopes

    @contextmanager
    def scope(self, scope: _Scope, *, deferred: bool = False) -> Iterator[None]:
        self.scopes.append(scope)
        self.deferred += deferred
        yield
        self.deferred -= deferred
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all(node.decorator_list)
        self.visit_all([*node.args.defaults, *(d for d in node.args.kw_defaults if d)])
        with self.owned_by(node.name), self.type_parameters(node):
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    self.annotation(argument.annotation)
            self.annotation(node.returns)
            local, outer = scope_names(node.body)
            scope = _Scope("function", local | set(parameters(node.args)), outer)
            with self.scope(scope, deferred=True):
                self.block(node.body)
        self.bind(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all([*node.args.defaults, *(d for d in node.args.kw_defaults if d)])
        local = set(parameters(node.args)) | set(bound_names([node.body]))
        with self.scope(_Scope("function", local), deferred=True):
            self.visit(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(node.decorator_list)
        with self.owned_by(node.name), self.type_parameters(node):
            self.visit_all([*node.bases, *node.keywords])
            with self.scope(_Scope("class", set(), scope_names(node.body)[1])):
                self.block(node.body)
        self.bind(node.name)

    @contextmanager
    def owned_by(self, name: str) -> Iterator[None]:
        before = self.owner
        self.owner = before or name
        yield
        self.owner = before

    @contextmanager
    def type_parameters(self, node: ast.AST) -> Iterator[None]:
        found = getattr(node, "type_params", [])
        if not found:
            yield
            return
        with self.scope(_Scope("types", {parameter.name for parameter in found})):
            for parameter in found:
                self.unevaluated(getattr(parameter, "bound", None))
                self.unevaluated(getattr(parameter, "default_value", None))
            yield

    def visit_TypeAlias(self, node: ast.AST) -> None:
        with self.type_parameters(node):
            self.unevaluated(node.value)  # type: ignore[attr-defined]
        self.visit(node.name)  # type: ignore[attr-defined]

    def comprehension(self, node: ast.AST, *results: ast.expr) -> None:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        self.visit(generators[0].iter)
        targets = [generator.target for generator in generators]
        with self.scope(_Scope("block", set(bound_names(targets)))):
            for index, generator in enumerate(generators):
                if index:
                    self.visit(generator.iter)
                self.visit_all(generator.ifs)
            self.visit_all(results)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self.comprehension(node, node.elt)

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node, node.key, node.value)

    # Annotations

    def annotation(self, node: ast.expr | None, *, variable: bool = False) -> None:
        if node is None:
            return
        own_variable = variable and bool(self.scopes) and self.scopes[-1].kind == "function"
        if self.lazy or own_variable:
            self.unevaluated(node)
        else:
            self.visit(node)
            self.forward_references(node)

    def unevaluated(self, node: ast.expr | None) -> None:
        """Visit what is looked at by tools only: nothing fails where a name is missing."""
        if node is not None:
            self.deferred, self.soft = self.deferred + 1, self.soft + 1
            self.visit(node)
            self.deferred, self.soft = self.deferred - 1, self.soft - 1
            self.forward_references(node)

    def forward_references(self, node: ast.expr) -> None:
        """Visit the types written as text in an annotation."""
        for text in _texts(node):
            try:
                inner = ast.parse(str(text.value), mode="eval").body
            except UNREADABLE:
                continue
            for name in ast.walk(inner):
                if isinstance(name, ast.expr):
                    name.lineno = text.lineno
            self.unevaluated(inner)

    # Imports

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            self.stars.append("." * node.level + (node.module or ""))
        for name in imported_names(node):
            self.bind(name)

    visit_ImportFrom = visit_Import


def _texts(annotation: ast.expr) -> Iterator[ast.Constant]:
    """Yield the text constants of an annotation, but for the values of a ``Literal``."""
    todo: list[ast.AST] = [annotation]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        elif isinstance(node, ast.Subscript) and "Literal" in (
            getattr(node.value, "id", ""),
            getattr(node.value, "attr", ""),
        ):
            continue
        todo += ast.iter_child_nodes(node)
