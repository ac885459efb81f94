"""Small plain values as Python source: exact by round trip, laid out as ``ruff format`` would."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Sequence

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
    """Return the elements of a set in an order that depends on their values alone.

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
