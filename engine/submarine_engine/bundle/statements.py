"""A cell's source, taken apart into the statements of its outermost scope."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from submarine_engine.bundle.bindings import Kind, bound_names
from submarine_engine.bundle.reader import read_statements
from submarine_engine.bundle.reads import Reads
from submarine_engine.bundle.text import (
    UNREADABLE,
    Lines,
    code_lines,
    fixed_lines,
    shifted,
    without_semicolon,
)

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
