"""Frames on a connection into a running job, as both of its ends read and write them.

`inside` uses it in the job, `submarine_engine.inside` on the user's side. A frame is one byte for
its kind, four for its size, then its data. Who connects says `BEGIN` first, with JSON: what is to
run, or which port is meant. Neither end trusts the other: a frame that is too large ends the
connection.
"""

from __future__ import annotations

import errno
import select
import socket
import struct

VERSION = 1

# What the client says.
BEGIN, INPUT, INPUT_END, SIZE, INTERRUPT = b"B", b"I", b"E", b"W", b"S"
# What the server says. `BEGUN` comes before all else, unless `REFUSED` comes in its place.
BEGUN, OUTPUT, ERRORS, EXIT, REFUSED = b"b", b"o", b"e", b"x", b"r"

NO_PROGRAM = "there is no such program"
"""Of the words of `REFUSED`, where that is why."""

PIECE = 1 << 16
"""Bytes that a frame of data has at most."""

MUCH = 1 << 20
"""Bytes on their way, from which on no more are taken: whoever reads slowly slows who writes."""

KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
"""What TCP is asked for: a machine that is gone says nothing of it."""

_HEAD = struct.Struct(">cI")
_LARGEST = 1 << 20


class Channel:
    """One end of a connection; none of its methods waits.

    Parameters
    ----------
    connection
        A socket, by TLS or not, past its handshake.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._came = bytearray()
        self._goes = bytearray()
        self.over = False
        """Whether the other end is gone."""

    def fileno(self) -> int:
        """Return the descriptor, for `select.poll`."""
        return self._connection.fileno()

    @property
    def waiting(self) -> int:
        """Bytes that the other end has not taken yet."""
        return len(self._goes)

    @property
    def events(self) -> int:
        """What to wait for, as of `select.poll`."""
        return select.POLLIN | (select.POLLOUT if self._goes else 0)

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a frame, as far as that can be done now; `flush` sends the rest.

        Parameters
        ----------
        kind
            One of the bytes above, such as `OUTPUT`.
        data
            Its content, 1 MiB at most.

        Raises
        ------
        OSError
            It is larger, nothing is sent: the other end would take the connection for over.
        """
        if len(data) > _LARGEST:
            words = f"{len(data):,} bytes are more than the {_LARGEST:,} that can be said at once"
            raise OSError(errno.E2BIG, words)
        self._goes += _HEAD.pack(kind, len(data)) + data
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the other end takes it."""
        try:
            while self._goes and not self.over:
                sent = self._connection.send(memoryview(self._goes)[:PIECE].tobytes())
                del self._goes[:sent]
        except OSError as error:
            if not _is_pending(error):
                self._end()

    def read(self) -> list[tuple[bytes, bytes]]:
        """Return the frames that are there, each with its kind."""
        self._receive()
        found = []
        while frame := self._frame():
            found.append(frame)
        return found

    def read_one(self) -> tuple[bytes, bytes] | None:
        """Return the next frame, and leave those after it; None where it is not there yet."""
        if (frame := self._frame()) is None:
            self._receive()
            frame = self._frame()
        return frame

    def _receive(self) -> None:
        size = 0
        try:
            while not self.over and size < MUCH:
                data = self._connection.recv(PIECE)
                if not data:
                    self._end()
                self._came += data
                size += len(data)
        except OSError as error:
            if not _is_pending(error):
                self._end()

    def _frame(self) -> tuple[bytes, bytes] | None:
        if len(self._came) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._came)
        end = _HEAD.size + length
        if length > _LARGEST:
            self._came.clear()
            self._end()
            return None
        if len(self._came) < end:
            return None
        data = bytes(self._came[_HEAD.size : end])
        del self._came[:end]
        return kind, data

    def _end(self) -> None:
        self.over = True
        self._goes.clear()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _is_pending(error: OSError) -> bool:
    """Return whether the same call works later; by name, since `ssl` takes 30 ms to import."""
    pending = ("SSLWantReadError", "SSLWantWriteError")
    return isinstance(error, BlockingIOError) or type(error).__name__ in pending


def wait(channel: Channel, seconds: float | None = None) -> bool:
    """Wait until a channel has something, or takes something; whether it has.

    Parameters
    ----------
    channel
        Its `events` say what is waited for.
    seconds
        How long at most; None for no limit.
    """
    poll = select.poll()
    poll.register(channel, channel.events)
    return bool(poll.poll(None if seconds is None else max(0, int(seconds * 1000))))
