"""Writing to HDFS by WebHDFS with the standard library alone."""

from __future__ import annotations

import os
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urljoin, urlsplit

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from io import BufferedReader

_TIMEOUT = 20
_FOUND = range(300, 400)
_DONE = (200, 201)
_LONGEST = 400
_BLOCK = 1 << 20


class WebFolder:
    """A folder in HDFS that files are written to.

    Parameters
    ----------
    urls
        Addresses of a folder by WebHDFS, with ``op`` and who asks in their queries, separated by
        spaces (those of an HA pair): the first that does it is kept to.
    below
        Name of the folder in that one that is meant; it is made with the first file.
    """

    def __init__(self, urls: str, below: str = "") -> None:
        self._folders = []
        for url in urls.split():
            address, _, query = url.partition("?")
            who = [pair for pair in query.split("&") if pair and not pair.startswith("op=")]
            folder = f"{address.rstrip('/')}/{quote(below)}".rstrip("/")
            self._folders.append((folder, "&".join(who)))

    def create(self, name: str, data: bytes | BufferedReader) -> None:
        """Write a file; what was there of that name is replaced.

        Parameters
        ----------
        data
            Its content; or an open file that does not change, which is not read into memory.

        Raises
        ------
        OSError
            It is not certain that it was written.
        """
        self._write("PUT", name, "op=CREATE&overwrite=true&permission=600", data)

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file.

        Raises
        ------
        OSError
            It is not certain that it was written, nor that it was not.
        """
        self._write("POST", name, "op=APPEND", data)

    def replace(self, name: str, data: bytes | BufferedReader) -> None:
        """Write a file as `create`, so that readers see all of it, or what was there before.

        Raises
        ------
        OSError
            It is not certain that it was written.
        """
        aside = f"{name}@part"
        self.create(aside, data)
        folder = urlsplit(self._folders[0][0]).path.partition("/webhdfs/v1")[2]  # quoted already
        there = f"{folder}/{quote(name)}"
        self._ask("PUT", aside, f"op=RENAME&destination={there}&renameoptions=OVERWRITE")

    def _write(self, method: str, name: str, query: str, data: bytes | BufferedReader) -> None:
        there = self._ask(method, name, query, expected=_FOUND)
        # The NameNode says which DataNode takes the bytes.
        _exchange(method, there, data, _DONE)

    def _ask(self, method: str, name: str, query: str, expected: object = _DONE) -> str:
        for _ in self._folders[1:]:
            with suppress(OSError):
                return self._ask_first(method, name, query, expected)
            self._folders.append(self._folders.pop(0))  # of an HA pair the other is active
        return self._ask_first(method, name, query, expected)

    def _ask_first(self, method: str, name: str, query: str, expected: object) -> str:
        folder, who = self._folders[0]
        return _exchange(method, f"{folder}/{quote(name)}?{query}&{who}", b"", expected)


def _exchange(method: str, url: str, data: bytes | BufferedReader, expected: object) -> str:
    """Send `data`; return where the answer leads to, empty where it leads nowhere."""
    where = urlsplit(url)
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    connection = kind(where.netloc, timeout=_TIMEOUT, blocksize=_BLOCK)
    size = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
    try:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        connection.request(method, f"{where.path}?{where.query}", data, headers)
        answer = connection.getresponse()
        words = answer.read(_LONGEST).decode("utf-8", "replace")
        if answer.status not in expected:  # type: ignore[operator]
            raise OSError(f"{where.netloc}{where.path}: {answer.status} {words}")
        return urljoin(url, answer.getheader("Location") or "")
    except HTTPException as error:
        raise OSError(f"{where.netloc}{where.path}: {error or type(error).__name__}") from error
    finally:
        connection.close()
