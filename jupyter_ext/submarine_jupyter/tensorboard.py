"""TensorBoards by REST, and their pages through Jupyter's server: known readers alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from submarine_engine.errors import CommandError, SubmarineError
from submarine_engine.history import default_home, read_json
from submarine_engine.tensorboard import (
    Board,
    find_board,
    list_boards,
    poll_board,
    scalars,
    select,
    start_board,
    stop_board,
)
from submarine_engine.tensorboard.auth import KEY_HEADER
from tornado import web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from submarine_jupyter import jobs
from submarine_jupyter.access import Keys, may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import PATTERNS, CardPart, Plugin, Route, Server
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus


# TensorBoard's pages through Jupyter's server: known readers alone, an address by id alone.
#
# Why not jupyter-server-proxy: it passes all headers on, Jupyter's cookies and tokens with them
# (its issue 590), and the answers' cookies and policies back. What listens at the port shows a
# job's files, and the port may be another's by now. Here each header that passes is named.


_START = 60.0  # seconds that a page waits for one: its imports take long on a busy machine
_BETWEEN = 0.1  # seconds between two looks whether it listens: a person waits for the page
_CONNECT = 5.0  # seconds: it listens on this machine, and answers at once or hangs
_ANSWER = 120.0  # seconds: histograms and graphs are computed when they are asked for
_LARGEST = 1 << 29
_AT_ONCE = 32
_ASKED = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "If-None-Match",
          "If-Modified-Since", "X-TensorBoard-Feature-Flags", "X-XSRF-Protected")  # fmt: skip
_ANSWERED = ("Content-Type", "Content-Encoding", "Cache-Control", "Content-Disposition", "ETag",
             "Expires", "Last-Modified", "Vary")  # fmt: skip
_POLICY = (
    "default-src 'self'; font-src 'self' data:; frame-src 'self'; img-src 'self' data: blob:; "
    "object-src 'none'; style-src 'self' data: 'unsafe-inline'; connect-src 'self'; "
    "script-src 'self' 'unsafe-eval'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_ID = "[0-9a-f]{16}"
_ADDRESS = re.compile(rf".*?/submarine/tensorboards/({_ID})(?=/|$)")


class Proxy(JupyterHandler):
    """``/submarine/tensorboards/<id>/…``; a page has a key of it behind its id."""

    def initialize(self, work: Work, keys: Keys) -> None:
        """Take the threads, and the keys of pages."""
        self.work, self._keys = work, keys
        # As it came: tornado unescapes what a route matches.
        found = _ADDRESS.search(self.request.path)
        self._root, self._board = (found[0], found[1]) if found else ("", "")
        path = self.request.path[found.end() :] if found else ""
        self._keyed, self._rest = keys.split(path, self._board)

    @property
    def content_security_policy(self) -> str:
        """What TensorBoard's own policy allows, in frames of this server alone."""
        return _POLICY

    def check_xsrf_cookie(self) -> None:
        """Take the page's key for Jupyter's token: TensorBoard sends none with what it asks for.

        JupyterHub checks that before it tells who asks, of a page's GETs as well.
        """
        if not self._keyed:
            super().check_xsrf_cookie()

    @may("read")
    async def get(self, **_: str) -> None:
        """Bring what TensorBoard answers."""
        by_header = "Authorization" in self.request.headers and self.token_authenticated
        if not self._rest or (self._rest == "/" and not (self._keyed or by_header)):
            key = "" if by_header else f"/{self._keys.of(self._board)}"
            query = self._query()
            self.set_header("Cache-Control", "no-store")
            self.redirect(f"{self._root}{key}/{query and '?' + query}")
            return
        await self._bring()

    @may("read")
    async def post(self, **_: str) -> None:
        """Bring what TensorBoard answers: it asks for time series and hyperparameters by POST."""
        await self._bring()

    async def _bring(self) -> None:
        plain = unquote(self._rest)
        if (
            any(part in (".", "..") for part in re.split(r"[/\\]", plain))
            or not plain.isprintable()
        ):
            raise web.HTTPError(HTTPStatus.BAD_REQUEST)
        try:
            board = await _up(self.work, self._board)
        except SubmarineError as error:
            self._fail(error)
            return
        await self._pass_on(board, self._rest)

    def _query(self) -> str:
        """Return the query as it came, what was escaped stays so; Jupyter's token stays here."""
        pairs = [pair for pair in self.request.query.split("&") if pair]
        return "&".join(pair for pair in pairs if pair.partition("=")[0] not in ("token", "key"))

    async def _pass_on(self, board: Board, path: str) -> None:
        query = self._query()
        request = HTTPRequest(
            f"http://127.0.0.1:{board.port}{board.path.rstrip('/')}{path}{query and '?' + query}",
            method=str(self.request.method),
            headers=HTTPHeaders({**_only(self.request.headers, _ASKED), KEY_HEADER: board.key}),
            body=self.request.body if self.request.method == "POST" else None,
            connect_timeout=_CONNECT,
            request_timeout=_ANSWER,
            follow_redirects=False,
            decompress_response=False,
        )
        try:
            answer = await _client().fetch(request, raise_error=False)
        except (HTTPClientError, OSError) as error:
            raise web.HTTPError(HTTPStatus.BAD_GATEWAY, f"TensorBoard: {error}") from error
        if answer.code == HTTPClientError(599).code:
            raise web.HTTPError(HTTPStatus.GATEWAY_TIMEOUT, f"TensorBoard: {answer.error}")
        self.set_status(answer.code)
        self.clear_header("Content-Type")
        for name, value in _only(answer.headers, _ANSWERED).items():
            self.set_header(name, value)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")  # an address has its key in it
        await self.finish(answer.body or b"")

    def _fail(self, error: SubmarineError) -> None:
        self.set_status(HTTPStatus.SERVICE_UNAVAILABLE)
        told = {"what": error.what, "where": error.where, "fix": error.fix}
        if "application/json" in self.request.headers.get("Accept", ""):
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(told))
            return
        text = "".join(f"<p>{escape(line)}</p>" for line in told.values() if line)
        self.finish(f"<!doctype html><title>TensorBoard</title>{text}")


class JobTensorBoard(JupyterHandler):
    """``/submarine/jobs/<id>/tensorboard/``: leads to the TensorBoard of that job."""

    def initialize(self, work: Work) -> None:
        """Take the threads."""
        self.work = work

    @may("execute")
    async def get(self, job_id: str) -> None:
        """Start it where it does not run."""
        try:
            board = await self.work.call("tensorboards", _opened_for, job_id)
        except SubmarineError as error:
            raise web.HTTPError(HTTPStatus.NOT_FOUND, escape(str(error))) from error
        self.redirect(url_path_join(self.base_url, board.path))


def proxy_handlers(work: Work) -> list[tuple[Any, ...]]:
    """Return the routes of TensorBoard's pages as tornado takes them; they use pools of `work`."""
    given = {"work": work}
    return [
        (r"/submarine/jobs/(?P<job_id>[^/]{1,64})/tensorboard/?", JobTensorBoard, given),
        (rf"/submarine/tensorboards/{_ID}(?:/.*)?", Proxy, {**given, "keys": Keys()}),
    ]


def _opened_for(job_id: str) -> Board:
    home = default_home()
    return start_board(home, select(home, [jobs.paths_of(job_id).job_id]))


async def _up(work: Work, board_id: str) -> Board:
    """Return a TensorBoard that listens; wait for it without a thread.

    Raises
    ------
    SubmarineError
        There is none of that id, or it does not start.
    """
    home = default_home()
    found = await work.call("tensorboards", find_board, home, board_id)
    until = asyncio.get_running_loop().time() + _START
    tried = False
    while not found.port:
        board = await work.call("tensorboards", poll_board, home, found.wanted, tried=tried)
        tried = True
        if board is not None:
            return board
        if asyncio.get_running_loop().time() > until:
            raise SubmarineError("TensorBoard does not listen yet", fix="load the page again")
        await asyncio.sleep(_BETWEEN)
    return found


def _only(headers: HTTPHeaders, names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _client() -> AsyncHTTPClient:
    """Return a client of our own: one that hangs holds up nobody else's requests."""
    if not _clients:
        client = SimpleAsyncHTTPClient(
            force_instance=True, max_clients=_AT_ONCE, max_body_size=_LARGEST
        )
        _clients.append(client)
    return _clients[0]


_clients: list[AsyncHTTPClient] = []


# TensorBoards by REST: open one over jobs, list them, end one; and scalars for a job's card.


PATTERNS["board_id"] = "[0-9a-f]{16}"

_POOL = "tensorboards"
_MOST = 200
_LONGEST = 4096
_TEXT = {"type": "string", "maxLength": _LONGEST}
_TEXTS = {"type": "array", "maxItems": _MOST, "items": _TEXT}
_FIELDS = {"jobs": _TEXTS, "all": {"type": "boolean"}, "logdir": {"anyOf": [_TEXT, _TEXTS]}}
_SHOWN = {
    "type": "object",
    "required": ["id", "url", "shows", "jobs", "all", "logdirs", "running"],
    "properties": {
        **{key: {"type": "string"} for key in ("id", "url", "shows")},
        **{key: {"type": "array", "items": {"type": "string"}} for key in ("jobs", "logdirs")},
        **{key: {"type": "boolean"} for key in ("all", "running")},
    },
}


def shown(board: Board) -> dict[str, Any]:
    """Return the TensorBoard `board` as the API shows it; its port and key stay here."""
    return {
        "id": board.id,
        "url": board.path.lstrip("/"),
        "shows": board.wanted.words,
        "jobs": list(board.wanted.jobs),
        "all": board.wanted.everything,
        "logdirs": list(board.wanted.folders),
        "running": bool(board.port),
    }


def listed() -> dict[str, Any]:
    """Return the user's TensorBoards that run."""
    return {"tensorboards": [shown(board) for board in list_boards(default_home())]}


def opened(asked: dict[str, Any], begin: Path) -> dict[str, Any]:
    """Return a TensorBoard over what a request asks for; it starts where it does not run.

    Parameters
    ----------
    asked
        The request's body: ``jobs``, ``all`` and ``logdir``.
    begin
        The folder that relative folders are below.

    Raises
    ------
    CommandError
        The request cannot be understood, or a folder is not there.
    SubmarineError
        A job is not the user's, or no TensorBoard can be started.
    """
    found, everything, folders = _read(asked)
    home = default_home()
    ids = [jobs.paths_of(job).job_id for job in found]
    return shown(
        start_board(home, select(home, ids, everything=everything, folders=folders, begin=begin))
    )


def stopped(board_id: str) -> dict[str, Any]:
    """End the user's TensorBoard `board_id`; ``stopped`` is false where it ran no more."""
    return {"id": board_id, "stopped": stop_board(default_home(), board_id)}


_LIST = Route("get", "/tensorboards", "The TensorBoards that run", listed)
_OPEN = Route(
    "post",
    "/tensorboards",
    "Open TensorBoard over jobs, all jobs or a folder; url is below the server's base URL",
    body={"type": "object", "additionalProperties": False, "properties": _FIELDS},
    reply=_SHOWN,
)
_STOP = Route("delete", "/tensorboards/{board_id}", "End a TensorBoard", stopped)


class TensorBoards(Call):
    """``/submarine/api/tensorboards`` and what is below it."""

    @may("execute")
    async def post(self, **names: str) -> None:
        """Start a process; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **names: str) -> None:
        """Answer in a pool of its own."""
        if self.request.method != "POST":
            await super().respond(**names)
            return
        begin = str(self.settings.get("server_root_dir") or "~")
        self.tell(await self.work.call(_POOL, _opened_below, self._body(), begin))

    @may("write")
    async def delete(self, **names: str) -> None:
        """End it; jupyter_server has checked the XSRF token."""
        await self._answered("delete", names)

    async def _pool(self, names: dict[str, str]) -> str:  # noqa: ARG002 - one for all of them
        return _POOL


def _opened_below(asked: dict[str, Any], begin: str) -> dict[str, Any]:
    return opened(asked, Path(begin).expanduser())


def _read(asked: dict[str, Any]) -> tuple[list[str], bool, list[str]]:
    found, everything, folders = (asked.get(name) for name in ("jobs", "all", "logdir"))
    folders = [folders] if isinstance(folders, str) else folders
    lists = [[] if texts is None else texts for texts in (found, folders)]
    well = all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists
    )
    if not well or not isinstance(everything, (bool, type(None))) or asked.keys() - _FIELDS:
        raise CommandError(
            "the request cannot be understood",
            where="body",
            fix='send {"jobs": ["ID"]}, {"all": true} or {"logdir": "FOLDER"}',
        )
    for name, texts in zip(("jobs", "logdir"), lists, strict=True):
        _check_size(name, texts)
    return lists[0], bool(everything), lists[1]


def _check_size(name: str, texts: list[str]) -> None:
    longest = max(map(len, texts), default=0)
    if len(texts) > _MOST or longest > _LONGEST:
        raise CommandError(
            f"{name!r} has {len(texts)} texts of up to {longest} characters",
            where="body",
            fix=f"send {_MOST} texts at most, of {_LONGEST} characters at most each",
        )


def _card(job: Job) -> CardPart:
    paths = jobs.paths_of(job.id)
    record = read_json(paths.record) or {}
    beside = bool(dict(record.get("spec") or {}).get("tensorboard"))

    def part(status: JobStatus) -> dict[str, Any]:
        found = scalars(paths, at_once=status.state.final)
        return {"tensorboard": beside or bool(found), **({"scalars": found} if found else {})}

    return part


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    given = {"work": app.work}
    return [
        (_LIST.pattern, TensorBoards, {**given, "routes": {"get": _LIST, "post": _OPEN}}),
        (_STOP.pattern, TensorBoards, {**given, "routes": {"delete": _STOP}}),
        *proxy_handlers(app.work),
    ]


PLUGIN = Plugin(routes=(_LIST, _OPEN, _STOP), handlers=_handlers, card=_card)
