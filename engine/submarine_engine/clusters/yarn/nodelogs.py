"""Logs of running containers, by byte offset, from the NodeManager's REST pages.

``/ws/v1/node/containers/<container>`` tells whether it has begun: whoever asks for its logs before
that fills the node's own log with stack traces. ``…/logs`` lists its files with their sizes, and
``…/logs/<file>?size=-N`` gives the last N bytes (``NMWebServices``). The header tells the length of
the whole log at that moment, so that one knows which bytes these are: a log may grow between two
requests, and within one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import Any

from submarine_engine.clusters.yarn.logpage import (
    LARGEST,
    LogsGoneError,
    LogTruncatedError,
    application_of,
    read_header,
)
from submarine_engine.clusters.yarn.logtail import Tail
from submarine_engine.clusters.yarn.nodehttp import NodeConnection
from submarine_engine.errors import ClusterError

PIECE = 1 << 20
_LARGEST_LIST = 1 << 22
_LEAST_SLACK = 1 << 12
_ATTEMPTS = 8
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
        For YARN's simple authentication; empty for none.
    timeout
        Seconds to wait for the next bytes of an answer.
    """

    def __init__(self, address: str, *, user: str = "", timeout: float = 10.0) -> None:
        self._connection = NodeConnection(address, user=user, timeout=timeout)
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
    settled = True

    def __init__(self, logs: NodeLogs, container: str) -> None:
        self.container = container
        self._logs = logs

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file."""
        return self._logs.files(self.container)

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return bytes of a file, see `NodeLogs.read`."""
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
