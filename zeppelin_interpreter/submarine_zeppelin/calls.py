"""A call as it comes over the wire: whole, and measured before anything is made of it.

Thrift's readers believe what a message says of itself: one of thirty bytes that announces a list of
two thousand million elements of a type that there is not would keep them, and with Python's lock
all of the process, busy for minutes. So a call is walked through as it comes, see Thrift's
specification of its binary protocol, and read by the library when all of it is here.
"""

from __future__ import annotations

import socket
import struct
import time

LARGEST = 1 << 26
"""Bytes of a call: Zeppelin's own limit for a message is a megabyte by default."""

PATIENCE = 120.0
"""Seconds that a call has to be here in once it has begun; before that any time may pass."""

_PIECE = 1 << 16
_DEEPEST = 32  # of what Zeppelin says nothing lies deeper than four
_VERSION = 0x80010000
_STOP, _STRING, _STRUCT, _MAP, _SET, _LIST = 0, 11, 12, 13, 14, 15
_SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}  # bool, byte, double, i16, i32, i64, uuid


class BadCallError(Exception):
    """What came is no call of Thrift's; the connection is of no more use."""


class Calls:
    """The calls of one connection.

    Parameters
    ----------
    connection
        Whose; its timeout is set here.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._came = bytearray()
        self._at = 0
        self._until: float | None = None

    def next(self) -> bytes:
        """Return the next call, whole, once it is there.

        Raises
        ------
        BadCallError
            It is none, is too large, or does not come to its end.
        OSError
            The connection breaks; `EOFError` where it ends between two calls.
        """
        del self._came[: self._at]
        self._at, self._until = 0, None
        if self._number(">I") & 0xFFFF0000 != _VERSION:
            raise BadCallError("it is no message of Thrift's strict binary protocol")
        self._take(self._size())
        self._take(4)  # the number of the call
        self._walk(_STRUCT, _DEEPEST)
        return bytes(self._came[: self._at])

    def _walk(self, kind: int, deep: int) -> None:
        """Go on to the end of a value."""
        if deep == 0:
            raise BadCallError("it is nested too deeply")
        if kind in _SIZES:
            self._take(_SIZES[kind])
        elif kind == _STRING:
            self._take(self._size())
        elif kind == _STRUCT:
            while (field := self._number(">B")) != _STOP:
                self._take(2)
                self._walk(field, deep - 1)
        elif kind in (_LIST, _SET, _MAP):
            kinds = [self._number(">B") for _ in range(2 if kind == _MAP else 1)]
            for _ in range(self._size()):  # each takes a byte at least: what is no type is refused
                for one in kinds:
                    self._walk(one, deep - 1)
        else:
            raise BadCallError(f"there is no type {kind}")

    def _size(self) -> int:
        size = self._number(">i")
        if not 0 <= size <= LARGEST:
            raise BadCallError(f"something in it has {size} bytes or elements")
        return size

    def _number(self, form: str) -> int:
        found: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return found

    def _take(self, size: int) -> bytes:
        """Return so many bytes more, unless they are a long text's; wait for what is to come."""
        end = self._at + size
        if end > LARGEST:
            raise BadCallError(f"it has more than {LARGEST} bytes")
        while len(self._came) < end:
            self._receive()
        found = bytes(self._came[self._at : end]) if size <= _PIECE else b""
        self._at = end
        return found

    def _receive(self) -> None:
        left = None
        if self._came:
            now = time.monotonic()
            self._until = self._until or now + PATIENCE
            left = max(0.0, self._until - now)
        self._connection.settimeout(left)
        try:
            piece = self._connection.recv(_PIECE) if left != 0 else None
        except TimeoutError:
            piece = None
        if piece is None:
            raise BadCallError(f"it was not here within {PATIENCE:g} s")
        if not piece:
            raise EOFError
        self._came += piece
