"""Scalars of a job for its card, read from TensorBoard's event files by the standard library.

A few tags, thinned, read on where the last look ended.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from submarine_engine.history import JobPaths
from submarine_engine.tensorboard.event_dirs import event_files, job_sources

# Scalars out of TensorBoard's event files, with the standard library alone.
#
# A file is records as TFRecord has them (length, CRC of the length, data, CRC of the data), each an
# ``Event`` in the wire format of protocol buffers (tensorflow/core/util/event.proto,
# tensorflow/core/framework/summary.proto). Whatever else lies in a file is passed over.
#
# Why not tensorboard's own readers: these files are a job's, so they are hostile, and they are read
# in Jupyter's server. tensorboard's loader takes a record of any length into memory, and checks
# each byte of it in Python: 32 MB of scalars and images took it 3.2 s of processor, this 0.16 s.
# It is also an extra that need not be installed, and its import takes 0.6 s and 30 MB.


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
    """Return how many bytes of data follow `head`, a record's first 12; None where it is none."""
    length, crc = struct.unpack("<QI", head)
    return int(length) if crc == _masked(head[:8]) else None


def scalars_of(record: bytes) -> list[Scalar]:
    """Return the scalars of `record`, an ``Event``; none where it holds none, or cannot be read."""
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


# The scalars of a job for its card: a few tags, thinned, read on where the last look ended.


TAGS = 8
POINTS = 200

_MOST_TAGS = 64
_MOST_FILES = 64
_MOST_JOBS = 64
_PIECE = 1 << 20
_ONE_LOOK = 32 << 20
_LOOK_AGAIN = 1.0  # seconds: who asks sooner gets what is there: several views may show one job
_LONGEST_TAG = 100

Scalars = dict[str, list[list[float]]]


class Series:
    """The points of one tag: all of them at first, every second, fourth … as they get many."""

    def __init__(self) -> None:
        self._points: list[list[float]] = []
        self._last: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, step: int, value: float) -> None:
        """Take one more point, `value` at `step`; the newest is always kept."""
        self._last = [step, value]
        if self._seen % self._every == 0:
            self._points.append(self._last)
            if len(self._points) > 2 * POINTS:
                self._points = self._points[::2]
                self._every *= 2
        self._seen += 1

    def points(self) -> list[list[float]]:
        """Return at most `POINTS` of them, the newest among them, by step."""
        kept = self._points[:: max(1, math.ceil(len(self._points) / (POINTS - 1)))]
        if kept and kept[-1] is not self._last:
            kept = [*kept, self._last]
        return sorted(kept, key=lambda point: point[0])


class Reader:
    """The scalars of one job's files of events, read once.

    Parameters
    ----------
    paths
        The job.
    """

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._lock = Lock()
        self._offsets: dict[Path, int] = {}
        self._series: dict[str, Series] = {}
        self._roots: list[tuple[str, Path]] = []
        self._looked_at = float("-inf")
        self._new = False
        self._shown: Scalars = {}

    def read_new(self, *, at_once: bool = False) -> Scalars:
        """Read what is new, a bounded part of it; return what is known by now.

        Parameters
        ----------
        at_once
            Look even where the last look was a moment ago.
        """
        with self._lock:
            if at_once or time.monotonic() - self._looked_at >= _LOOK_AGAIN:
                self._read()
                self._looked_at = time.monotonic()
            if self._new:
                first = list(self._series.items())[:TAGS]
                self._shown = {tag: series.points() for tag, series in first}
                self._new = False
            return self._shown

    def _read(self) -> None:
        sources = [source for source in job_sources(self._paths) if not source.remote]
        left, files = _ONE_LOOK, _MOST_FILES
        for source in sources:
            root = Path(source.place)
            for path in event_files(root):
                files -= 1
                if files < 0 or left <= 0:
                    return
                run = path.parent.relative_to(root).as_posix()
                with suppress(OSError):
                    left -= self._read_file(path, "" if run == "." else f"{run}/", left)

    def _read_file(self, path: Path, run: str, limit: int) -> int:
        """Read on in one file; return how many bytes."""
        offset = self._offsets.get(path, 0)
        if offset < 0:  # no file of events, or a damaged one
            return 0
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=_PIECE) as file:  # noqa: PTH123 - a descriptor
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode):
                return 0
            begin, end = offset, min(seen.st_size, offset + limit)
            file.seek(offset)
            while offset + HEAD + TAIL <= end:
                length = length_of(file.read(HEAD))
                if length is None:
                    self._offsets[path] = -1
                    return offset - begin
                after = offset + HEAD + length + TAIL
                if after > seen.st_size:
                    break  # its end is still to be written
                if length <= LARGEST:
                    self._take(run, file.read(length))
                offset = after
                file.seek(offset)
            self._offsets[path] = offset
            return offset - begin

    def _take(self, run: str, record: bytes) -> None:
        for scalar in scalars_of(record):
            tag = f"{run}{scalar.tag}"
            known = tag in self._series or len(self._series) < _MOST_TAGS
            if len(tag) <= _LONGEST_TAG and known and math.isfinite(scalar.value):
                self._series.setdefault(tag, Series()).add(scalar.step, scalar.value)
                self._new = True


_readers: OrderedDict[str, Reader] = OrderedDict()
_readers_lock = Lock()


def scalars(paths: JobPaths, *, at_once: bool = False) -> Scalars:
    """Return the scalars that a job has written to its log directory so far.

    Reads what is new since the last call in this process; call it in a thread. Files that are no
    events, or damaged, are passed over.

    Parameters
    ----------
    paths
        The job's.
    at_once
        Whether to look even where the last look was a moment ago: nobody asks again after a job's
        end.

    Returns
    -------
    dict of str to list
        At most `TAGS` tags, those first that were written first; of each at most `POINTS` pairs
        of step and value, by step. Finite numbers alone. Tags are the job's own text.
    """
    with _readers_lock:
        reader = _readers.pop(str(paths.root), None) or Reader(paths)
        _readers[str(paths.root)] = reader
        while len(_readers) > _MOST_JOBS:
            _readers.popitem(last=False)
    return reader.read_new(at_once=at_once)
