"""A port inside a running job, in the browser: ``/submarine/proxy/<job>/<port>/…``.

The bytes go by the same way as those of `submarine job forward`, and nothing listens on this
machine for them.

What answers there is a job's code, and to a browser it has the address of Jupyter itself. So
every answer is put into a sandbox (CSP), in which a page is of no origin: it reaches nothing of
Jupyter's. Such a page sends no cookies either. Who is logged in is led to an address with a key of
that one port in its path, and the page's own requests show that key.

Headers pass by their names, here and back. Cookies of the job stay in this server. So does the
token of a notebook server that runs as a job: it is shown there, and no page and no address has it.
"""

from __future__ import annotations

import asyncio
import json
import re
from asyncio import Future
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from email.message import Message
from html import escape
from http import HTTPStatus
from http.client import responses
from http.cookiejar import CookieJar
from inspect import isawaitable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import Request

from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from submarine_engine.errors import CommandError, JobError, JobNotFoundError, SubmarineError
from submarine_engine.inside import connect
from submarine_engine.job import JobState
from submarine_engine.notebooks import is_notebook, server_of
from tornado import web
from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream, StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.access import Keys, may
from submarine_jupyter.routes import Plugin, Server, error_body, status_of
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    import socket

    from submarine_engine.future import Job

# Why not jupyter-server-proxy: it passes all headers on, Jupyter's cookies and tokens with them,
# and lets what answers be a page of Jupyter's own origin.

_POLICY = (
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock"
)
_ASKED = (
    "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Disposition",
    "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "If-Match",
    "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Event-ID",
    "Pragma", "Range", "User-Agent", "X-Requested-With", "X-TensorBoard-Feature-Flags",
    "X-XSRF-Protected",
)  # fmt: skip
_ANSWERED = (
    "Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Disposition", "Content-Encoding",
    "Content-Language", "Content-Length", "Content-Range", "Content-Security-Policy",
    "Content-Type", "ETag", "Expires", "Last-Modified", "Retry-After", "Vary",
)  # fmt: skip
_SOCKET = ("Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Protocol",
           "Sec-WebSocket-Extensions")  # fmt: skip
_SOCKET_ANSWERED = ("Sec-WebSocket-Accept", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions")

_PIECE = 1 << 16
_LARGEST_BODY = 1 << 62  # of what is streamed, whatever its size
MOST = 128
"""Connections at once. Each is a thread here, and a process beside the task."""

_MOST_COOKIES = 100
_MOST_JARS = 64
_TARGET = re.compile(r"(?:([a-z]{1,16}-[0-9]{1,6}):)?([0-9]{1,5})", re.ASCII)
_POOL = "proxy"


class _RefusedError(Exception):
    """The port cannot be reached; has the status of the answer, and the message."""

    def __init__(self, status: HTTPStatus, error: SubmarineError) -> None:
        super().__init__(error.what)
        self.status, self.error = status, error


class Ports:
    """What is known of the ports of jobs: their keys, their cookies, who is connected.

    Parameters
    ----------
    more
        Names of headers that pass besides the usual ones.
    most
        Connections at once.
    """

    def __init__(self, more: Sequence[str] = (), most: int = MOST) -> None:
        self.more, self.most = more, most
        self.open: set[object] = set()
        self.keys = Keys()
        self._jars: OrderedDict[tuple[str, str], CookieJar] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, int], str] = OrderedDict()

    def token(self, job: Job, port: int) -> str:
        """Return the token of the notebook server at a port of a job; empty where there is none.

        Raises
        ------
        JobError
            It serves nothing yet.
        """
        if (known := self._tokens.get((job.id, port))) is not None:
            return known
        found = ""
        if is_notebook(job):
            server = server_of(job, wait=False)
            found = server.token if server.port == port else ""
        self._tokens[job.id, port] = found
        while len(self._tokens) > _MOST_JARS:
            self._tokens.popitem(last=False)
        return found

    def forget_token(self, job_id: str, port: int) -> None:
        """Look for the token at a port anew: what answers there is begun again, with another.

        Parameters
        ----------
        job_id
            The job.
        port
            The port.
        """
        self._tokens.pop((job_id, port), None)

    def jar(self, job_id: str, target: str) -> CookieJar:
        """Return the cookies of a port of `job_id`; `target` is ``port`` or ``task:port``."""
        jar = self._jars.setdefault((job_id, target), CookieJar())
        self._jars.move_to_end((job_id, target))
        while len(self._jars) > _MOST_JARS:
            self._jars.popitem(last=False)
        if len(jar) > _MOST_COOKIES:
            jar.clear()
        return jar


