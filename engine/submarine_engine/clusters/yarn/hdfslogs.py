"""Logs of running containers by way of HDFS, where the nodes' own pages cannot be reached.

`submarine_runtime.ship` brings them there; its docstring says how they lie.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from submarine_engine.clusters.yarn.logpage import LogsGoneError
from submarine_engine.clusters.yarn.nodehttp import NodeConnection
from submarine_engine.errors import ClusterError

EVERY = 0.5
"""Seconds for which a listing is believed: the NameNode is everybody's."""

_OFFSET = 20
_OVER = "@over"


class _Entry(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def folder(self) -> bool: ...


class Files(Protocol):
    """What is needed of HDFS, as `submarine_engine.clusters.yarn.hdfs.Hdfs` has it."""

    def list(self, folder: str) -> Sequence[_Entry]:
        """Return what lies in `folder`."""

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file at `path`."""


class _Segment(NamedTuple):
    begins: int
    size: int
    path: str


class HdfsSource:
    """The files of one container as it brings them to HDFS, as `LogMirror` takes them.

    Parameters
    ----------
    files
        The user's HDFS.
    folder
        Where the container brings them.
    container
        YARN's id of it.
    """

    live = False  # it lags: what is shorter here was not truncated

    def __init__(self, files: Files, folder: str, container: str) -> None:
        self.container = container
        self._files = files
        self._folder = folder.rstrip("/")
        self._segments: dict[str, list[_Segment]] = {}
        self._listed = float("-inf")
        self._over = False

    @property
    def settled(self) -> bool:
        """Whether the container has brought all that it will bring."""
        return self._over

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file, as it was `EVERY` seconds ago at most."""
        if time.monotonic() - self._listed >= EVERY:
            entries = self._files.list(self._folder)
            self._over = any(entry.path.endswith(f"/{_OVER}") for entry in entries)
            self._segments = _by_name(entries)
            self._listed = time.monotonic()
        return {
            name: max(segment.begins + segment.size for segment in segments)
            for name, segments in self._segments.items()
        }

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file from `offset` on.

        Raises
        ------
        LogsGoneError
            There is no such file.
        """
        if name not in self._segments:
            raise LogsGoneError(f"{name} of {self.container} is not in {self._folder}")
        for begins, size, path in self._segments[name]:
            if begins <= offset < begins + size:
                return self._files.read(path, offset - begins, min(limit, begins + size - offset))
        return b""

    def close(self) -> None:
        """Close nothing: the way to HDFS is others', too."""


def _by_name(entries: Iterable[_Entry]) -> dict[str, list[_Segment]]:
    found: dict[str, list[_Segment]] = {}
    for entry in entries:
        name, at, begins = entry.path.rpartition("/")[2].partition("@")
        if entry.folder or (at and not (len(begins) == _OFFSET and begins.isdecimal())):
            continue
        found.setdefault(name, []).append(_Segment(int(begins or 0), entry.size, entry.path))
    return found


class Channel(Enum):
    """The ways on which logs of running containers can come."""

    NODES = "from the nodes' own pages"
    HDFS = "by way of HDFS"
    AFTER = "after the end only, from log aggregation"


class Choice(NamedTuple):
    """A way, and why it is this one, in words."""

    channel: Channel
    why: str


def choose_channel(
    nodes: Sequence[str], hdfs: Callable[[], bool], *, user: str = "", timeout: float = 2.0
) -> Choice:
    """Find out on which way logs can come from here.

    Parameters
    ----------
    nodes
        Web addresses of running nodes; a few are tried.
    hdfs
        Tells whether HDFS answers here; asked only where no node does.
    user
        For YARN's simple authentication.
    timeout
        Seconds for each node.
    """
    silent = ""
    for address in nodes[:3]:
        wrong = _wrong_with(address, user, timeout)
        if not wrong:
            return Choice(Channel.NODES, f"{address} answers")
        silent = silent or wrong
    silent = silent or "no node runs"
    if hdfs():
        return Choice(Channel.HDFS, silent)
    return Choice(Channel.AFTER, f"{silent}; HDFS cannot be reached either")


def _wrong_with(address: str, user: str, timeout: float) -> str:
    """Return why a node's pages cannot be used; empty where they can."""
    try:
        connection = NodeConnection(address, user=user, timeout=timeout)
        status = connection.get("/ws/v1/node/info").status
        connection.close()
    except ClusterError as error:
        return f"{error.where or address}: {error.what}"
    return "" if status == 200 else f"node {address}: it answers HTTP {status}"  # noqa: PLR2004
