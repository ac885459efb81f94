"""Jupyter's handlers: who asks is known, what is asked is checked, and threads do the rest."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from jupyter_server.base.handlers import APIHandler
from submarine_engine.errors import (
    ClusterError,
    CommandError,
    ConfigError,
    JobNotFoundError,
    SubmarineError,
)
from tornado import web

from submarine_jupyter.followers import Followers
from submarine_jupyter.page import JobPage
from submarine_jupyter.routes import BASE, ROUTES, Route, openapi, read_numbers
from submarine_jupyter.stream import first_cursor, message
from submarine_jupyter.work import Work

_HEARTBEAT = 15.0
"""Seconds between two comments on a stream that has nothing to say: proxies close silent ones."""

_STATUS = {
    JobNotFoundError: HTTPStatus.NOT_FOUND,
    ConfigError: HTTPStatus.NOT_FOUND,
    CommandError: HTTPStatus.BAD_REQUEST,
    ClusterError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Api(APIHandler):
    """What all of them share: errors as ``what``, ``where`` and ``fix``."""

    def initialize(self, work: Work, followers: Followers, routes: dict[str, Route]) -> None:
        """Take what `handlers` gives each of them."""
        self.work, self.followers, self.routes = work, followers, routes

    def write_error(self, status_code: int, **kwargs: Any) -> None:  # noqa: ANN401 - tornado's
        """Send an error as JSON, whoever raised it."""
        error = kwargs.get("exc_info", (None, None))[1]
        told = {"what": HTTPStatus(status_code).phrase, "where": "", "fix": ""}
        if isinstance(error, web.HTTPError) and error.log_message:
            told["what"] = error.log_message
        self._tell(status_code, told)

    def fail(self, error: Exception) -> None:
        """Answer with an error of ours, or of the disk's."""
        if isinstance(error, SubmarineError):
            status = next(
                (code for kind, code in _STATUS.items() if isinstance(error, kind)),
                HTTPStatus.CONFLICT,
            )
            self._tell(status, {"what": error.what, "where": error.where, "fix": error.fix})
        elif isinstance(error, FileNotFoundError):
            told = {"what": "the job has no such file", "where": self.request.path, "fix": ""}
            self._tell(HTTPStatus.NOT_FOUND, told)
        else:
            raise error

    def _tell(self, status: int, told: dict[str, str]) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(told))


class Call(Api):
    """A route whose answer a thread finds."""

    @web.authenticated
    async def get(self, **names: str) -> None:
        """Answer a question."""
        await self._answer("get", names)

    @web.authenticated
    async def post(self, **names: str) -> None:
        """Do what is asked; jupyter_server has checked the XSRF token."""
        await self._answer("post", names)

    async def _answer(self, method: str, names: dict[str, str]) -> None:
        route = self.routes.get(method)
        if route is None or route.answer is None:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        try:
            numbers = read_numbers(route.numbers or {}, query)
            answer = await self.work.call(route.answer, **names, **numbers)
        except (SubmarineError, OSError) as error:
            self.fail(error)
            return
        if isinstance(answer, tuple):
            answer, size = answer
            self.set_header("X-Log-Size", str(size))
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        text = isinstance(answer, bytes)
        await self.finish(
            answer if text else json.dumps(answer),
            set_content_type="text/plain; charset=utf-8" if text else "application/json",
        )


class Document(Api):
    """The OpenAPI document."""

    @web.authenticated
    async def get(self) -> None:
        """Send it."""
        await self.finish(json.dumps(openapi()))


class Events(Api):
    """A job's stream as server-sent events."""

    def on_connection_close(self) -> None:
        """Wake the stream: its reader left."""
        self._gone().set()

    def _gone(self) -> asyncio.Event:
        if not hasattr(self, "_left"):
            self._left = asyncio.Event()
        return self._left

    @web.authenticated
    async def get(self, job_id: str) -> None:
        """Send everything from the cursor to the job's end, and go on as it comes."""
        from submarine_jupyter.jobs import opened  # noqa: PLC0415 - beside its only use

        try:
            cursor = first_cursor(
                self.request.headers.get("Last-Event-ID") or self.get_query_argument("cursor", "")
            )
            job = await self.work.call(opened, job_id)
            await self.work.read(job.cluster.read, job.id, cursor, limit=1)  # or refuse at once
        except (SubmarineError, OSError) as error:
            self.fail(error)
            return
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")
        await self.flush()
        with self.followers.of(job) as follower:
            gone = asyncio.create_task(self._gone().wait())
            coming: asyncio.Task[Any] | None = None
            try:
                while not gone.done():
                    coming = coming or asyncio.create_task(follower.next(cursor))
                    await asyncio.wait(
                        {coming, gone}, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
                    )
                    if not coming.done():
                        self.write(": nothing new\n\n")
                        await self.flush()
                        continue
                    batch, coming = coming.result(), None
                    self.write(message(batch))
                    await self.flush()  # a slow reader waits here, alone
                    cursor = batch.cursor
                    if batch.ended:
                        return
            except (SubmarineError, OSError) as error:
                self.write(f"event: problem\ndata: {json.dumps({'what': str(error)})}\n\n")
            finally:
                for task in filter(None, (gone, coming)):
                    task.cancel()


def handlers(work: Work, followers: Followers) -> list[tuple[Any, ...]]:
    """Return all routes as tornado takes them."""
    own = {"/openapi.json": Document, "/jobs/{job_id}/events": Events}
    found = []
    for route in ROUTES:
        given = {"work": work, "followers": followers, "routes": {route.method: route}}
        found.append((route.pattern, own.get(route.path, Call), given))
    page = (r"/submarine/jobs/(?P<job_id>[^/]{1,64})", JobPage, {"work": work})
    return [*found, page, (rf"{BASE}/.*", Missing)]


class Missing(APIHandler):
    """Whatever else is asked for below our address."""

    @web.authenticated
    async def get(self) -> None:
        """Say that there is none such."""
        self.set_status(HTTPStatus.NOT_FOUND)
        told = {"what": "there is no such route", "where": "", "fix": f"see {BASE}/openapi.json"}
        await self.finish(json.dumps(told))

    post = get
