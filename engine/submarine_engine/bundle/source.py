"""Python source as text: literals, lines that move, lambdas found again, names that are bound."""

from __future__ import annotations

import ast
import io
import linecache
import math
import re
import struct
import tokenize
import types
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache

# Small plain values as Python source: exact by round trip, laid out as ``ruff format`` would.


LONGEST = 200
"""Characters of a literal on one line; what is longer is no longer readable in a script."""

LINE = 88
"""Width of a line, ruff's default."""

_DEEPEST = 8
_PLAIN_NAN = struct.pack("<d", float("nan"))
_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), dict: ("{", "}")}


class _NoLiteralError(Exception):
    """The value has no exact or no readable literal."""


def literal(value: object, prefix: str = "") -> str | None:
    """Return the source of an expression that makes an equal value of the same types.

    Parameters
    ----------
    value
        None, bool, int, float, complex, str, bytes, and tuples, lists, dicts, sets and frozensets
        of those. Never an instance of a subclass: its class would be lost.
    prefix
        What stands before the expression on its first line (``name = ``), for the layout.

    Returns
    -------
    str or None
        The source, over several lines where one is too short. None for every other value, for
        what takes more than `LONGEST` characters, and where one list, dict or set stands at two
        places of the value (a literal would make two of it). Sets are written in sorted order, so
        that equal sets give the same source.
    """
    try:
        flat = _flat(value, set(), 0)
        if len(flat) > LONGEST or (not flat.isascii() and len(prefix) + 2 * len(flat) > LINE):
            return None
        if type(value) in (str, bytes) and len(prefix) + len(flat) > LINE:
            return f"(\n    {flat}\n)" if 4 + len(flat) <= LINE else flat
        return _layout(value, len(prefix), 0, 0)
    except _NoLiteralError:
        return None


def in_order(items: Collection[object]) -> list[object]:
    """Return `items`, the elements of a set, in an order that depends on their values alone.

    Elements without a literal keep the order that the set has them in.
    """
    kinds = {type(item) for item in items}
    if len(kinds) == 1 and kinds <= {int, str, bytes, bool}:
        return sorted(items)  # type: ignore[type-var]
    try:
        return sorted(items, key=lambda item: _flat(item, set(), 0, longest=None))
    except _NoLiteralError:
        return list(items)


def _flat(value: object, seen: set[int], depth: int, longest: int | None = LONGEST) -> str:
    """Return the source on one line; `seen` holds the ids of the mutable containers so far."""
    kind = type(value)
    if kind is type(None) or kind is bool:
        return repr(value)
    if isinstance(value, (int, float, complex)) and kind in (int, float, complex):
        return _number(value)
    if isinstance(value, (str, bytes)) and kind in (str, bytes):
        if longest is not None and len(value) > longest:
            raise _NoLiteralError
        return quoted(value)
    if isinstance(value, (list, tuple, dict, set, frozenset)) and kind in {*_BRACKETS, frozenset}:
        if depth > _DEEPEST or (longest is not None and len(value) > longest):
            raise _NoLiteralError
        if kind not in (tuple, frozenset):
            if id(value) in seen:
                raise _NoLiteralError
            seen.add(id(value))
        return _flat_container(value, seen, depth + 1, longest)
    raise _NoLiteralError


def _flat_container(
    value: Collection[object], seen: set[int], depth: int, longest: int | None
) -> str:
    if isinstance(value, dict):
        pairs = value.items()
        parts = [
            f"{_flat(key, seen, depth, longest)}: {_flat(item, seen, depth, longest)}"
            for key, item in pairs
        ]
        return "{" + ", ".join(parts) + "}"
    parts = [_flat(item, seen, depth, longest) for item in _elements(value)]
    if isinstance(value, frozenset):
        return "frozenset({" + ", ".join(parts) + "})" if parts else "frozenset()"
    if isinstance(value, set) and not parts:
        return "set()"
    left, right = _BRACKETS[type(value)]
    tail = "," if isinstance(value, tuple) and len(parts) == 1 else ""
    return left + ", ".join(parts) + tail + right


