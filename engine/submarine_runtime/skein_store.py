"""Reads and writes the small messages of a YARN container in its application's master.

`relay`, `saving` and `task` use it: the master has a key-value store.

The driver reaches that master wherever it can ask for containers at all, and a container reaches it
as it reaches the job's other containers. So neither nodes' pages nor WebHDFS is needed for it.

The master speaks gRPC. What is spoken of it here is the least that its store needs: one call after
another on one connection of HTTP/2 by TLS, with messages of two or three fields.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator

MASTER = "SKEIN_APPMASTER_ADDRESS"
PREFIX = "submarine"

_TIMEOUT = 20.0  # seconds without a byte: a master whose node is lost closes no connection
_NAME = "skein-internal"  # of the application's own certificate
_PUT = "/skein.AppMaster/PutKey"
_GET = "/skein.AppMaster/GetRange"
_TAKE = "/skein.AppMaster/DeleteRange"
_ITEMS = b"\x18\x01"  # a field: `result_type` of what is taken
_KEYS = b"\x18\x01"  # of what is asked for, where the same number means another thing

# Frames of HTTP/2, RFC 9113: types, flags and the two settings that we change.
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK, _PADDED = 1, 4, 1, 8
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_NO_PUSH, _INITIAL_WINDOW = (2, 0), (4, 1 << 24)
_MOST = 1 << 24


def key(job_id: str, container: str, name: str = "") -> str:
    """Return where a message of a container is in the store; all of a container's without a name.

    By the container, not by the task: what one that was given back has said is not its successor's.

    Parameters
    ----------
    job_id
        Whose container it is.
    container
        Its id on YARN.
    name
        The message's.
    """
    return f"{PREFIX}/{job_id}/{container}/{name}"


class Store:
    """Brings a container's messages, as `exchange.Carrier`.

    Parameters
    ----------
    job_id
        Whose container it is.
    credentials
        The folder with the application's certificate and key, as skein puts them there.
    """

    def __init__(self, job_id: str, credentials: str) -> None:
        self._job_id = job_id
        self._container = os.environ["CONTAINER_ID"]
        self._address = os.environ[MASTER]
        # It trusts the application's own certificate, which is nobody else's.
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(f"{credentials}/.skein.crt")
        self._context.check_hostname = False  # who holds its key is its master
        self._context.load_cert_chain(f"{credentials}/.skein.crt", f"{credentials}/.skein.pem")
        self._context.set_alpn_protocols(["h2"])
        self._connection: _Connection | None = None

    def say(self, name: str, data: bytes) -> None:
        """Put `data` into the store as the message `name`."""
        where = key(self._job_id, self._container, name).encode()
        self._call(_PUT, _field(1, where) + _field(2, data))

    def hear(self, name: str) -> bytes | None:
        """Get the message `name` from the store; None where it has none."""
        return self._call_for_value(_GET, name)

    def take(self, name: str) -> bytes | None:
        """Get the message `name` and take it out, so that the next look finds what came since."""
        return self._call_for_value(_TAKE, name, _ITEMS)

    def names(self) -> set[str]:
        """Return which messages of this container the store has: in one call, and none of them."""
        all_of = key(self._job_id, self._container).encode()
        # The slash that they all begin with, and then the character after it.
        beyond = all_of[:-1] + bytes([all_of[-1] + 1])
        found = self._call(_GET, _field(1, all_of) + _field(2, beyond) + _KEYS)
        items = [dict(_fields(item)) for item in _results(found)]
        return {bytes(item[1])[len(all_of) :].decode() for item in items}

    def _call_for_value(self, path: str, name: str, more: bytes = b"") -> bytes | None:
        where = key(self._job_id, self._container, name).encode()
        found = self._call(path, _field(1, where) + _field(2, where + b"\0") + more)
        for item in _results(found):
            return dict(_fields(item)).get(2, b"")  # type: ignore[return-value]
        return None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(self, path: str, request: bytes) -> bytes:
        try:
            self._connection = self._connection or _Connection(self._address, self._context)
            return self._connection.call(path, request)
        except BaseException:
            self.close()
            raise


class _Connection:
    """One connection to the master, for one call after another."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        host, _, port = address.rpartition(":")
        self._buffer = b""
        self._stream = -1
        plain = socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        settings = b"".join(struct.pack(">HI", *one) for one in (_NO_PUSH, _INITIAL_WINDOW))
        window = struct.pack(">I", _MOST)
        self._socket.sendall(
            _PREFACE + _frame(_SETTINGS, 0, 0, settings) + _frame(_WINDOW, 0, 0, window)
        )

    def close(self) -> None:
        self._socket.close()

    def call(self, path: str, request: bytes) -> bytes:
        """Return the answer to a call; OSError where there is none."""
        self._stream += 2
        head = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", _NAME),
                ("te", "trailers"), ("content-type", "application/grpc")]  # fmt: skip
        # Each as it is, neither compressed nor remembered (RFC 7541, 6.2.2).
        headers = b"".join(b"\0" + _text(name) + _text(value) for name, value in head)
        message = b"\0" + struct.pack(">I", len(request)) + request
        self._socket.sendall(
            _frame(_HEADERS, _END_HEADERS, self._stream, headers)
            + _frame(_DATA, _END_STREAM, self._stream, message)
        )
        return self._answer()

    def _answer(self) -> bytes:
        found = b""
        while True:
            kind, flags, stream, data = self._next()
            if kind == _SETTINGS and not flags & _ACK:
                self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                self._socket.sendall(_frame(_PING, _ACK, 0, data))
            elif kind == _GOAWAY or (kind == _RESET and stream == self._stream):
                raise OSError("the application's master has ended the call")
            elif stream == self._stream and kind in (_DATA, _HEADERS):
                if kind == _DATA:
                    found += data[1 : len(data) - data[0]] if flags & _PADDED else data
                if len(found) > _MOST:
                    raise OSError("the application's master sends more than was asked for")
                if flags & _END_STREAM:
                    break
        # An error has no message: its words are in compressed headers, and the master's log.
        if len(found) < 5 or found[0] or len(found) != 5 + int.from_bytes(found[1:5], "big"):  # noqa: PLR2004 - a flag and a size
            raise OSError("the application's master refuses the call")
        self._socket.sendall(_frame(_WINDOW, 0, 0, struct.pack(">I", len(found))))  # as much again
        return found[5:]

    def _next(self) -> tuple[int, int, int, bytes]:
        head = self._read(9)
        return (
            head[3],
            head[4],
            int.from_bytes(head[5:], "big"),
            self._read(int.from_bytes(head[:3], "big")),
        )

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self._socket.recv(1 << 16)
            if not data:
                raise OSError("the application's master has closed the connection")
            self._buffer += data
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


def _text(text: str) -> bytes:
    """Write a text of less than 127 bytes as headers have it."""
    return bytes([len(text)]) + text.encode()


# Messages of protocol buffers: fields of numbers and bytes.


def _results(found: bytes) -> Iterator[bytes]:
    """Yield what a range of the store holds: a message of key and value each."""
    for number, item in _fields(found):
        if number == 3 and isinstance(item, bytes):  # noqa: PLR2004 - `result`
            yield item


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message; OSError where it is none."""
    at = 0
    try:
        while at < len(data):
            tag, at = _number(data, at)
            value, at = _number(data, at)
            if tag & 7 == 0:
                yield tag >> 3, value
            elif tag & 7 == 2:  # noqa: PLR2004 - bytes of a length
                yield tag >> 3, data[at : at + value]
                at += value
            else:
                raise OSError("the answer of the application's master cannot be read")
    except IndexError as error:
        raise OSError("the answer of the application's master cannot be read") from error


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while data[at] & 0x80:
        found |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return found | data[at] << shift, at + 1
