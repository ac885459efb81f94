"""Tells of arrays whose memory they use, whether it was written to, and where a file's blocks lie.

`home` and the notebook's pickler (`submarine_engine.bundle.pickling`) ask it, so that large arrays
that did not change are not sent back, and views stay views.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BLOCK = 1 << 20
"""Bytes from which on a block lies beside its pickle: copying less takes no time to speak of."""


PIECE = 1 << 20


_WRITTEN = (0x80, 0x81)


_OF_A_FILE = (b"\xa0", b"\xa1")


_UNWRITTEN = b"\x00\xa0\xa1"


def is_pristine(block: memoryview) -> bool:
    """Return whether nothing was written to a block since it was mapped, as the kernel knows.

    False where the kernel does not tell (proc_pid_pagemap(5)): then the memory has to be read.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not len(block):
        return False
    import mmap  # noqa: PLC0415 - it is loaded: it has mapped the block

    own = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    own[0] = 1
    block[0]  # so its page is there
    with suppress(OSError, ValueError):
        [mine] = _pages(address_of(numpy.frombuffer(own, "u1")), 1)
        theirs = _pages(address_of(numpy.frombuffer(block, "u1")), len(block))
        # What is written to gets a page that is no file's. An answer of zeros is none.
        told = mine in _WRITTEN and theirs[:1] in _OF_A_FILE
        return told and not theirs.translate(None, _UNWRITTEN)
    return False


def _pages(address: int, size: int) -> bytes:
    """Return the highest byte of what the kernel says of each page: there, swapped, of a file."""
    from mmap import PAGESIZE  # noqa: PLC0415 - as above

    first, last = address // PAGESIZE, (address + size - 1) // PAGESIZE
    descriptor = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    try:
        length = (last - first + 1) * 8
        told = os.pread(descriptor, length, first * 8)
    finally:
        os.close(descriptor)
    if len(told) != length:
        raise ValueError("the kernel told of fewer pages")
    return told[7::8]


def say_the_same(left: memoryview, right: memoryview) -> bool:
    """Return whether the blocks `left` and `right` hold the same bytes."""
    return len(left) == right.nbytes and all(
        left[at : at + PIECE].tobytes() == right[at : at + PIECE].tobytes()
        for at in range(0, len(left), PIECE)
    )


def is_the_same(left: memoryview, right: memoryview) -> bool:
    """Return whether the views `left` and `right` look at the very same memory."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or left.nbytes != right.nbytes:
        return False
    return address_of(numpy.frombuffer(left, "u1")) == address_of(numpy.frombuffer(right, "u1"))


def bytes_of(obj: Any, numpy: Any) -> Any:  # noqa: ANN401 - an array of numpy, or what has one
    """Return the memory of an array or of a tensor's storage as bytes; None for all else.

    Parameters
    ----------
    obj
        Anything.
    numpy
        The module, which is loaded.
    """
    if type(obj) is numpy.ndarray:
        plain = obj.flags.forc and not obj.dtype.hasobject
        return obj.reshape(-1, order="A").view("u1") if plain else None
    if type(obj).__name__ == "UntypedStorage" and obj.device.type == "cpu":
        from submarine_runtime.frameworks import bytes_in  # noqa: PLC0415 - only where torch is

        return bytes_in(obj)
    return None


def address_of(array: Any) -> int:  # noqa: ANN401 - an array of numpy
    """Return where an array's first byte is."""
    return int(array.__array_interface__["data"][0])


def memory_of(obj: object) -> Iterator[object]:
    """Yield what owns the memory of the array `obj`; where that is a view, what owns its, too."""
    array = getattr(sys.modules.get("numpy"), "ndarray", ())
    while isinstance(obj, (array, memoryview)):
        obj = obj.obj if isinstance(obj, memoryview) else obj.base
        if obj is not None:
            yield obj


def root_of(obj: Any) -> Any:  # noqa: ANN401 - an array of numpy
    """Return the array that owns the memory of `obj`; None for what is no plain array."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    if kind is None or type(obj) is not kind:
        return None
    while type(obj.base) is kind:
        obj = obj.base
    return obj


def view_on(obj: Any, whole: Any) -> Any:  # noqa: ANN401 - arrays of numpy
    """Return how to make `obj` from `whole`, whose memory it shares; None where that cannot be."""
    if obj is whole or whole.dtype.hasobject or not whole.flags.forc:
        return None
    offset = obj.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    if not 0 <= offset <= whole.nbytes:
        return None
    return type(obj), (obj.shape, obj.dtype, whole, offset, obj.strides)


def mapped_blocks(path: str) -> Iterator[memoryview]:
    """Yield the blocks of the file `path`, mapped into memory: writing to them changes no file.

    The file begins with a line of their sizes; each block begins at a multiple of 64 bytes.
    """
    from mmap import ACCESS_COPY, mmap  # noqa: PLC0415 - only where there are such blocks

    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow
        sizes = [int(size) for size in file.readline().split()]
        at, data = file.tell(), memoryview(mmap(file.fileno(), 0, access=ACCESS_COPY))
    for size in sizes:
        at += -at % 64
        yield data[at : at + size]
        at += size