@web.stream_request_body
class Proxy(JupyterHandler):
    """``/submarine/proxy/<job>/<port>/…``, or ``…/<job>/<task>:<port>/…``."""

    def initialize(self, work: Work, ports: Ports) -> None:
        """Take the worker pools, and the known ports of jobs."""
        self.work, self._ports = work, ports
        _, self._root, self._rest = self._split()
        self._keyed, self._prepared = False, False
        self._token = ""
        self._there: HTTP1Connection | None = None

    def _split(self) -> tuple[str, str, str]:
        """Return the address in parts, as it came: what was escaped stays so."""
        base = str(self.settings["base_url"]).rstrip("/")
        _, *words = self.request.path[len(base) :].split("/", 5)
        rest = f"/{words[4]}" if words[4:] else ""
        return base, f"{base}/{'/'.join(words[:4])}", rest

    @property
    def content_security_policy(self) -> str:
        """Whatever answers is of no origin."""
        return _POLICY

    def check_xsrf_cookie(self) -> None:
        """Take the port's key for Jupyter's token; no other site knows it."""
        if not self._keyed:
            super().check_xsrf_cookie()

    async def prepare(self, **_given: Any) -> None:  # noqa: ANN401 - as Jupyter has it
        """See who asks, and connect to the port before the request's body is read."""
        job_id, target = self.path_kwargs["job_id"], self.path_kwargs["target"]
        key = self._ports.keys.of(job_id, target)
        self._keyed, self._rest = self._ports.keys.split(self._rest, job_id, target)
        preparing = super().prepare()
        if isinstance(preparing, Awaitable):
            await preparing
        if self._keyed:
            self._let_the_page_ask()
        elif not self._finished:
            knowing = self._require_execute()
            if isawaitable(knowing):  # it is none where who asks is led to the login
                await knowing
        if self._finished:
            return
        asks = self.request.method in {"GET", "HEAD"}
        by_header = "Authorization" in self.request.headers and self.token_authenticated
        if asks and (not self._rest or not (self._keyed or by_header)):
            query = self._query()
            self.set_header("Cache-Control", "no-store")
            here = self._root if by_header and not self._keyed else f"{self._root}/{key}"
            self.redirect(f"{here}{self._rest or '/'}{query and '?' + query}")
            return
        self._prefix = f"{self._root}/{key}" if self._keyed else self._root
        if self._keyed and self._is_preflight():
            self.set_status(HTTPStatus.NO_CONTENT)
            await self.finish()
            return
        await self._connect(job_id, target)

    def finish(
        self,
        chunk: Any = None,  # noqa: ANN401 - as tornado has it
        **given: Any,  # noqa: ANN401 - as Jupyter has it
    ) -> Future[None]:
        """End the answer; tornado reads no body of a request that is refused before it."""
        if not self._prepared and not self._headers_written:
            self.set_header("Connection", "close")
        found: Future[None] = super().finish(chunk, **given)
        return found

    @may("execute")
    async def _require_execute(self) -> None:
        """Go on for who is logged in and may go into a job."""

    def _let_the_page_ask(self) -> None:
        """Let a page of the sandbox, which is of no origin, read what it asks its own port for."""
        if self.request.headers.get("Origin") == "null":
            self.set_header("Access-Control-Allow-Origin", "null")
            self.set_header("Access-Control-Expose-Headers", "*")

    def _is_preflight(self) -> bool:
        asked = self.request.headers.get("Access-Control-Request-Method")
        if self.request.method != "OPTIONS" or asked is None:
            return False
        names = self.request.headers.get("Access-Control-Request-Headers", "")
        self.set_header("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
        if re.fullmatch(r"[\w, -]{1,4096}", names):
            self.set_header("Access-Control-Allow-Headers", names)
        return True

    def _query(self) -> str:
        """Return the query as it came; Jupyter's own token stays here."""
        if self._keyed:
            return str(self.request.query)
        pairs = [pair for pair in self.request.query.split("&") if pair]
        return "&".join(pair for pair in pairs if pair.partition("=")[0] not in ("token", "_xsrf"))

    async def _connect(self, job_id: str, target: str) -> None:
        if len(self._ports.open) >= self._ports.most:
            error = JobError(
                f"{self._ports.most} connections into jobs are open",
                fix="close pages of theirs, and reload",
            )
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, error)
            return
        self._ports.open.add(self)
        try:
            found = await self.work.call(_POOL, _connected, job_id, target, self._ports)
            connection, port, self._token = found
        except _RefusedError as refused:
            self._fail(refused.status, refused.error)
            return
        except SubmarineError as error:
            self._fail(status_of(error), error)
            return
        self._browser().set_max_body_size(_LARGEST_BODY)
        parameters = HTTP1ConnectionParameters(max_body_size=_LARGEST_BODY, chunk_size=_PIECE)
        self._there = HTTP1Connection(IOStream(connection), is_client=True, params=parameters)
        self._host = f"localhost:{port}"
        query = self._query()
        line = RequestStartLine(
            self.request.method, f"{self._rest}{query and '?' + query}", "HTTP/1.1"
        )
        self._prepared = True
        with suppress(StreamClosedError):  # its answer, or that there is none, is read below
            await self._there.write_headers(line, self._headers_there())

    def _headers_there(self) -> HTTPHeaders:
        own = self.request.headers
        found = HTTPHeaders(_only(own, (*_ASKED, *self._ports.more)))
        found["Host"] = self._host
        found["X-Forwarded-Prefix"] = self._prefix
        if self._token:
            found["Authorization"] = f"token {self._token}"
        if "Origin" in own:  # the port's own: who asks has shown that it is
            found["Origin"] = f"http://{self._host}"
        asked = Request(f"https://{self._host}{self._rest}")  # for its cookies alone
        self._jar.add_cookie_header(asked)
        if cookies := asked.get_header("Cookie"):
            found["Cookie"] = cookies
        if self._upgrades:
            found.update(_only(own, _SOCKET))
            found["Connection"], found["Upgrade"] = "Upgrade", "websocket"
        else:
            found["Connection"] = "close"
        return found

    @property
    def _jar(self) -> CookieJar:
        return self._ports.jar(self.path_kwargs["job_id"], self.path_kwargs["target"])

    @property
    def _upgrades(self) -> bool:
        asked = self.request.headers.get("Upgrade", "").lower() == "websocket"
        return asked and self.request.method == "GET"

    async def data_received(self, chunk: bytes) -> None:
        """Bring a piece of the request's body on, as fast as the job takes it."""
        if self._there is not None:
            with suppress(StreamClosedError):  # the job may answer all the same
                await self._there.write(chunk)

    @allow_unauthenticated
    async def get(self, **_: str) -> None:
        """Bring the job's answer."""
        await self._bring()

    head = post = put = patch = delete = options = get

    async def _bring(self) -> None:
        there = self._there
        if there is None:
            return
        answer = _Answer(self, there, upgrades=self._upgrades)
        try:
            with suppress(StreamClosedError):
                there.finish()
                await there.read_response(answer)
            if answer.tunnel is not None:
                await self._tunnel(answer.tunnel, answer.headers)
            elif not answer.began:
                self._fail(
                    HTTPStatus.BAD_GATEWAY,
                    JobError(
                        f"what listens at {self._host} in the job has sent no answer in HTTP",
                        fix="see the job's log; for what speaks another protocol there is"
                        " `submarine job forward`",
                    ),
                )
            elif not answer.whole:  # the length that was told cannot be kept, nor an end be faked
                self._auto_finish = False
                self._browser().close()
        finally:
            self._release()

    def _browser(self) -> HTTP1Connection:
        return cast("HTTP1Connection", self.request.connection)

    def begin_answer(self, code: int, headers: HTTPHeaders) -> None:
        """Take the status and the headers of what the job answers."""
        if self._token and code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            self._ports.forget_token(self.path_kwargs["job_id"], int(self.path_kwargs["target"]))
        self.set_status(code, responses.get(code, "Unknown"))
        self.clear_header("Content-Type")
        for name in (*_ANSWERED, *self._ports.more):
            for value in headers.get_list(name):
                self.add_header(name, value)
        for value in headers.get_list("Location"):
            self.set_header("Location", self._here(value))
        self.set_header("Referrer-Policy", "no-referrer")  # an address has its key in it
        self.set_header("X-Accel-Buffering", "no")
        self._keep_cookies(headers)

    def _here(self, location: str) -> str:
        """Return where a redirection leads, as the browser sees it."""
        try:
            parts = urlsplit(location)
        except ValueError:
            return self._prefix
        own = {self._host, self._host.replace("localhost", "127.0.0.1"), ""}
        if parts.netloc not in own or not parts.path.startswith("/"):
            return location
        query = parts.query and f"?{parts.query}"
        return f"{self._prefix}{parts.path}{query}{parts.fragment and '#' + parts.fragment}"

    def _keep_cookies(self, headers: HTTPHeaders) -> None:
        message = Message()
        for value in headers.get_list("Set-Cookie"):
            message["Set-Cookie"] = value
        asked = Request(f"https://{self._host}{self._rest}")  # for its cookies alone
        answer: Any = SimpleNamespace(info=lambda: message)
        self._jar.extract_cookies(answer, asked)

    async def _tunnel(self, there: IOStream, headers: HTTPHeaders) -> None:
        """Be the connection between both ends of a WebSocket."""
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket"]
        lines += [f"{name}: {value}" for name, value in headers.get_all()]
        here = self.detach()
        with suppress(StreamClosedError):
            await here.write("\r\n".join([*lines, "", ""]).encode("latin1"))
            await asyncio.gather(_pour(here, there), _pour(there, here))

    def _fail(self, status: HTTPStatus, error: SubmarineError) -> None:
        self.set_status(status)
        words = error_body(error)
        if "text/html" in self.request.headers.get("Accept", ""):
            text = "".join(f"<p>{escape(line)}</p>" for line in words.values() if line)
            self.finish(f"<!doctype html><title>A port of a job</title>{text}")
        else:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(words))

    def on_connection_close(self) -> None:
        """Leave the job's port as soon as the browser is gone."""
        super().on_connection_close()
        self._release()

    def on_finish(self) -> None:
        """Leave the job's port once the answer is complete."""
        self._release()

    def _release(self) -> None:
        self._ports.open.discard(self)
        if self._there is not None and self._there.stream is not None:
            self._there.close()


