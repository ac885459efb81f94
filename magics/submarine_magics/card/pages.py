"""The pages that a card links to: a small web server in the notebook's process.

Its log page is one of three: JupyterLab's tab (`labextension/src/log`) needs our extension there,
and `submarine_jupyter.page` has no script; this one follows a log by a script, in any front end.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import socket
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from submarine_engine.errors import JobNotFoundError, SubmarineError
from submarine_engine.history import JobPaths, default_home
from submarine_engine.masking import Masker, masker_of
from submarine_engine.tensorboard.board import attached_address

from submarine_magics import frontend
from submarine_magics.card.artifacts import read_listing
from submarine_magics.card.record import read_curves, read_map, read_sweep, stored_spec
from submarine_magics.card.startup import read_started
from submarine_magics.card.tree import module, page_style

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.future import Job

    from submarine_magics.card.record import Record


# What the log pages' server answers: the page, a job's state, the bytes of a log, a cancel.


_PATH = re.compile(
    r"/(?P<token>[\w-]{1,64})/jobs/(?P<job_id>[\w-]{1,40})/"
    r"(?:(?P<what>state|cancel)?|logs/(?P<task>[\w-]{1,40})/(?P<stream>\w{1,10}))"
)
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TEXT = "text/plain; charset=utf-8"
_BLOCK = 1 << 20


class _Route(NamedTuple):
    job_id: str
    what: str
    task: str
    stream: str


Answer = Callable[[_Route], None]


class _Timely(RawIOBase):
    """What a connection sends within some seconds: a byte now and then would hold it for ever."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self.begin()

    def begin(self) -> None:
        """Begin to count anew."""
        self._until = time.monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - a buffer
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come to its end")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)


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

    def setup(self) -> None:
        """Read what comes in time alone."""
        super().setup()
        self.rfile.close()
        self._timely = _Timely(self.connection, self.timeout)
        self.rfile = BufferedReader(self._timely)

    def handle_one_request(self) -> None:
        """Answer one request; it has to be here as soon as a connection may rest."""
        self._timely.begin()
        super().handle_one_request()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing: a library does not print."""

    def _answer(self, answers: dict[str, Answer]) -> None:
        if not self.server.is_called(self.headers.get("Host", "")):
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
        if found is None or not self.server.knows(found["token"], found["job_id"]):
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
        """Send a log's bytes from ``?offset=``, at most ``?limit=`` of them, secrets masked."""
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
            if masker := masker_of(path.parents[2]):
                self._masked(masker, descriptor, start, start + size, self._is_open(route.job_id))
                return
            self._head(HTTPStatus.OK, _TEXT, size)
            if size and self.connection.sendfile(file, start, size) < size:
                self.close_connection = True  # the job cut its log: the length was a lie

    def _is_open(self, job_id: str) -> bool:
        return not self.server.state(job_id)["final"]

    def _masked(self, masker: Masker, log: int, start: int, end: int, hold: bool) -> None:  # noqa: FBT001 - as it is told
        """Send a part of a log with its secrets masked, a block at a time.

        What may become a secret is not sent while the log is still written (`hold`).
        """

        def read(size: int, offset: int) -> bytes:
            return os.pread(log, size, offset)

        if hold:  # only the end can be held back
            last = max(start, end - masker.reach)
            end = last + len(masker.read(read, last, end, hold=True))
        self._head(HTTPStatus.OK, _TEXT, end - start)
        while start < end:
            data = masker.read(read, start, min(end, start + _BLOCK))
            if not data:
                self.close_connection = True  # the job cut its log: the length was a lie
                return
            self.wfile.write(data)
            start += len(data)

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
    """Return the log page; it holds nothing of a job, its script fetches all.

    Parameters
    ----------
    nonce
        By which its policy lets its own script and style in, and no other.
    """
    html = files(__package__).joinpath("log.html").read_text("utf-8").replace("{nonce}", nonce)
    return html.replace("{style}", page_style("log.css")).replace("{script}", module("log.js"))


# The log pages of jobs on this machine: a small web server in the notebook's process.
#
# They have a script, which follows the log: their origin is their own, with nothing in it to steal.
# The Jupyter server's page of a job (`submarine_jupyter.page`) has none, since there a script could
# do whatever the user can; that is why these are two.
#
# It listens on the loopback interface only, answers only to its own address (a foreign page that
# had its name rebound to 127.0.0.1 sends another ``Host``), and only below a path that nobody can
# guess. Everything it shows is read from the jobs' records; it ends with the process.


_STREAMS = ("stdout", "stderr")
_MOST = 128
"""Connections at once: a page has one or two. All users of the machine can open some."""
_servers: dict[tuple[int, Path, str], LogPages] = {}
_starting = threading.Lock()


