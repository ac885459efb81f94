"""What the log pages' server answers: the page, a job's state, the bytes of a log, a cancel."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from submarine_engine.errors import JobNotFoundError, SubmarineError

if TYPE_CHECKING:
    from submarine_magics.card.pages import LogPages

_PATH = re.compile(
    r"/(?P<token>[\w-]{1,64})/jobs/(?P<job_id>[\w-]{1,40})/"
    r"(?:(?P<what>state|cancel)?|logs/(?P<task>[\w-]{1,40})/(?P<stream>\w{1,10}))"
)
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TEXT = "text/plain; charset=utf-8"


class _Route(NamedTuple):
    job_id: str
    what: str
    task: str
    stream: str


Answer = Callable[[_Route], None]


class Handler(BaseHTTPRequestHandler):
    """Answers one connection of a `LogPages` server."""

    server: LogPages
    protocol_version = "HTTP/1.1"
    server_version = "submarine"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the page, the state, or the bytes of a log."""
        self._answer({"page": self._page, "state": self._state, "log": self._log})

    def do_POST(self) -> None:
        """Cancel a job; whoever knows the path may, from any page."""
        self.close_connection = True  # whatever body comes is not read
        self._answer({"cancel": self._cancel})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing: a library does not print."""

    def _answer(self, answers: dict[str, Answer]) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            self._say(HTTPStatus.MISDIRECTED_REQUEST, "this address is not ours")
            return
        route = self._route()
        if route is None or route.what not in answers:
            self._say(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        try:
            answers[route.what](route)
        except (JobNotFoundError, FileNotFoundError, ValueError):
            self._say(HTTPStatus.NOT_FOUND, "there is no such job or log; was it deleted?")
        except SubmarineError as error:
            self._say(HTTPStatus.CONFLICT, str(error))
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the reader left
        except OSError as error:
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, f"cannot be read: {error.strerror}")

    def _route(self) -> _Route | None:
        found = _PATH.fullmatch(urlsplit(self.path).path)
        if found is None or not self.server.knows(found["token"]):
            return None
        what = "log" if found["task"] else found["what"] or "page"
        return _Route(found["job_id"], what, found["task"] or "", found["stream"] or "")

    def _page(self, route: _Route) -> None:
        self.server.state(route.job_id)  # raises where there is no such job
        nonce = secrets.token_urlsafe(16)
        policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page(nonce).encode(), policy)

    def _state(self, route: _Route) -> None:
        state = json.dumps(self.server.state(route.job_id)).encode()
        self._send(HTTPStatus.OK, "application/json", state)

    def _cancel(self, route: _Route) -> None:
        self.server.cancel(route.job_id)
        self._send(HTTPStatus.OK, _TEXT, b"cancelling\n", {"Access-Control-Allow-Origin": "*"})

    def _log(self, route: _Route) -> None:
        """Send a log's bytes as they are from ``?offset=``, at most ``?limit=`` of them."""
        query = parse_qs(urlsplit(self.path).query)
        offset, limit = (int(query.get(name, ["-1"])[0]) for name in ("offset", "limit"))
        path = self.server.log_path(route.job_id, route.task, route.stream)
        # The job's own processes can write into its folder: no link leads out of it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(path)
            start = min(max(0, offset), found.st_size)
            size = found.st_size - start if limit < 0 else min(limit, found.st_size - start)
            self._head(HTTPStatus.OK, _TEXT, size)
            if size and self.connection.sendfile(file, start, size) < size:
                self.close_connection = True  # the job cut its log: the length was a lie

    def _say(self, status: HTTPStatus, text: str) -> None:
        self._send(status, _TEXT, f"{text}\n".encode())

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None
    ) -> None:
        self._head(status, kind, len(body), more)
        self.wfile.write(body)

    def _head(
        self, status: HTTPStatus, kind: str, size: int, more: dict[str, str] | None = None
    ) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(size),
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            **(more or {}),
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def page(nonce: str) -> str:
    """Return the log page; it holds nothing of a job, its script fetches all."""
    html = _file("log.html").replace("{nonce}", nonce)
    return html.replace("{style}", _file("log.css")).replace("{script}", _file("log.js"))


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
