"""A cell's statements, and what each reads of its module: when, and what is bound by then.

Read by scopes, without running: *now* is what a statement needs as it runs (defaults, decorators,
bases), *later* what a function reads once it is called.
"""

# ruff: noqa: D102, N815 - the names and the meaning are those of ast.NodeVisitor
# ruff: noqa: N815 - the names and the meaning are those of ast.NodeVisitor

from __future__ import annotations

import ast
import re
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from submarine_engine.bundle.source import (
    UNREADABLE,
    Kind,
    Lines,
    bound_names,
    code_lines,
    fixed_lines,
    imported_names,
    parameters,
    scope_names,
    shifted,
    without_semicolon,
)

# What code reads of its module: which names, when, and what is bound by then. Plain data.


@dataclass(frozen=True, slots=True)
class Use:
    """A name of the module that is read.

    Parameters
    ----------
    line
        Where it is read first without being bound.
    hard
        Whether the code fails where nobody defines it. Not so in annotations that are never
        evaluated, under ``except NameError``, and for what an earlier branch may have bound.
    bound
        Names that the statements before have bound for certain, at every one of the places.
    """

    line: int
    hard: bool
    bound: frozenset[str]


@dataclass(slots=True)
class Reads:
    """What a sequence of module-level statements reads.

    Parameters
    ----------
    now
        Names read while the statements run.
    later
        Names read by functions when they are called, by the name of the function or class of this
        scope that they belong to; ``""`` for lambdas. ``bound`` is as of the definition.
    bound
        Names that are bound for certain once the statements have run.
    maybe
        Names that may be.
    sets
        Names that functions bind here by a ``global`` declaration.
    stars
        Modules whose names a star import binds.
    everything
        Whether the code goes through the names of the module: ``[k for k in globals() if …]``.
    """

    now: dict[str, Use] = field(default_factory=dict)
    later: dict[str, dict[str, Use]] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    stars: tuple[str, ...] = ()
    everything: bool = False


# What is bound at each place of a sequence of statements, as control flows through them.
#
# Only the outermost scope is followed: within functions it does not matter here when a name is
# bound. A loop's body counts as run: notebooks that rely on a loop that never turns are not worth
# the noise.


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


# Finds out what statements read of their module, and when: by their scopes, without running.


_ALWAYS_THERE = re.compile(
    "__(annotations|builtins|class|conditional_annotations|debug|dict|doc|file|loader|module|name"
    "|package|qualname|spec)__"
)


