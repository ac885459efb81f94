"""JSON by the C halves of `json` alone: the module itself imports re and enum, 10 ms."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any


class _Settings:
    """What `json.JSONDecoder` tells the scanner by default."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def loads(text: str) -> Any:  # noqa: ANN401 - as json has it
    """Return what the JSON `text` says; `ValueError` where it says nothing."""
    try:
        value, _ = make_scanner(_Settings)(text.strip(), 0)  # type: ignore[arg-type]
    except StopIteration:
        raise ValueError("there is no JSON") from None
    return value


def dumps(value: object) -> str:
    """Return the JSON of dicts, lists, text, finite numbers, booleans and None."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        members = (f"{dumps(key)}: {dumps(item)}" for key, item in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)
