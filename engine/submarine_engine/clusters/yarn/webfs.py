"""fsspec's WebHDFS as it has to be here: no proxies, no waiting for ever, files in two requests.

Imported late: fsspec and requests come with the extra ``yarn``.
"""

from __future__ import annotations

from collections.abc import Callable
from io import FileIO
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import requests
from fsspec.implementations.webhdfs import WebHDFS
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.delegation import Delegation

_CONNECT, _READ = 5.0, 60.0
"""Seconds: a host that is down says nothing, and is soon given up; a DataNode that passes a block
on answers when the last of those that take it has."""
_CHUNK = 1 << 20
_REFUSED = "InvalidToken"
"""Of a token that HDFS does not know, or no more: in the words of Hadoop's own exception."""


class QuietWebHDFS(WebHDFS):  # type: ignore[misc] # fsspec is not typed
    """`fsspec`'s file system for one NameNode.

    Errors are fsspec's and requests' own; `submarine_engine.clusters.yarn.hdfs` translates them.
    """

    cachable = False  # every reader has connections of its own
    kerb: bool
    tokens: Delegation | None = None
    """By which files are read and written where HDFS asks for Kerberos.

    To each such request by a ticket the NameNode makes a token for the DataNode, and keeps it for a
    day: thousands, of a log that is read as it grows.
    """

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path  # `Hdfs` has; and to fsspec all after a ? would be a query

    def _connect(self) -> None:
        secure = self.kerb
        self.kerb = False  # fsspec has a package of its own for it
        super()._connect()
        self.kerb = secure
        # A proxy of the environment leads out of the cluster, never into it.
        self.session.trust_env = False
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Impatient())

    def ask(self, op: str, path: str = "/", **arguments: object) -> dict[str, object]:
        """Return what the NameNode answers to an operation that reads."""
        answer: dict[str, object] = self._call(op, path=path, **arguments).json()
        return answer

    def change(self, op: str, path: str, **arguments: object) -> bool:
        """Have the NameNode change something; return whether it did."""
        answer = self._call(op, method="put", path=path, **arguments)
        return not answer.content or bool(answer.json().get("boolean", True))

    def create(self, path: str, data: bytes | BinaryIO | FileIO, permission: str) -> None:
        """Write a file as one stream (fsspec's own files take a request more for every 5 MB).

        Parameters
        ----------
        path
            Absolute, without the address.
        data
            What it is to hold.
        permission
            As HDFS writes it: ``600``.
        """
        there = self._to_data(
            "CREATE",
            method="put",
            path=path,
            redirect=False,
            overwrite="true",
            permission=permission,
        ).headers["Location"]
        kind = {"content-type": "application/octet-stream"}
        # The address has a token in it, and a DataNode speaks no SPNEGO.
        self.session.put(
            there, data=data, headers=kind, allow_redirects=False, auth=_as_it_is
        ).raise_for_status()

    def read_some(self, path: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file from `offset` on.

        Parameters
        ----------
        path
            Which file.
        offset, limit
            In bytes.
        """
        content: bytes = self._to_data("OPEN", path=path, offset=offset, length=limit).content
        return content

    def read_into(self, path: str, write: Callable[[bytes], object]) -> None:
        """Read a file as one stream."""
        there = self._to_data("OPEN", path=path, redirect=False).headers["Location"]
        with self.session.get(there, stream=True, auth=_as_it_is) as answer:
            if not answer.ok:
                _ = answer.content  # what HDFS says, for the error
            answer.raise_for_status()
            for piece in answer.iter_content(_CHUNK):
                write(piece)

    def _to_data(self, op: str, **arguments: object) -> requests.Response:
        """Ask the NameNode for what a DataNode does."""
        if self.tokens is None:
            return cast("requests.Response", self._call(op, **arguments))
        token = self.tokens.current()
        try:
            return cast("requests.Response", self._call(op, **arguments, delegation=token))
        except (PermissionError, RuntimeError) as error:
            if _REFUSED not in str(error):
                raise
        self.tokens.forget(token)  # somebody has cancelled it, or HDFS was made anew
        token = self.tokens.current()
        return cast("requests.Response", self._call(op, **arguments, delegation=token))


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Authenticate nothing, where the session would."""
    return request


class _Impatient(HTTPAdapter):
    """Limits the wait for an answer: requests itself has no limit."""

    def send(self, *args: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - requests' own
        options["timeout"] = options.get("timeout") or (_CONNECT, _READ)
        return super().send(*args, **options)