_BY_NAME = ("get", "pop", "setdefault", "__getitem__", "__contains__")
_GO_THROUGH = (
    "all", "any", "dict", "enumerate", "filter", "iter", "len", "list", "map", "max", "min",
    "print", "repr", "reversed", "set", "sorted", "str", "tuple", "zip",
)  # fmt: skip
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_OF_QUERY = re.compile(r"@([A-Za-z_]\w*)")


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
    reader.end()
    reads = reader.reads
    reads.bound, reads.maybe = frozenset(reader.bound), frozenset(reader.maybe)
    reads.sets, reads.stars = frozenset(reader.sets), tuple(reader.stars)
    reads.everything = reader.everything
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
        self.texts: list[tuple[str, int]] = []
        self.computed = False  # whether a variable of the module is named by what nobody can read
        self.looked_into: set[ast.expr] = set()
        self.given_away = False  # whether all of them are: ``timeit("f(x)", globals=globals())``
        self.passed_on: set[ast.expr] = set()  # to what looks up names that a text tells
        self.everything = False

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

    # Names within text: of the module's variables, of code, of what pandas evaluates

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append((node.value, node.lineno))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_space(node.value):
            self.looked_into.add(node.value)
            if not isinstance(node.ctx, ast.Store):
                self._by_name(node.slice)
            elif not isinstance(node.slice, ast.Constant):
                self.soft += 1  # it may bind whatever is read below
            elif self.in_module:
                self.set_bound(str(node.slice.value))
            else:
                self.sets.add(str(node.slice.value))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if spaces := [one for one in node.comparators if self._is_space(one)]:
            self.looked_into.update(spaces)
            self._by_name(node.left, fails=False)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in (*_BY_NAME, "update"):
            self.looked_into.add(called.value)
        if not (isinstance(called, ast.Name) and called.id in _GO_THROUGH):
            self.passed_on.update(node.args, (keyword.value for keyword in node.keywords))
        self.generic_visit(node)
        if self._is_space(node):
            self.given_away |= node not in self.looked_into
            self.everything |= node not in self.looked_into | self.passed_on
        elif isinstance(called, ast.Name) and called.id == "dir" and not node.args:
            self.everything |= self.in_module
        else:
            self._named_in(node)

    def _named_in(self, node: ast.Call) -> None:
        called, first = node.func, node.args[0] if node.args else None
        if isinstance(called, ast.Attribute) and self._is_space(called.value):
            if called.attr in _BY_NAME:
                self._by_name(first, fails=called.attr == "__getitem__")
            elif called.attr == "update":
                self.soft += 1  # it may bind whatever is read below
        elif isinstance(called, ast.Name) and called.id in ("eval", "exec"):
            self._code(first, node.lineno, runs=called.id == "exec")
        elif isinstance(called, ast.Attribute) and called.attr in ("query", "eval") and first:
            for text in ast.walk(first):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    for name in _OF_QUERY.findall(text.value):
                        self._softly(name, text.lineno)

    def _is_space(self, node: ast.expr) -> bool:
        """Return whether an expression gives the variables of the module."""
        if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
            return False
        return node.func.id == "globals" or (node.func.id in ("vars", "locals") and self.in_module)

    def _by_name(self, node: ast.expr | None, *, fails: bool = True) -> None:
        """Read the variable of a name; where one is computed, nothing may tell that it is missed.

        Parameters
        ----------
        fails
            Whether the code raises where there is no such variable.
        """
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._softly(node.value, node.lineno)
        else:
            self.computed = True
            self.everything |= not fails

    def _code(self, node: ast.expr | None, line: int, *, runs: bool) -> None:
        try:
            code = ast.parse(ast.literal_eval(node).strip())  # type: ignore[arg-type]
        except (AttributeError, TypeError, *UNREADABLE):
            self.computed = True
            for text in ast.walk(node) if node else ():
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    self._words(text.value, line)
            self.soft += runs  # it may bind whatever is read below
            return
        for part in ast.walk(code):
            name = part.target if isinstance(part, ast.AugAssign) else part
            if isinstance(name, ast.Name) and (name is not part or isinstance(name.ctx, ast.Load)):
                self._softly(name.id, line)
        for name_bound in bound_names(code.body) if runs else ():
            self.bind(name_bound)

    def _softly(self, name: str, line: int) -> None:
        self.soft += 1
        self.use(name, line)
        self.soft -= 1

    def end(self) -> None:
        """Take any text that is like a name for one where a name is computed."""
        for text, line in self.texts:
            if self.given_away:
                self._words(text, line)
            elif self.computed and text.isidentifier():
                self._softly(text, line)

    def _words(self, text: str, line: int) -> None:
        for name in dict.fromkeys(_WORD.findall(text)):
            self._softly(name, line)

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


# A cell's source, taken apart into the statements of its outermost scope.


