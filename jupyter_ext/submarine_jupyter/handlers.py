"""Jupyter's handlers: who asks is known, what is asked is checked, and threads do the rest."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from jupyter_server.base.handlers import APIHandler
from submarine_engine.errors import CommandError, SubmarineError
from tornado import web

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.document import openapi
from submarine_jupyter.indexes import Indexes, Outputs
from submarine_jupyter.parts import Extra
from submarine_jupyter.refusals import status_of, told
from submarine_jupyter.routes import BASE, Route, read_numbers
from submarine_jupyter.watching import Watchers
from submarine_jupyter.work import Work

_MOST_BODY = 1 << 20


class Api(APIHandler):
    """What all of them share: errors as ``what``, ``where`` and ``fix``."""

    def initialize(  # noqa: PLR0913 - what is shared, each by its name
        self,
        work: Work,
        *,
        watchers: Watchers | None = None,
        routes: dict[str, Route] | None = None,
        indexes: Indexes | None = None,
        outputs: Outputs | None = None,
        extras: tuple[Extra, ...] = (),
    ) -> None:
        """Take what the server's handlers share, and this path's routes by method."""
        self.work, self.routes, self.extras = work, routes or {}, extras
        self.watchers = watchers or Watchers()
        self.indexes = indexes or Indexes(work)
        self.outputs = outputs or Outputs(work)

    def write_error(self, status_code: int, **kwargs: Any) -> None:  # noqa: ANN401 - tornado's
        """Send an error as JSON, whoever raised it."""
        error = kwargs.get("exc_info", (None, None))[1]
        answer = {"what": HTTPStatus(status_code).phrase, "where": "", "fix": ""}
        if isinstance(error, web.HTTPError) and error.log_message:
            answer["what"] = error.log_message
        self._tell_error(status_code, answer)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        self._tell_error(status_of(error), told(error, self.request.path))

    def tell(self, answer: object) -> None:
        """Send an answer as JSON, for nobody to keep."""
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(json.dumps(answer), set_content_type="application/json")

    def numbers(self, method: str = "get") -> dict[str, int]:
        """Return the query's numbers as the route names them; raises as `read_numbers` does."""
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        return read_numbers(self.routes[method].numbers or {}, query)

    @may("read")
    async def get(self, **names: str) -> None:
        """Answer a question."""
        await self._answered("get", names)

    @may("write")
    async def post(self, **names: str) -> None:
        """Do what is asked; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **names: str) -> None:
        """Answer; errors of ours and of the disk may be raised."""
        raise NotImplementedError

    async def _answered(self, method: str, names: dict[str, str]) -> None:
        if method not in self.routes:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            await self.respond(**names)
        except (SubmarineError, OSError) as error:
            if self._headers_written:
                raise
            self.fail(error)

    def _tell_error(self, status: int, answer: dict[str, str]) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(answer))


class Call(Api):
    """A route whose answer a thread finds."""

    async def respond(self, **names: str) -> None:
        """Call the route's function in the lane of the cluster that it is about."""
        method = str(self.request.method).lower()
        route = self.routes[method]
        if route.answer is None:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        given: dict[str, Any] = {**names, **self.numbers(method)}
        if route.body is not None:
            given["body"] = self._body()
        found = await self.work.call(await self._lane(names), route.answer, **given)
        if isinstance(found, tuple):
            found, size = found
            self.set_header("X-Log-Size", str(size))
        if isinstance(found, bytes):
            self.set_header("Cache-Control", "no-store")
            self.set_header("X-Content-Type-Options", "nosniff")
            await self.finish(found, set_content_type="text/plain; charset=utf-8")
        else:
            self.tell(found)

    async def _lane(self, names: dict[str, str]) -> str:
        if "job_id" in names:
            return f"{await self.work.call('jobs', jobs.cluster_of, names['job_id'])} jobs"
        return f"{names['cluster']} calls" if "cluster" in names else "jobs"

    def _body(self) -> dict[str, Any]:
        try:
            found = json.loads(self.request.body[:_MOST_BODY] or b"{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise CommandError("this is no JSON object", where="body", fix="send one, as UTF-8")
        return found


class Document(Api):
    """The OpenAPI document."""

    async def respond(self, **_names: str) -> None:
        """Send it."""
        self.tell(await self.work.call("jobs", openapi, self.extras))


class Missing(APIHandler):
    """Whatever else is asked for below our address."""

    @may("read")
    async def get(self) -> None:
        """Say that there is none such."""
        self.set_status(HTTPStatus.NOT_FOUND)
        answer = {"what": "there is no such route", "where": "", "fix": f"see {BASE}/openapi.json"}
        await self.finish(json.dumps(answer))

    post = get
