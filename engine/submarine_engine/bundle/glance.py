"""Quick looks at a cell: what it may bind. To parse 1,000 cells for each job would take too long.

A look may find what is not so, and then the cell is parsed in vain; it never misses what is so.
"""

from __future__ import annotations

import re

_STAR = re.compile(r"\bimport\s*\(?\s*\*")

_KEYWORDS = ("def", "class", "type", "import")  # behind these any name is bound
_WORD = ("_", ".")
_OPERATORS = "+-*/%@&^|<>"


def may_bind(source: str, name: str) -> bool:
    """Return whether `source` may bind `name`."""
    if not name.isascii():
        return not source.isascii()
    end = 0
    while (start := source.find(name, end)) >= 0:
        end = start + len(name)
        if _is_word(source, start, end) and _may_bind_at(source, start, end):
            return True
    return False


_MAY_FOLLOW = (".", "[", " ", "\\", ")", ",")


def may_add(source: str, name: str) -> bool:
    """Return whether `source` may set attributes or items of `name`, or add or register to it."""
    if not name.isascii() or "setattr" in source:
        return True
    end = 0
    while (start := source.find(name, end)) >= 0:
        end = start + len(name)
        if source[end : end + 1] in _MAY_FOLLOW and _is_word(source, start, end):
            return True
    return False


def may_import_all(source: str) -> bool:
    """Return whether `source` may have a star import."""
    return "import" in source and "*" in source and _STAR.search(source) is not None


def _is_word(source: str, start: int, end: int) -> bool:
    before, after = source[start - 1 : start], source[end : end + 1]
    return not (before.isalnum() or before in _WORD or after.isalnum() or after == "_")


def _may_bind_at(source: str, start: int, end: int) -> bool:
    words = source[max(0, start - 20) : start].split()
    if words and words[-1] in _KEYWORDS:
        return True
    rest = source[end : end + 8].lstrip(" \t")
    if rest[:1] in ("(", "["):
        return False
    if rest[:1] == ".":
        line = source[source.rfind("\n", 0, start) + 1 : start]
        return "import" in line or (words[-1:] == [","] or words[-1:] == ["\\"])
    operator = rest[: len(rest) - len(rest.lstrip(_OPERATORS))]
    return not operator or rest[len(operator) :][:1] == "=" or operator == "|"
