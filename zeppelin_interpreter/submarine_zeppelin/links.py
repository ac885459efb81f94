"""Links to the logs of jobs and to TensorBoards, for browsers that are elsewhere.

A link is signed for one job, or one TensorBoard, and ends after a week. The key lies in the folder
of the jobs, so links that a note has kept work again when the interpreter, or Zeppelin, was
restarted.
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
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from submarine_engine.errors import JobError, SubmarineError
from submarine_engine.history import default_home, make_private, write_first
from submarine_engine.records import open_job
from submarine_engine.tensorboard.auth import KEY_HEADER
from submarine_engine.tensorboard.board import PREFIX, Board, Files, wait_for_board
from submarine_magics import frontend
from submarine_magics.card.pages import Handler, LogPages, own_page

from submarine_zeppelin.properties import ELSEWHERE, LINKS_LISTEN, LINKS_URL, read_place

if TYPE_CHECKING:
    from submarine_engine.future import Job

_DAY = 86_400
_DAYS = 7
_KEY_SIZE = 32
_AGAIN = 5.0
"""Seconds until a port is tried again that another interpreter of the same jobs serves."""

_TOKEN = re.compile(r"([0-9a-f]{1,12})-([0-9a-f]{32})")
_BOARD = re.compile(
    rf"/(?P<token>[\w-]{{1,64}})(?P<path>{PREFIX}/(?P<id>[0-9a-f]{{16}})/(?:[\w~-][\w.~-]*/?)*)"
)

_ANSWER = 120.0  # seconds: TensorBoard computes histograms and graphs as they are asked for
_LARGEST = 1 << 20
_ASKED = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "If-None-Match",
          "If-Modified-Since", "X-TensorBoard-Feature-Flags", "X-XSRF-Protected")  # fmt: skip
_ANSWERED = ("Content-Type", "Content-Encoding", "Cache-Control", "Content-Disposition", "ETag",
             "Expires", "Last-Modified", "Vary", "Location")  # fmt: skip
_POLICY = (
    "default-src 'self'; font-src 'self' data:; frame-src 'self'; img-src 'self' data: blob:; "
    "object-src 'none'; style-src 'self' data: 'unsafe-inline'; connect-src 'self'; "
    "script-src 'self' 'unsafe-eval'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""What TensorBoard's own policy allows."""


def lead_elsewhere() -> None:
    """Let cards of this process, and the paragraphs' links, lead to where the setting says."""
    frontend.current.log_page = log_link
    frontend.current.board_page = board_link


def log_link(job: Job) -> str | None:
    """Return the address of a job's log page; None where none can be reached."""
    base = links_url()
    if base is None:
        return None if os.environ.get(ELSEWHERE) else own_page(job)
    return f"{base}/{_token(job.id, _end())}/jobs/{job.id}/"


def board_link(address: str) -> str | None:
    """Return the address of a TensorBoard for browsers; None where none can reach it.

    Parameters
    ----------
    address
        On its own machine, with its key.
    """
    base = links_url()
    if base is None:
        return None if os.environ.get(ELSEWHERE) else address
    path = urlsplit(address).path
    found = _BOARD.fullmatch(f"/-{path}")
    return f"{base}/{_token(found['id'], _end())}{path}" if found else None


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
    write_first(path, secrets.token_bytes(_KEY_SIZE))  # where another interpreter was no quicker
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) < _KEY_SIZE:
        raise OSError(f"{path} is no key; remove it, and links are made anew")
    return key


class LinkHandler(Handler):
    """Answers with log pages as `Handler` does, and brings what TensorBoards answer.

    Of a request, and of an answer, the headers that are named here pass, and no other: what
    TensorBoard is not asked by its own page, or sets for this address, is none of its business.
    """

    server: LinkPages

    def do_GET(self) -> None:  # noqa: N802 - http.server's name
        """Answer with a page, a log, or what a TensorBoard answers."""
        if not self._bring("GET"):
            super().do_GET()

    def do_POST(self) -> None:  # noqa: N802 - as above
        """Answer as to GET: TensorBoard's page asks for time series by POST."""
        if not self._bring("POST"):
            super().do_POST()

    def _bring(self, method: str) -> bool:
        """Pass a request on to its TensorBoard; False where it is for none."""
        path, mark, query = self.path.partition("?")
        found = _BOARD.fullmatch(path)
        if found is None:
            return False
        if not self.server.is_called(self.headers.get("Host", "")):
            self._say(HTTPStatus.MISDIRECTED_REQUEST, "this address is not ours")
        elif not self.server.knows(found["token"], found["id"]):
            self._say(HTTPStatus.NOT_FOUND, "there is no such page")
        elif method == "POST" and not self.headers.get("X-XSRF-Protected"):
            self._say(HTTPStatus.FORBIDDEN, "only TensorBoard's own page may ask so")
        else:
            try:
                self._pass_on(method, found["id"], found["path"] + mark + query)
            except SubmarineError as error:
                self._say(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            except (OSError, HTTPException, ValueError) as error:
                self.close_connection = True
                self._say(HTTPStatus.BAD_GATEWAY, f"TensorBoard does not answer: {error}")
        return True

    def _pass_on(self, method: str, board_id: str, path: str) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if not 0 <= size <= _LARGEST:
            raise ValueError("the request is too long")
        body = self.rfile.read(size) if size else None
        board = _listening(board_id)
        asked = {name: self.headers[name] for name in _ASKED if name in self.headers}
        connection = HTTPConnection("127.0.0.1", board.port, timeout=_ANSWER)
        try:
            connection.request(method, path, body, {**asked, KEY_HEADER: board.key})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        told = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
        self.send_response(answer.status)
        fixed = {
            "Content-Length": str(len(data)),
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        for name, value in {**told, **fixed}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _listening(board_id: str) -> Board:
    """Return a TensorBoard that listens; it is started again where nobody has read for a while."""
    home = default_home()
    files = Files(home, board_id)
    if board := files.live():
        return board
    noted = files.read()
    if noted is None:
        raise JobError(
            "this TensorBoard is no longer there", fix="open one: %submarine tensorboard"
        )
    return wait_for_board(home, noted.wanted)


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
        super().__init__(_OfRecord(), default_home(), listens, LinkHandler)  # type: ignore[arg-type] # all that it is asked

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