class _Answer(HTTPMessageDelegate):
    """What the job answers, on its way to the browser as fast as that reads."""

    def __init__(self, handler: Proxy, there: HTTP1Connection, *, upgrades: bool) -> None:
        self._handler, self._there, self._upgrades = handler, there, upgrades
        self.began, self.whole = False, False
        self.tunnel: IOStream | None = None
        self.headers = HTTPHeaders()

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Take the status and the headers."""
        code, handler = cast("ResponseStartLine", start_line).code, self._handler
        if code == HTTPStatus.SWITCHING_PROTOCOLS and self._upgrades:
            self.headers = HTTPHeaders(_only(headers, _SOCKET_ANSWERED))
            self.tunnel = self._there.detach()
        elif not re.fullmatch(r"[0-9]{0,18}", headers.get("Content-Length", ""), re.ASCII):
            self._there.close()  # two lengths, or none that a browser could be told
        elif code >= HTTPStatus.OK:
            self.began = True
            handler.begin_answer(code, headers)
            await handler.flush()

    async def data_received(self, chunk: bytes) -> None:
        """Bring a piece of the body."""
        self._handler.write(chunk)
        await self._handler.flush()

    def finish(self) -> None:
        """Note that nothing is missing."""
        self.whole = True


async def _pour(source: IOStream, sink: IOStream) -> None:
    try:
        while True:
            await sink.write(await source.read_bytes(_PIECE, partial=True))
    except StreamClosedError:
        source.close()
        sink.close()


def _only(headers: HTTPHeaders, names: Sequence[str]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _connected(job_id: str, target: str, ports: Ports) -> tuple[socket.socket, int, str]:
    """Return a connection to a port of one of the user's jobs, the port, and its token if any.

    Raises
    ------
    _RefusedError
        There is no such job, task or port; it is over, does not run yet, or nobody listens.
    """
    try:
        job = jobs.opened(job_id)
        task, port = _read_target(target)
        try:
            token = "" if task else ports.token(job, port)
            return connect(job.cluster, job.id, port, task), port, token
        except JobError as error:
            state = job.status().state
            status = HTTPStatus.GONE if state.final else HTTPStatus.SERVICE_UNAVAILABLE
            if state is JobState.RUNNING:
                status = HTTPStatus.BAD_GATEWAY
            raise _RefusedError(status, error) from error
    except (JobNotFoundError, CommandError) as error:
        raise _RefusedError(HTTPStatus.NOT_FOUND, error) from error


def _read_target(target: str) -> tuple[str | None, int]:
    found = _TARGET.fullmatch(target)
    port = int(found[2]) if found else 0
    if found is None or not 0 < port < 1 << 16:
        raise CommandError(f"{target!r} is no port", where="address", fix="name one: …/<job>/8888/")
    return found[1], port


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    ports = Ports(app.proxy_headers, app.proxy_connections)
    pattern = r"/submarine/proxy/(?P<job_id>[^/]{1,64})/(?P<target>[^/]{1,64})(?:/.*)?"
    return [(pattern, Proxy, {"work": app.work, "ports": ports})]


PLUGIN = Plugin(handlers=_handlers)
