"""A file from HDFS with the standard library alone."""

from __future__ import annotations


def fetch(urls: str, path: str, digest: str = "") -> None:  # noqa: C901 - it has to stand alone
    """Get a file by WebHDFS (``op=OPEN``), whole or not at all.

    It stands alone, so that its source can be sent to where nothing of this package is yet.

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
    import hashlib  # noqa: PLC0415 - self-contained, here and below
    import os  # noqa: PLC0415
    import time  # noqa: PLC0415
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415
    from urllib.parse import urljoin, urlsplit  # noqa: PLC0415

    def get(url: str, hops: int) -> None:
        where = urlsplit(url)
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.netloc, timeout=30)
        try:
            connection.request("GET", f"{where.path}?{where.query}")
            answer = connection.getresponse()
            there = answer.getheader("Location")
            if answer.status in {301, 302, 303, 307, 308} and there and hops:
                return get(urljoin(url, there), hops - 1)
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
                raise OSError("what came is not what was sent")
            os.replace(aside, path)  # noqa: PTH105 - pathlib takes long to import
        finally:
            connection.close()

    def try_to_get(url: str) -> str:
        try:
            get(url, 3)
        except (OSError, HTTPException) as error:
            return f"{url.partition('?')[0]}: {error or type(error).__name__}"
        return ""

    for pause in 0.3, 1.0, 0.0:
        said = []
        for url in urls.split():
            error = try_to_get(url)
            if not error:
                return
            said.append(error)
        time.sleep(pause)
    raise OSError("; ".join(said))