def _elements(value: Collection[object]) -> Sequence[object]:
    return in_order(value) if isinstance(value, (set, frozenset)) else list(value)


def _number(value: complex) -> str:
    if isinstance(value, int):
        if value.bit_length() > 4 * LONGEST:
            raise _NoLiteralError
        return repr(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value).replace("e+", "e")
        if math.isnan(value) and struct.pack("<d", value) != _PLAIN_NAN:
            raise _NoLiteralError
        return f'float("{value!r}")'
    # Not repr: "(-0+1j)" and "(nan+infj)" do not come back as they were.
    return f"complex({_number(value.real)}, {_number(value.imag)})"


def quoted(value: str | bytes, quote: str | None = None) -> str:
    """Return the literal of a text or bytes as a formatter leaves it.

    Parameters
    ----------
    value
        The text or bytes.
    quote
        The quote character; None for ``"``, or ``'`` where that needs fewer escapes.
    """
    # A double quote in front makes repr choose single quotes, whatever else is in there.
    if isinstance(value, str):
        prefix, body = "", repr('"' + value)[2:-1]
        singles, doubles = value.count("'"), value.count('"')
    else:
        prefix, body = "b", repr(b'"' + value)[3:-1]
        singles, doubles = value.count(b"'"), value.count(b'"')
    quote = quote or ("'" if singles < doubles else '"')
    if quote == '"':
        swap = {r"\'": "'", '"': r"\""}
        body = re.sub(r"\\.|\"", lambda match: swap.get(match[0], match[0]), body)
    return f"{prefix}{quote}{body}{quote}"


def _layout(value: object, before: int, indent: int, after: int) -> str:
    """Lay out `value` whose first line has `before` columns taken and its last one `after`."""
    flat = _flat(value, set(), 0)
    if before + len(flat) + after <= LINE:
        return flat
    if type(value) not in _BRACKETS or not value:
        raise _NoLiteralError
    pad = " " * (indent + 4)
    lines = []
    if isinstance(value, dict):
        for key, item in value.items():
            start = f"{pad}{_flat(key, set(), 0)}: "
            lines.append(f"{start}{_layout(item, len(start), indent + 4, 1)},")
    else:
        assert isinstance(value, (list, tuple, set))  # noqa: S101 - for the type checker
        for item in _elements(value):
            lines += [f"{pad}{_layout(item, len(pad), indent + 4, 1)},"]
    left, right = _BRACKETS[type(value)]
    return "\n".join([left, *lines, " " * indent + right])


# Lines of Python that move: indented or not, but never inside a string.


