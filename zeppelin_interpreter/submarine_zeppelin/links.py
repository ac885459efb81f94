"""Links to the logs of jobs, for browsers that are elsewhere.

A link is signed for one job, and ends after a week. The key lies in the folder of the jobs, so
links that a note has kept work again when the interpreter, or Zeppelin, was restarted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from submarine_engine.errors import JobError, SubmarineError
from submarine_engine.history import default_home, make_private
from submarine_engine.records import open_job
from submarine_magics import frontend
from submarine_magics.card.pages import LogPages, own_page

from submarine_zeppelin.properties import ELSEWHERE, LINKS_LISTEN, LINKS_URL, read_place

if TYPE_CHECKING:
    from submarine_engine.future import Job

_DAY = 86_400
_DAYS = 7
_KEY_SIZE = 32
_AGAIN = 5.0
"""Seconds until a port is tried again that another interpreter of the same jobs serves."""

_TOKEN = re.compile(r"([0-9a-f]{1,12})-([0-9a-f]{32})")


def lead_elsewhere() -> None:
    """Let cards of this process, and the paragraphs' links, lead to where the setting says."""
    frontend.current.log_page = log_link


def log_link(job: Job) -> str | None:
    """Return the address of a job's log page; None where none can be reached."""
    base = links_url()
    if base is None:
        return None if os.environ.get(ELSEWHERE) else own_page(job)
    return f"{base}/{_token(job.id, _end())}/jobs/{job.id}/"


def links_url() -> str | None:
    """Return what browsers put before a link's path; None where nothing is set."""
    listens = read_place(os.environ.get(LINKS_LISTEN, ""))
    if listens is None:
        return None
    if url := os.environ.get(LINKS_URL, ""):
        return url.rstrip("/")
    host, port = listens
    return f"http://{socket.getfqdn() if host in ('', '0.0.0.0') else host}:{port}"  # noqa: S104 - looked at


def serve() -> None:
    """Serve the links of this user's jobs, where the setting says so; returns at once.

    Where another interpreter of the same jobs serves them already, this one does when that ends.
    """
    listens = read_place(os.environ.get(LINKS_LISTEN, ""))
    with _serving:
        if listens is None or listens in _served:
            return
        _served.add(listens)
    threading.Thread(target=_serve, args=(listens,), name="links", daemon=True).start()


_served: set[tuple[str, int]] = set()
_serving = threading.Lock()


def _serve(listens: tuple[str, int]) -> None:
    while True:
        with suppress(OSError):
            LinkPages(listens)
            return
        time.sleep(_AGAIN)


def _end() -> int:
    """Return when a link of now ends: the same for all of a day, for a link is to stay as it is."""
    return (int(time.time()) // _DAY + 1 + _DAYS) * _DAY


def _token(job_id: str, end: int) -> str:
    signed = hmac.new(_key(), f"{end} {job_id}".encode(), hashlib.sha256).hexdigest()
    return f"{end:x}-{signed[:32]}"


def _key() -> bytes:
    """Return the key that this user's links are signed by, made at the first time."""
    path = default_home() / "zeppelin" / "links.key"
    with suppress(FileNotFoundError):
        return _read_key(path)
    make_private(path.parent)
    fresh = path.with_name(f"links.key.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(secrets.token_bytes(_KEY_SIZE))
    with suppress(FileExistsError):  # another interpreter was first: its key counts
        os.link(fresh, path)
    fresh.unlink()
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) < _KEY_SIZE:
        raise OSError(f"{path} is no key; remove it, and links are made anew")
    return key


class _OfRecord:
    """Stands for the cluster of whichever job a page is of."""

    def status(self, job_id: str) -> Any:  # noqa: ANN401 - the cluster's
        return open_job(job_id).status()

    def cancel(self, job_id: str, _reason: str) -> None:
        raise JobError("a link only shows a job", job_id=job_id, fix="cancel it in Zeppelin")


class LinkPages(LogPages):
    """Serves log pages to whoever has a link; starts at once.

    Parameters
    ----------
    listens
        Host and port.
    """

    def __init__(self, listens: tuple[str, int]) -> None:
        super().__init__(_OfRecord(), default_home(), listens)  # type: ignore[arg-type] # all that it is asked

    def is_called(self, host: str) -> bool:
        """Return whether a request may carry this ``Host``: the name of the links, or of a proxy.

        Browsers write it in lower case, and leave out the port that its scheme has; proxies may
        pass it on without any. The name alone tells a page of another site.
        """
        if super().is_called(host):
            return True
        try:
            name, right = urlsplit(f"//{host}").hostname, urlsplit(links_url() or "").hostname
        except ValueError:
            return False
        return right is not None and name == right and "@" not in host

    def knows(self, token: str, job_id: str) -> bool:
        """Return whether a link's token was made here for that job, and has not ended."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return False
        end = int(found[1], 16)
        try:
            right = _token(job_id, end)
        except (OSError, SubmarineError):
            return False
        return hmac.compare_digest(token, right) and time.time() < end
