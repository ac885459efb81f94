"""Scalars out of TensorBoard's event files, with the standard library alone.

A file is records as TFRecord has them (length, CRC of the length, data, CRC of the data), each an
``Event`` in the wire format of protocol buffers (tensorflow/core/util/event.proto,
tensorflow/core/framework/summary.proto). Whatever else lies in a file is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

HEAD = 12
TAIL = 4
LARGEST = 1 << 20
"""Bytes of a record that is looked into: scalars are small, images are not."""

_MOST_VALUES = 1000
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
_FORMATS = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}
_LONGEST_VARINT = 64


class Scalar(NamedTuple):
    """One value of one tag."""

    tag: str
    step: int
    value: float


def length_of(head: bytes) -> int | None:
    """Return how many bytes of data follow a record's first 12; None where that is no record."""
    length, crc = struct.unpack("<QI", head)
    return int(length) if crc == _masked(head[:8]) else None


def scalars_of(record: bytes) -> list[Scalar]:
    """Return the scalars of an ``Event``; none where it holds none, or cannot be read."""
    try:
        step, found = 0, []
        for field, kind, value in _fields(record):
            if field == 2 and kind == _VARINT:  # noqa: PLR2004 - Event.step
                step = _signed(value)
            elif field == 5 and kind == _BYTES:  # noqa: PLR2004 - Event.summary
                found += list(_summary(value))
        return [Scalar(tag, step, value) for tag, value in found[:_MOST_VALUES]]
    except (ValueError, struct.error, IndexError):
        return []


def _summary(data: bytes) -> Iterator[tuple[str, float]]:
    for field, kind, value in _fields(data):
        if field == 1 and kind == _BYTES and (found := _value(value)):
            yield found


def _value(data: bytes) -> tuple[str, float] | None:
    """Return tag and number of a ``Summary.Value``: simple_value, or a tensor of one element."""
    tag, number, plugin = "", None, ""
    for field, kind, value in _fields(data):
        if field == 1 and kind == _BYTES:
            tag = value.decode("utf-8", "replace")
        elif field == 2 and kind == _FOUR:  # noqa: PLR2004 - simple_value
            number = struct.unpack("<f", value)[0]
        elif field == 8 and kind == _BYTES:  # noqa: PLR2004 - tensor
            number = _tensor(value)
        elif field == 9 and kind == _BYTES:  # noqa: PLR2004 - metadata
            plugin = _plugin(value)
    return (tag, number) if number is not None and plugin in ("", "scalars") else None


def _plugin(data: bytes) -> str:
    for field, kind, value in _fields(data):
        if field == 1 and kind == _BYTES:  # plugin_data
            for inner, inner_kind, name in _fields(value):
                if inner == 1 and inner_kind == _BYTES:
                    return str(name, "utf-8", "replace")
    return ""


def _tensor(data: bytes) -> float | None:
    """Return the only element of a ``TensorProto``; None where it has more, or is no number."""
    dtype, found = 0, None
    for field, kind, value in _fields(data):
        if field == 1 and kind == _VARINT:
            dtype = value
        elif field == 2 and kind == _BYTES and _has_size(value):  # noqa: PLR2004 - tensor_shape
            return None
        elif field == 4 and kind == _BYTES and dtype in _FORMATS:  # noqa: PLR2004 - tensor_content
            found = _one(_FORMATS[dtype], value)
        elif field == 5 and kind in (_BYTES, _FOUR):  # noqa: PLR2004 - float_val, packed or not
            found = _one("<f", value)
        elif field == 6 and kind in (_BYTES, _EIGHT):  # noqa: PLR2004 - double_val
            found = _one("<d", value)
    return found


def _has_size(shape: bytes) -> bool:
    return any(field == 2 and kind == _BYTES for field, kind, _ in _fields(shape))  # noqa: PLR2004 - dim


def _one(form: str, data: bytes) -> float | None:
    return float(struct.unpack(form, data)[0]) if len(data) == struct.calcsize(form) else None


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of a message's fields.

    Raises
    ------
    ValueError
        It is no message.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield field, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(kind)
        if at + size > len(data):
            raise ValueError(size)
        yield field, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while shift < _LONGEST_VARINT:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - no more of it
            return found, at
        shift += 7
    raise ValueError("a number without end")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


@cache
def _table() -> tuple[int, ...]:
    """Return the table of CRC-32C (Castagnoli), by bytes."""
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        found.append(crc)
    return tuple(found)


def _masked(data: bytes) -> int:
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF
