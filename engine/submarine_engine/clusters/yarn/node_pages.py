"""NodeManagers' web pages: a kept connection, logs of running containers by byte offset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from submarine_engine.clusters.log_mirror import LogsGoneError, LogTruncatedError
from submarine_engine.clusters.yarn.log_format import LARGEST, Tail, application_of, read_header
from submarine_engine.errors import ClusterError
from submarine_engine.kerberos import Handshake
from submarine_engine.trust import untrusted

if TYPE_CHECKING:
    import ssl

# One kept connection to a NodeManager's web pages.


_CONNECT = 3.0  # seconds: a SYN that is lost comes again after one; a job's turn waits for this
_REFUSES = 300
_REST = 0.25  # seconds for the rest of an answer: connecting anew takes less than a longer wait
_LARGEST_REST = 1 << 20


class NodeConnection:
    """Asks one thing after the other, over one connection where the node keeps it open.

    No proxy of the environment is used: nodes are asked by the names that the cluster gives them.

    Parameters
    ----------
    address
        ``host:port``, or a URL of scheme ``http`` or ``https``.
    user
        For YARN's simple authentication; empty for none. None where the ticket says who asks.
    timeout
        Seconds to wait for the next bytes of an answer.
    tls
        What an ``https`` page is checked with; an address without a scheme is ``https`` then.

    Raises
    ------
    ClusterError
        `address` is none.
    """

    def __init__(
        self, address: str, *, user: str | None, timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        wrong = ClusterError(f"{address!r} is not the web address of a node")
        try:
            scheme = "http" if tls is None else "https"
            parts = urlsplit(address if "://" in address else f"{scheme}://{address}")
            host, port = parts.hostname, parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not host:
            raise wrong
        self.where = f"node {parts.netloc}"
        self._secure = parts.scheme == "https"
        self._tls = tls
        self._host: str = host
        self._port = port
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

        Parameters
        ----------
        path
            Absolute, quoted as an address has it.
        query
            What follows the ``?`` of the address, quoted likewise; empty for none.

        Raises
        ------
        ClusterError
            The node cannot be reached, or does not answer in time.
        """
        self._finish_answer()
        if self._user:
            query = "&".join([*filter(None, [query]), f"user.name={quote(self._user, safe='')}"])
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
        if (wrong := untrusted(error, self.where)) is not None:
            return wrong
        reason = str(error) or type(error).__name__
        return ClusterError(
            f"the node does not answer: {reason}",
            where=self.where,
            fix="is its NodeManager up, and can its web page be reached from here?",
        )

    def _connect(self) -> HTTPConnection:
        patience = min(_CONNECT, self._timeout)
        connection = (
            HTTPSConnection(self._host, self._port, timeout=patience, context=self._tls)
            if self._secure
            else HTTPConnection(self._host, self._port, timeout=patience)
        )
        connection.connect()
        connection.sock.settimeout(self._timeout)
        return connection

    def _ask(self, connection: HTTPConnection, target: str) -> HTTPResponse:
        headers = {"Accept": "application/json, text/plain", "Accept-Encoding": "identity"}
        proof = Handshake(self._host) if self._user is None else None
        if proof is not None:
            headers["Authorization"] = proof.header
        connection.request("GET", target, headers=headers)
        self._response = connection.getresponse()
        if proof is not None and self._response.status < _REFUSES:
            try:
                proof.verify(self._response.getheader("WWW-Authenticate"))
            except ClusterError:
                self.close()
                raise
        return self._response

    def _finish_answer(self) -> None:
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


# Logs of running containers, by byte offset, from the NodeManager's REST pages.
#
# ``/ws/v1/node/containers/<container>`` tells whether it has begun: whoever asks for its logs
# before that fills the node's own log with stack traces. ``…/logs`` lists its files with their
# sizes, and ``…/logs/<file>?size=-N`` gives the last N bytes (``NMWebServices``). The header tells
# the length of the whole log at that moment, so that one knows which bytes these are: a log may
# grow between two requests, and within one.


PIECE = 1 << 20
_LARGEST_LIST = 1 << 22
_LEAST_SLACK = 1 << 12
_ATTEMPTS = 8  # a log may have grown by more than was asked for between two of them, not always
_MOST_SIZES = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_OK = 200
_NOT_THERE = (404, 503)
_REDIRECTS = range(300, 400)
# `ContainerState` of Hadoop's NodeManager
_NOT_BEGUN = ("NEW", "LOCALIZING", "LOCALIZATION_FAILED", "SCHEDULED")


class NodeLogs:
    """The logs on one node. For one thread at a time.

    Parameters
    ----------
    address
        The NodeManager's web address, as the ResourceManager gives it: ``host:port``, or a URL.
    user
        As `NodeConnection` has it.
    timeout
        Seconds to wait for the next bytes of an answer.
    tls
        As `NodeConnection` has it.
    """

    def __init__(
        self,
        address: str,
        *,
        user: str | None = "",
        timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._connection = NodeConnection(address, user=user, timeout=timeout, tls=tls)
        self._sizes: dict[tuple[str, str], int] = {}
        self._slack = _LEAST_SLACK
        self._tail: Tail | None = None
        self._begun: set[str] = set()

    def close(self) -> None:
        """Close the connection; the next call opens one anew."""
        self._tail = None
        self._connection.close()

    def files(self, container: str) -> dict[str, int]:
        """Return the size in bytes of each file in the container's log folder.

        Returns
        -------
        dict of str to int
            Empty where the node knows nothing of the container: it has not begun there yet, or
            its application is over.

        Raises
        ------
        ClusterError
            The node does not answer, refuses, or answers nonsense.
        """
        if container not in self._begun and not self._has_begun(container):
            return {}
        response = self._get(f"{_path(container)}/logs")
        if response.status in _NOT_THERE or response.status in _REDIRECTS:
            return {}
        self._expect_ok(response)
        files = dict(_sizes(self._connection.body(_LARGEST_LIST), self._connection.where))
        if len(self._sizes) > _MOST_SIZES:
            self._sizes.clear()
        self._sizes.update({(container, name): size for name, size in files.items()})
        return files

    def read(self, container: str, name: str, offset: int, limit: int = PIECE) -> bytes:
        """Return bytes of a file from `offset` on: at most `limit`, none where none are there yet.

        A call that begins where the last one ended goes on with the same answer of the node.

        Parameters
        ----------
        container
            Its id.
        name
            The file's, as ``stdout``.
        offset, limit
            In bytes.

        Raises
        ------
        LogsGoneError
            The node has no such file, or has it no more.
        LogTruncatedError
            The file is shorter than `offset`.
        ClusterError
            The node does not answer, refuses, or answers nonsense.
        """
        if offset < 0 or limit <= 0:
            raise ValueError(f"no bytes from {offset} to {offset + limit}")
        key = container, name
        if self._tail is None or (self._tail.key, self._tail.offset) != (key, offset):
            self._tail = self._open(key, offset)
        if self._tail is None:
            return b""
        try:
            data = self._tail.read(limit)
        except (OSError, HTTPException) as error:
            self.close()
            raise self._connection.silent(error) from error
        except ClusterError:
            self.close()
            raise
        if not self._tail.remaining:
            self._tail = None
        return data

    def _has_begun(self, container: str) -> bool:
        """Return whether there may be logs of a container; of one the node does not know, too."""
        response = self._get(_path(container))
        if response.status != _OK:
            return True
        with suppress(ValueError, KeyError, TypeError):
            told = json.loads(self._connection.body(_LARGEST_LIST))
            if str(told["container"]["state"]) in _NOT_BEGUN:
                return False
        self._begun.add(container)
        return True

    def _open(self, key: tuple[str, str], offset: int) -> Tail | None:
        """Ask for the log from `offset`, or a little before, to its end; None where that is all."""
        known = max(self._sizes.get(key, 0), offset)
        wanted = known - offset + self._slack
        for _ in range(_ATTEMPTS):
            response, length = self._ask(key, wanted)
            self._sizes[key] = length
            if length < offset:
                raise LogTruncatedError(
                    f"{key[1]} of {key[0]} has {length} bytes, {offset} were read of it",
                    where=self._connection.where,
                )
            if length == offset:
                return None
            begins = max(0, length - wanted)
            growth = max(0, length - known)
            self._slack = max(_LEAST_SLACK, 2 * growth)
            if begins <= offset:
                return Tail(response, key, begins, length, offset)
            # The log grew by more than the slack since its size was seen.
            known, wanted = length, length - offset + 4 * growth
        raise ClusterError(f"{key[1]} of {key[0]} grows too fast", where=self._connection.where)

    def _ask(self, key: tuple[str, str], wanted: int) -> tuple[HTTPResponse, int]:
        """Ask for the last `wanted` bytes; return the answer and the length of the whole log."""
        container, name = key
        if not _NAME.fullmatch(name):
            raise ClusterError(f"{name!r} is not the name of a log", where=self._connection.where)
        response = self._get(f"{_path(container)}/logs/{name}", f"size=-{wanted}")
        if response.status in _NOT_THERE or response.status in _REDIRECTS:
            raise LogsGoneError(
                f"{name} of {container} is not on the node", where=self._connection.where
            )
        self._expect_ok(response)
        try:
            header = read_header(response.readline)
        except (OSError, HTTPException) as error:
            self.close()
            raise self._connection.silent(error) from error
        if header is None:
            return response, 0
        if header.name != name or header.kind == "AGGREGATED":
            raise LogsGoneError(
                f"{name} of {container} is not on the node's own disk",
                where=self._connection.where,
            )
        return response, header.length

    def _get(self, path: str, query: str = "") -> HTTPResponse:
        if self._tail is not None:
            # Its answer is not read to the end; the connection cannot be used for another.
            self.close()
        return self._connection.get(f"/ws/v1/node/containers/{path}", query)

    def _expect_ok(self, response: HTTPResponse) -> None:
        if response.status in (401, 403):
            raise ClusterError(
                f"the node refuses to show logs (HTTP {response.status})",
                where=self._connection.where,
                fix="does it want Kerberos, or another user? Logs can come by HDFS instead",
            )
        if response.status != _OK:
            raise ClusterError(
                f"the node answers HTTP {response.status}", where=self._connection.where
            )


class NodeSource:
    """The logs of one container on its node, as `LogMirror` takes them.

    Parameters
    ----------
    logs
        Of the container's node.
    container
        YARN's id of it.
    """

    live = True
    complete = True

    def __init__(self, logs: NodeLogs, container: str) -> None:
        self.container = container
        self._logs = logs

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file."""
        return self._logs.files(self.container)

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file `name` from `offset` on, see `NodeLogs.read`."""
        return self._logs.read(self.container, name, offset, limit)

    def close(self) -> None:
        """Close the connection to the node."""
        self._logs.close()


def _path(container: str) -> str:
    application_of(container)
    return container


def _sizes(data: bytes, where: str) -> Iterator[tuple[str, int]]:
    """Yield name and size of the files on the node's own disk.

    One thing is an object, several are a list, none are left out (Jersey's JSON of Hadoop 3).
    """
    try:
        for info in _several(json.loads(data)["containerLogsInfo"]):
            if info.get("logAggregationType", "LOCAL") == "LOCAL":
                for file in _several(info.get("containerLogInfo", [])):
                    name, size = str(file["fileName"]), int(str(file["fileSize"]))
                    if _NAME.fullmatch(name) and 0 <= size <= LARGEST:
                        yield name, size
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ClusterError("the node's list of logs cannot be read", where=where) from error


def _several(data: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever the node answers
    return data if isinstance(data, list) else [data]
