"""The bytes of a log out of one answer, told apart from what Hadoop puts around them."""

from __future__ import annotations

from http.client import HTTPResponse

from submarine_engine.clusters.yarn.logpage import trailer
from submarine_engine.errors import ClusterError

_GUARD = 1 << 12


class Tail:
    """The rest of a log, read piece by piece.

    Bytes are given out only when it is certain that they are the log's. Where a file is cut while
    the node sends it, an older NodeManager sends less than it has announced, and the trailer
    would be taken for log: so a trailer's length is always held back until the end is seen.

    Parameters
    ----------
    response
        The answer, read up to the log's first byte.
    key
        Container and file.
    begins, length
        The answer holds the log's bytes from `begins` to `length`.
    offset
        Bytes from here on are wanted.
    """

    def __init__(
        self, response: HTTPResponse, key: tuple[str, str], begins: int, length: int, offset: int
    ) -> None:
        self.key = key
        self.offset = offset
        self.remaining = length - offset
        self._response = response
        self._trailer = trailer(key[1])
        self._buffer = bytearray()
        self._skip = offset - begins

    def read(self, limit: int) -> bytes:
        """Return the next bytes, at most `limit`.

        Raises
        ------
        OSError, HTTPException
            The answer breaks off; nothing of it that was not given out may be used.
        ClusterError
            The log was cut while it was sent.
        """
        size = min(limit, self.remaining)
        whole = self.remaining + len(self._trailer)
        needed = self._skip + min(size + _GUARD, whole)
        while len(self._buffer) < needed:
            piece = self._response.read1(max(1 << 16, needed - len(self._buffer)))
            if not piece:
                raise ClusterError(f"{self.key[1]} of {self.key[0]} was cut while it was read")
            self._buffer += piece
        end = self._skip + self.remaining
        if needed == self._skip + whole and not self._buffer.startswith(self._trailer, end):
            raise ClusterError(f"{self.key[1]} of {self.key[0]} was cut while it was read")
        data = bytes(memoryview(self._buffer)[self._skip : self._skip + size])
        del self._buffer[: self._skip + size]
        self._skip = 0
        self.offset += size
        self.remaining -= size
        return data
