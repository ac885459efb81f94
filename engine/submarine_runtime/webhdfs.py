"""HDFS by WebHDFS with the standard library alone: connections and downloads.

`container`, `ship` and `checkpoint_hdfs` use it in jobs, `submarine_engine.clusters.yarn` outside.
"""

from __future__ import annotations

import os

from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection
    from urllib.parse import SplitResult

CA_FILE = "cluster-ca.pem"
"""Certificates (PEM) of who certifies HDFS's ``https`` pages, in the container's folder.

Where there is none, whom this machine trusts.
"""

_TIMEOUT = 30  # seconds without a byte: then the next address is tried

_trusted: dict[str, ssl.SSLContext] = {}
"""What this process has read, by the container's folder."""


def ca_file() -> str:
    """Return the path of `CA_FILE`; empty where the container was sent none."""
    folder = os.environ.get(PLACE)
    path = f"{folder}/{CA_FILE}"
    return path if folder and os.path.exists(path) else ""  # noqa: PTH110 - pathlib is slow


def trusted() -> ssl.SSLContext:
    """Return what an ``https`` page of HDFS is checked with; read once.

    Raises
    ------
    OSError
        There are no certificates in the file.
    """
    import ssl  # noqa: PLC0415 - takes long to import

    folder = os.environ.get(PLACE, "")
    if folder not in _trusted:
        _trusted[folder] = ssl.create_default_context(cafile=ca_file() or None)
    return _trusted[folder]


def connect(where: SplitResult, timeout: float, blocksize: int = 8192) -> HTTPConnection:
    """Return a connection to a page of HDFS, which is made with the first request.

    Parameters
    ----------
    where
        Its address.
    timeout
        Seconds to wait for it, and between two bytes.
    blocksize
        Bytes of a file that are sent at once.

    Raises
    ------
    OSError
        It is ``https``, and there are no certificates in `CA_FILE`.
    """
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 - take long to import

    if where.scheme == "https":
        return HTTPSConnection(
            where.netloc, timeout=timeout, blocksize=blocksize, context=trusted()
        )
    return HTTPConnection(where.netloc, timeout=timeout, blocksize=blocksize)


def fetch(urls: str, path: str, digest: str = "") -> None:
    """Get a file by WebHDFS (``op=OPEN``), whole or not at all.

    Parameters
    ----------
    urls
        One address, or several separated by spaces (those of an HA pair): the first that answers.
    path
        Where to write the file, for its owner alone; written aside and renamed.
    digest
        Its SHA-256 in hexadecimal; empty for any.

    Raises
    ------
    OSError
        No address gave the file; the message says what each of them said, without the query, which
        may hold a token.
    """
    import time  # noqa: PLC0415 - takes long to import
    from http.client import HTTPException  # noqa: PLC0415 - likewise

    def try_to_get(url: str) -> str:
        try:
            _get(url, path, digest, 3)
        except (OSError, HTTPException) as error:
            return f"{url.partition('?')[0]}: {error or type(error).__name__}"
        return ""

    for pause in 0.3, 1.0, 0.0:  # a NameNode that changes over; nothing comes after the last
        said = []
        for url in urls.split():
            error = try_to_get(url)
            if not error:
                return
            said.append(error)
        time.sleep(pause)
    raise OSError("; ".join(said))


def _get(url: str, path: str, digest: str, hops: int) -> None:
    import hashlib  # noqa: PLC0415 - takes long to import
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415 - likewise

    where = urlsplit(url)
    connection = connect(where, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"{where.path}?{where.query}")
        answer = connection.getresponse()
        there = answer.getheader("Location")
        if answer.status in {301, 302, 303, 307, 308} and there and hops:
            return _get(urljoin(url, there), path, digest, hops - 1)
        if answer.status != 200:  # noqa: PLR2004
            raise OSError(f"{answer.status} {answer.read(400).decode('utf-8', 'replace')}")
        aside = f"{path}.{os.getpid()}.part"
        sum_of = hashlib.sha256()
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            while piece := answer.read(1 << 20):
                sum_of.update(piece)
                f.write(piece)
        if answer.length:
            raise OSError(f"{answer.length} bytes are missing")
        if digest and sum_of.hexdigest() != digest:
            raise OSError("the file arrived damaged: its SHA-256 differs")
        os.replace(aside, path)  # noqa: PTH105 - pathlib takes long to import
    finally:
        connection.close()
