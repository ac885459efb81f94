"""Lines of Python that move: indented or not, but never inside a string."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from submarine_engine.bundle.literals import LINE

Lines = list[tuple[int, str]]
"""Lines of a cell with their numbers, counted from 1."""

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast.parse` raises: the last two for code that is nested too deeply."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
_SEMICOLON = re.compile(rb"\s*;\s*(#.*)?")


def code_lines(source: str) -> list[str]:
    """Split as Python does: not at the form feeds and separators that `str.splitlines` knows."""
    return _NEWLINE.split(source)


@lru_cache(maxsize=1024)
def fixed_lines(source: str) -> frozenset[int]:
    """Return the numbers of the lines that begin inside a string, and so must stay as they are.

    Lines of docstrings are not among them: they are indented with their function, as everybody who
    moves one does, and are read without the indentation.
    """
    inside: set[int] = set()
    starts: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        elif kind in ("FSTRING_START", "TSTRING_START"):
            starts.append(token.start[0])
        elif kind in ("FSTRING_END", "TSTRING_END"):
            inside.update(range(starts.pop() + 1, token.end[0] + 1))
    for node in ast.walk(ast.parse(source)) if inside else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                inside.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return frozenset(inside)


def shifted(lines: Lines, by: int, fixed: Iterable[int]) -> Lines:
    """Return `lines` moved to the right by `by` columns, or to the left where it is negative."""
    moved = []
    for number, line in lines:
        if number in fixed or not line.strip():
            moved.append((number, line))
        elif by >= 0:
            moved.append((number, " " * by + line))
        else:
            indent = len(line) - len(line.lstrip())
            moved.append((number, line[min(indent, -by) :]))
    return moved


def without_semicolon(line: str, column: int) -> str:
    """Return the last line of a statement that ends at `column` (in bytes) without a closing ``;``.

    Notebooks write it to show no output; scripts have no use for it.
    """
    encoded = line.encode("utf-8", "surrogatepass")
    match = _SEMICOLON.fullmatch(encoded, column)
    if not match:
        return line
    comment = b"  " + match[1] if match[1] else b""
    return (encoded[:column] + comment).decode("utf-8", "surrogatepass")


def width(line: str) -> int:
    """Return how many columns a formatter counts for `line`."""
    if line.isascii():
        return len(line)
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in line)


def outgrows(lines: Lines, by: int, fixed: Iterable[int]) -> bool:
    """Return whether a formatter would break a line anew that moves to the right by `by`."""
    return any(
        LINE - by < width(line) <= LINE and number not in fixed and line.lstrip()[:1] != "#"
        for number, line in lines
    )


def single_spaced(lines: Lines, fixed: Iterable[int]) -> Lines:
    """Return `lines` with at most one empty line in a row, as inside a block."""
    kept: Lines = []
    for number, line in lines:
        if line.strip() or number in fixed or (kept and kept[-1][1].strip()):
            kept.append((number, line))
    return kept
