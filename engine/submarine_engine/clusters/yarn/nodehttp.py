"""One kept connection to a NodeManager's web pages."""

from __future__ import annotations

from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

from submarine_engine.errors import ClusterError

_CONNECT = 3.0
_REST = 0.25
_LARGEST_REST = 1 << 20


class NodeConnection:
    """Asks one thing after the other, over one connection where the node keeps it open.

    No proxy of the environment is used: nodes are asked by the names that the cluster gives them.

    Parameters
    ----------
    address
        ``host:port``, or a URL of scheme ``http`` or ``https``.
    user
        For YARN's simple authentication; empty for none.
    timeout
        Seconds to wait for the next bytes of an answer.

    Raises
    ------
    ClusterError
        `address` is none.
    """

    def __init__(self, address: str, *, user: str, timeout: float) -> None:
        wrong = ClusterError(f"{address!r} is not the web address of a node")
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not host:
            raise wrong
        self.where = f"node {parts.netloc}"
        self._secure = parts.scheme == "https"
        self._host, self._port = host, port
        self._user = user
        self._timeout = timeout
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None

    def close(self) -> None:
        """Close the connection, whatever is still under way."""
        self._response = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, query: str = "") -> HTTPResponse:
        """Ask for `path`; what was left of the last answer is thrown away.

        Redirections are answers like any other.

        Raises
        ------
        ClusterError
            The node cannot be reached, or does not answer in time.
        """
        self._settle()
        if self._user:
            query = f"{query}&user.name={quote(self._user, safe='')}"
        target = f"{path}?{query}" if query else path
        if self._connection is not None and self._connection.sock is not None:
            # A kept connection may be closed by now; that is found out by using it.
            with suppress(OSError, HTTPException):
                return self._ask(self._connection, target)
            self.close()
        try:
            self._connection = self._connect()
            return self._ask(self._connection, target)
        except (OSError, HTTPException) as error:
            self.close()
            raise self.silent(error) from error

    def body(self, largest: int) -> bytes:
        """Return all of the answer.

        Raises
        ------
        ClusterError
            It is larger than `largest` bytes, or breaks off.
        """
        assert self._response is not None  # noqa: S101 - after `get`
        try:
            data = self._response.read(largest + 1)
        except (OSError, HTTPException) as error:
            self.close()
            raise self.silent(error) from error
        if len(data) > largest:
            self.close()
            raise ClusterError(f"an answer of over {largest} bytes", where=self.where)
        return data

    def silent(self, error: Exception) -> ClusterError:
        """Return the error of a node that does not answer."""
        reason = str(error) or type(error).__name__
        return ClusterError(
            f"the node does not answer: {reason}",
            where=self.where,
            fix="is its NodeManager up, and can its web page be reached from here?",
        )

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=min(_CONNECT, self._timeout))
        connection.connect()
        connection.sock.settimeout(self._timeout)
        return connection

    def _ask(self, connection: HTTPConnection, target: str) -> HTTPResponse:
        headers = {"Accept": "application/json, text/plain", "Accept-Encoding": "identity"}
        connection.request("GET", target, headers=headers)
        self._response = connection.getresponse()
        return self._response

    def _settle(self) -> None:
        """Make the connection ready for the next question, or close it.

        A NodeManager asks HDFS for aggregated logs after it has sent its own, before it ends the
        answer: nobody waits long for that.
        """
        response, self._response = self._response, None
        if response is None or self._connection is None or response.isclosed():
            return
        left = _LARGEST_REST
        try:
            self._connection.sock.settimeout(_REST)
            while data := response.read1(1 << 16):
                left -= len(data)
                if left < 0:
                    self.close()
                    return
            response.read()  # `read1` does not see the end of an answer of known length
            self._connection.sock.settimeout(self._timeout)
        except (OSError, HTTPException, AttributeError):  # no socket: the node has closed it
            self.close()