Lines = list[tuple[int, str]]
"""Lines of a cell with their numbers, counted from 1."""

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast.parse` raises: the last two for code that is nested too deeply."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
_SEMICOLON = re.compile(rb"\s*;\s*(#.*)?")


def code_lines(source: str) -> list[str]:
    """Split `source` as Python does, not at form feeds and separators as `str.splitlines` does."""
    return _NEWLINE.split(source)


@lru_cache(maxsize=1024)
def fixed_lines(source: str) -> frozenset[int]:
    """Return the numbers of the lines that begin inside a string, and so must stay as they are.

    Lines of docstrings are not among them: they are indented with their function, as everybody who
    moves one does, and are read without the indentation.

    Parameters
    ----------
    source
        Code that Python can parse.
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
    """Return `lines` moved to the right by `by` columns, or to the left where it is negative.

    Parameters
    ----------
    lines
        Those of a cell.
    by
        How many columns.
    fixed
        The numbers of lines that stay as they are, see `fixed_lines`.
    """
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
    """Return whether a formatter would break a line anew that moves to the right by `by`.

    Parameters
    ----------
    lines
        Those of a cell.
    by
        How many columns.
    fixed
        The numbers of lines that stay as they are, see `fixed_lines`.
    """
    return any(
        LINE - by < width(line) <= LINE and number not in fixed and line.lstrip()[:1] != "#"
        for number, line in lines
    )


def single_spaced(lines: Lines, fixed: Iterable[int]) -> Lines:
    """Return `lines` with at most one empty line in a row, as inside a block.

    Parameters
    ----------
    lines
        Those of a cell.
    fixed
        The numbers of lines that stay although they are empty, see `fixed_lines`.
    """
    kept: Lines = []
    for number, line in lines:
        if line.strip() or number in fixed or (kept and kept[-1][1].strip()):
            kept.append((number, line))
    return kept


# The source of a lambda that no name leads to.


def lambda_source(function: types.FunctionType) -> str | None:
    """Return the source of the lambda `function` as one expression on one line; None if not found.

    It is looked for in the file or cell that it was compiled from, as tracebacks do, and has to
    compile to the same code.
    """
    code = function.__code__
    source = "".join(linecache.getlines(code.co_filename))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except UNREADABLE:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            text = ast.get_source_segment(source, node) or ""
            if "\n" in text:
                text = ast.unparse(node)
            if any(_alike(code, other) for other in _compiled(text)):
                return text
    return None


def _compiled(text: str) -> Iterator[types.CodeType]:
    constants = compile(text, "<lambda>", "eval", dont_inherit=True).co_consts
    yield from (constant for constant in constants if isinstance(constant, types.CodeType))


def _alike(one: types.CodeType, other: types.CodeType) -> bool:
    same = one.co_code == other.co_code and one.co_names == other.co_names
    constants = [code.co_consts for code in (one, other)]
    plain = [[c for c in each if not isinstance(c, types.CodeType)] for each in constants]
    return same and plain[0] == plain[1] and one.co_varnames == other.co_varnames


# Which names statements bind in the scope that they stand in, without running them.


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Kind(IntEnum):
    """How a statement binds a name; where it does so in several ways, the highest counts."""

    DELETE = 0
    ASSIGN = 1
    IMPORT = 2
    DEFINE = 3


def bound_names(statements: Iterable[ast.AST]) -> dict[str, Kind]:
    """Return the names that `statements` bind in their own scope, in the order of the text.

    Bodies of functions and classes have scopes of their own; so have comprehensions, but for what
    ``:=`` binds in them. The name of an exception handler is unbound when the handler ends, and is
    left out. A star import binds what nobody can tell from here, and is left out as well.
    """
    names: dict[str, Kind] = {}
    for name, kind in _bindings(statements):
        names[name] = max(kind, names.get(name, kind))
    return names


def parameters(arguments: ast.arguments) -> Iterator[str]:
    """Yield the names of a function's parameters, which `arguments` declares."""
    for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
        yield from (argument.arg for argument in group)
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield argument.arg


def scope_names(body: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return what is local to the body of a function, and what it declares global.

    The local names are without the parameters.
    """
    local, outer, enclosing = set(bound_names(body)), set(), set()
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Global):
            outer.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            enclosing.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            local.add(node.name)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(node)
    return local - outer - enclosing, outer


def _bindings(statements: Iterable[ast.AST]) -> Iterator[tuple[str, Kind]]:
    todo = list(statements)[::-1]
    while todo:
        node = todo.pop()
        yield from _own(node)
        todo += list(_same_scope(node))[::-1]


def _own(node: ast.AST) -> Iterator[tuple[str, Kind]]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id, Kind.ASSIGN if isinstance(node.ctx, ast.Store) else Kind.DELETE
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name, Kind.DEFINE
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((name, Kind.IMPORT) for name in imported_names(node))
    elif name := _captured_by_pattern(node):
        yield name, Kind.ASSIGN
    elif type(node).__name__ == "TypeAlias":
        yield node.name.id, Kind.DEFINE  # type: ignore[attr-defined]


def imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the names that the import statement `node` binds, but for those of a star."""
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if node.module == "__future__":
        return []
    return [alias.asname or alias.name for alias in node.names if alias.name != "*"]


def _captured_by_pattern(node: ast.AST) -> str | None:
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return node.name
    return node.rest if isinstance(node, ast.MatchMapping) else None


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of `node` whose bindings are in the scope that `node` stands in."""
    left_out = {"type_params"}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        left_out.add("body")
    elif isinstance(node, ast.comprehension) or (
        isinstance(node, ast.AnnAssign) and not node.value
    ):
        left_out.add("target")
    for field, value in ast.iter_fields(node):
        if field in left_out:
            continue
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))