_COMMENT = re.compile(r"\s*#(?!!| ?%%| In\[)")  # not a shebang or another notebook's markers


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement of the outermost scope.

    Parameters
    ----------
    first, last
        Its lines, decorators included, counted from 1.
    comment
        The first of the comment lines directly above it; `first` where there are none.
    binds
        The names that it binds.
    alone
        Whether it shares no line with another statement.
    guarded
        Whether it stands under ``if __name__ == "__main__":``.
    """

    node: ast.stmt
    first: int
    last: int
    comment: int
    binds: Mapping[str, Kind]
    alone: bool = True
    guarded: bool = False
    _reads: dict[bool, Reads] = field(default_factory=dict, repr=False)

    def reads(self, *, lazy: bool) -> Reads:
        """Return what it reads; `lazy` as for `read_statements`."""
        if lazy not in self._reads:
            self._reads[lazy] = read_statements([self.node], lazy=lazy)
        return self._reads[lazy]

    @property
    def compound(self) -> bool:
        """Whether it has a body."""
        return hasattr(self.node, "body") or isinstance(self.node, ast.Match)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A cell's lines and its statements, those of ``if __name__ == "__main__":`` among them."""

    lines: tuple[str, ...]
    statements: tuple[Statement, ...]

    def text(self, statement: Statement) -> Lines:
        """Return the lines of `statement`, its comments above included."""
        node = statement.node
        if not statement.alone:
            segment = ast.get_source_segment("\n".join(self.lines), node) or ""
            return list(enumerate(code_lines(segment), statement.first))
        lines = self.numbered(statement.comment, statement.last)
        index = (node.end_lineno or 0) - statement.comment
        number, line = lines[index]
        lines[index] = number, without_semicolon(line, node.end_col_offset or 0)
        return shifted(lines, -node.col_offset, self.fixed()) if node.col_offset else lines

    def numbered(self, first: int, last: int) -> Lines:
        """Return lines `first` to `last`."""
        return [(number, self.lines[number - 1]) for number in range(first, last + 1)]

    def fixed(self) -> frozenset[int]:
        """Return the lines that must not move."""
        return fixed_lines("\n".join(self.lines))


def is_guard(node: ast.AST) -> bool:
    """Return whether `node` is ``if __name__ == "__main__":``, with no ``else``."""
    test = node.test if isinstance(node, ast.If) and not node.orelse else None
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return False
    sides = {ast.dump(side) for side in (test.left, test.comparators[0])}
    wanted = {ast.dump(ast.Name("__name__", ast.Load())), ast.dump(ast.Constant("__main__"))}
    return isinstance(test.ops[0], ast.Eq) and sides == wanted


@lru_cache(maxsize=4096)
def parse(source: str) -> Parsed:
    """Return the statements of `source`; none where it does not parse, since then none ran."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown where the cell ran
            tree = ast.parse(source)
    except UNREADABLE:
        return Parsed((), ())
    lines = tuple(code_lines(source))
    nodes: list[tuple[ast.stmt, bool]] = []
    for node in tree.body:
        if isinstance(node, ast.If) and is_guard(node):
            nodes += [(inner, True) for inner in node.body]
        else:
            nodes.append((node, False))
    return Parsed(lines, tuple(_statements(nodes, lines)))


def _statements(nodes: Sequence[tuple[ast.stmt, bool]], lines: Sequence[str]) -> list[Statement]:
    found = []
    bottom = 0
    firsts = [_first(node) for node, _ in nodes]
    followings = [*firsts, len(lines) + 1][1:]
    for (node, guarded), first, following in zip(nodes, firsts, followings, strict=True):
        last = node.end_lineno or node.lineno
        alone = bottom < first and last < following and _alone(node, lines)
        statement = Statement(
            node=node,
            first=first,
            last=_with_comments_below(node, last, following, lines) if alone else last,
            comment=_comments_above(first, bottom, lines) if alone else first,
            binds=bound_names([node]),
            alone=alone,
            guarded=guarded,
        )
        found.append(statement)
        bottom = statement.last
    return found


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _alone(node: ast.stmt, lines: Sequence[str]) -> bool:
    before = lines[node.lineno - 1].encode("utf-8", "surrogatepass")[: node.col_offset]
    return not before.strip()


def _comments_above(first: int, bottom: int, lines: Sequence[str]) -> int:
    while first - 1 > bottom and _COMMENT.match(lines[first - 2]):
        first -= 1
    return first


def _with_comments_below(node: ast.stmt, last: int, following: int, lines: Sequence[str]) -> int:
    """Return the last line of a body with the comments that close it."""
    end = last
    if hasattr(node, "body"):
        for number in range(last + 1, following):
            line = lines[number - 1]
            indent = len(line) - len(line.lstrip())
            if line.strip() and (indent <= node.col_offset or line[indent] != "#"):
                break
            end = number if line.strip() else end
    return end