class LogPages(ThreadingHTTPServer):
    """Serves the log pages of the jobs of one cluster; starts at once.

    Parameters
    ----------
    cluster
        Asked for the status of jobs, and to cancel them.
    home
        Where the jobs' records are.
    address
        Where to listen.
    handler
        Answers connections.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        cluster: Cluster,
        home: Path,
        address: tuple[str, int] = ("127.0.0.1", 0),
        handler: type[Handler] = Handler,
    ) -> None:
        super().__init__(address, handler)
        self.token = secrets.token_urlsafe(24)
        self._cluster = cluster
        self._home = home
        self._room = threading.BoundedSemaphore(_MOST)
        threading.Thread(target=self.serve_forever, name="submarine-logs", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's
        """Answer a connection in a thread of its own, unless there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - likewise
        """Answer it; what it breaks is nothing for the notebook's page."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - likewise
        """Say nothing: who has connected left, or is a stranger."""

    def is_called(self, host: str) -> bool:
        """Return whether a request may carry this ``Host``: a page of another name may not."""
        return host in (f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def knows(self, token: str, job_id: str) -> bool:  # noqa: ARG002 - one for all jobs here
        """Return whether `token` is the one of this server's addresses."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def url(self, job_id: str) -> str:
        """Return the address of a job's log page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/jobs/{job_id}/"

    def state(self, job_id: str) -> dict[str, Any]:
        """Return what the page shows besides the text: name, state, and the logs with their sizes.

        Raises
        ------
        JobNotFoundError, JobError
            The job is not on record, or cannot be read.
        """
        paths = JobPaths(self._home, job_id)
        status = self._cluster.status(job_id)
        logs = [(task.task, stream) for task in status.ranked for stream in _STREAMS]
        return {
            "job_id": job_id,
            "name": stored_spec(paths).name,
            "state": status.state.value,
            "cancelling": status.cancelling,
            "final": status.state.final,
            "folder": str(paths.root),
            "logs": [
                {"task": task, "stream": stream, "size": self._size(job_id, task, stream)}
                for task, stream in logs
            ],
        }

    def log_path(self, job_id: str, task: str, stream: str) -> Path:
        """Return the file of a log.

        Raises
        ------
        JobNotFoundError, ValueError
            These words name no log.
        """
        return JobPaths(self._home, job_id).task(task).log(stream)

    def cancel(self, job_id: str) -> None:
        """Cancel a job; raises as `Cluster.cancel` does."""
        self._cluster.cancel(job_id, "cancelled on its card")

    def _size(self, job_id: str, task: str, stream: str) -> int:
        try:
            return self.log_path(job_id, task, stream).lstat().st_size
        except FileNotFoundError:
            return 0


def log_page(job: Job) -> str | None:
    """Return the address of a page with the log of `job`: the cluster's, else one served here.

    None where there is neither: the job's record is not on this machine, or the cluster or this
    machine's network does not answer.
    """
    try:
        return job.cluster.log_url(job.id) or (frontend.current.log_page or own_page)(job)
    except (OSError, SubmarineError):
        return None


def board_page(address: str) -> str | None:
    """Return where browsers reach the TensorBoard that has this address on its own machine."""
    leads = frontend.current.board_page
    return leads(address) if leads else address


def cancel_url(job: Job) -> str:
    """Return where a POST cancels `job`, on this machine; empty where nowhere."""
    try:
        page = own_page(job)
    except (OSError, SubmarineError):
        return ""
    return f"{page}cancel" if page else ""


def own_page(job: Job) -> str | None:
    """Return the address of a log page that this process serves, for who sits at this machine.

    Parameters
    ----------
    job
        Whose log it is; None is returned where its cluster keeps no folders on this machine.
    """
    home = getattr(job.cluster, "home", None)
    if home is None:
        return None
    with _starting:
        # A forked child has the server's socket, but not its thread. Clusters share a home, and
        # only its own one knows what becomes of a job.
        key = (os.getpid(), home, job.cluster.name)
        if key not in _servers:
            _servers[key] = LogPages(job.cluster, home)
        return _servers[key].url(job.id)


# What a job has now: the web pages of its containers, which come and go, and what a sweep found.


def with_links(record: Record, job: Job, *, final: bool = False) -> Record:
    """Return `record` with what the job has now: pages of its logs and others, what it has found.

    The pages are the cluster's own.

    Parameters
    ----------
    final
        Whether the job is over.
    """
    try:
        found = dict(job.cluster.links(job.id))
    except (OSError, SubmarineError):
        found = {}
    log_url = found.pop("log", None)
    tasks = {task: found.pop(task) for task in record.spec.tasks if task in found}
    sweep, calls = read_sweep(job, record.spec), read_map(job, record.spec)
    curves = read_curves(job, record.spec, final=final)
    started = read_started(job, record.spec, final=final)
    return replace(
        record,
        log_url=log_url,
        links=tuple(found.items()),
        task_links=tasks,
        sweep=sweep,
        calls=calls,
        curves=curves,
        startup=started,
        artifacts=read_listing(job, final=final),
    )


def with_pages(record: Record, job: Job, *, final: bool = False) -> Record:
    """Return `record` with what `job` has now, its pages as they are served on this machine.

    Parameters
    ----------
    final
        Whether the job is over.
    """
    record = with_links(record, job, final=final)
    links = dict(record.links)
    home = getattr(job.cluster, "home", None) or default_home()
    if (address := attached_address(home, job.id)) and (leads := board_page(address)):
        links["TensorBoard"] = leads
    return replace(record, log_url=log_page(job), links=tuple(links.items()))
