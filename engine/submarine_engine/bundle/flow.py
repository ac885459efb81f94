"""What is bound at each place of a sequence of statements, as control flows through them.

Only the outermost scope is followed: within functions it does not matter here when a name is bound.
A loop's body counts as run: notebooks that rely on a loop that never turns are not worth the noise.
"""

# ruff: noqa: D102, N815 - the names and the meaning are those of ast.NodeVisitor
from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from submarine_engine.bundle.bindings import bound_names


class Flow(ast.NodeVisitor):
    """Visits statements in the order in which they run, and keeps what is bound."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.maybe: set[str] = set()
        self.soft = 0  # above 0 where a name that is not there does no harm
        self._carried: list[frozenset[str]] = []  # what the bodies of the loops around bind
        self._snapshot: frozenset[str] | None = None

    @property
    @abstractmethod
    def in_module(self) -> bool:
        """Whether the code visited now stands in the outermost scope."""

    @abstractmethod
    def use(self, name: str, line: int) -> None:
        """Take note that `name` is read."""

    @abstractmethod
    def bind(self, name: str) -> None:
        """Take note that `name` is bound in the current scope."""

    @abstractmethod
    def annotation(self, node: ast.expr | None, *, variable: bool = False) -> None:
        """Visit an annotation, maybe of a variable."""

    def snapshot(self) -> frozenset[str]:
        """Return what is bound for certain now."""
        if self._snapshot is None:
            self._snapshot = frozenset(self.bound)
        return self._snapshot

    def set_bound(self, name: str) -> None:
        """Bind `name` in the outermost scope."""
        self.bound.add(name)
        self.maybe.add(name)
        self._snapshot = None

    def set_unbound(self, name: str) -> None:
        """Unbind `name` in the outermost scope."""
        self.bound.discard(name)
        self._snapshot = None

    def block(self, statements: Iterable[ast.AST]) -> None:
        """Visit one after the other."""
        for node in statements:
            self.visit(node)

    visit_all = block

    # Simple statements whose order of evaluation is not that of their fields

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self.visit_all(node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.use(node.target.id, node.lineno)
        self.visit(node.value)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation, variable=True)
        if node.value:
            self.visit(node.value)
            self.visit(node.target)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        # A sum of 1,000 terms is nested 1,000 deep to the left.
        right: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            right.append(left.right)
            left = left.left
        self.visit_all([left, *reversed(right)])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    # Control flow

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._one_of(_Path(node.body), _Path(node.orelse))

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        last = node.cases[-1]
        wildcard = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        none = [] if wildcard and last.guard is None else [_Path([])]
        self._one_of(*(_Path([case]) for case in node.cases), *none)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self.bind(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self.bind(node.rest)

    def visit_Try(self, node: ast.Try) -> None:
        body = _Path([*node.body, *node.orelse], soft=any(map(_catches_names, node.handlers)))
        begun = frozenset(bound_names(node.body))
        self._one_of(body, *(_Path([handler], maybe=begun) for handler in node.handlers))
        self.block(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type:
            self.visit(node.type)
        if node.name:
            self.bind(node.name)
        self.block(node.body)
        if node.name and self.in_module:
            self.set_unbound(node.name)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._loop(node, node.target)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self._loop(node, node.test)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, head: ast.expr) -> None:
        names = frozenset(bound_names([node]))
        before = self.maybe
        self.maybe = before.union(*self._carried)
        self._carried.append(names)
        self.visit(head)
        self.block(node.body)
        self._carried.pop()
        self.maybe = before | names
        self._one_of(_Path([]), _Path(node.orelse))

    def _one_of(self, *paths: _Path) -> None:
        """Visit `paths`, of which one is taken."""
        before, maybe = self.bound, self.maybe
        ends: list[set[str]] = []
        for path in paths:
            self.bound, self._snapshot = set(before), None
            # In a loop, what stands below may have been bound by the turn before.
            self.maybe = maybe.union(path.maybe, *self._carried)
            self.soft += path.soft
            self.block(path.nodes)
            self.soft -= path.soft
            if not path.leaves():
                ends.append(self.bound)
        self.bound = set.intersection(*ends) if ends else before
        self.maybe = maybe.union(*(bound_names(path.nodes) for path in paths))
        self._snapshot = None


@dataclass(frozen=True, slots=True)
class _Path:
    """One way through a statement; `maybe` holds names that it may find bound."""

    nodes: Sequence[ast.AST]
    maybe: frozenset[str] = frozenset()
    soft: bool = False

    def leaves(self) -> bool:
        """Return whether this way never reaches what stands below the statement."""
        last = self.nodes[-1] if self.nodes else None
        if isinstance(last, (ast.ExceptHandler, ast.match_case)):
            last = last.body[-1]
        return isinstance(last, (ast.Raise, ast.Return, ast.Continue, ast.Break))


def _catches_names(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(kind, ast.Name) and kind.id == "NameError" for kind in kinds)
