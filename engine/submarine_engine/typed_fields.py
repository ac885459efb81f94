"""Fields of a dataclass out of a document that anybody may have written: each of its type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def typed_fields(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a document has of a dataclass's fields; what is none of them is left out.

    Parameters
    ----------
    kind
        The dataclass. Fields are text, numbers, truth, texts by name, lists of these, or None; what
        is of another type is taken as it stands.
    data
        The document. Lists become tuples where a field is one.

    Returns
    -------
    dict
        The fields' values by name: numbers are finite, and no truth is a number.

    Raises
    ------
    ValueError
        It is no object, or a field is of another type.
    """
    if not isinstance(data, Mapping):
        raise ValueError("it is no object")  # noqa: TRY004 - of a document
    hints = _hints(kind)
    given = {name: value for name, value in data.items() if name in hints}
    for name, value in given.items():
        given[name] = _typed(hints[name], value, name)
    return given


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


def _typed(hint: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - of a field's type
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None and type(None) in inner:
            return None
        (hint,) = (one for one in inner if one is not type(None))
        return _typed(hint, value, name)
    if origin is tuple or origin is Sequence:
        if not isinstance(value, (list, tuple)):
            raise _bad(name)
        found = [_typed(inner[0], one, name) for one in value]
        return tuple(found) if origin is tuple else found
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _bad(name)
        return {str(key): _typed(inner[1], one, name) for key, one in value.items()}
    if hint in (str, bool) and not isinstance(value, hint):
        raise _bad(name)
    if hint in (int, float) and not _is_number(hint, value):
        raise _bad(name)
    return value


def _is_number(kind: type, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, int) if kind is int else math.isfinite(value)


def _bad(name: str) -> ValueError:
    return ValueError(f"{name!r:.40} is not of its type")
