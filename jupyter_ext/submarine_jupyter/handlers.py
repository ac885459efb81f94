"""Jupyter's handlers: who asks is known, what is asked is checked, and threads do the rest."""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from submarine_engine.errors import ClusterError, CommandError, SubmarineError
from submarine_engine.masking import Masker, masked_pread, masker_of
from tornado import web
from tornado.iostream import StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.log_index import LineIndex, read_lines, search
from submarine_jupyter.output import Output
from submarine_jupyter.routes import (
    BASE,
    Plugin,
    Route,
    error_body,
    openapi,
    read_numbers,
    status_of,
)
from submarine_jupyter.work import Watchers, Work

# What is known of logs and outputs, shared by all readers of a server; one's turn at a time.


POOL = "logs"
_MOST_INDEXES = 64
_STEP = 64 << 20
"""Bytes that are indexed at a time: others get their turn in between."""

_MOST_OUTPUTS = 32

_T = TypeVar("_T")
Question = Callable[[LineIndex, int], dict[str, object]]


class _Indexed:
    """One log: its index, and whose turn it is."""

    def __init__(self) -> None:
        self.index = LineIndex()
        self.turn = asyncio.Lock()


class Indexes:
    """The indexes of the logs that were looked at last, shared by all readers.

    Parameters
    ----------
    work
        The pools in which logs are read.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._found: OrderedDict[Path, _Indexed] = OrderedDict()

    async def ask(self, path: Path, question: Question) -> dict[str, object]:
        """Bring the log's index to its end, and return what `question` finds with it.

        Parameters
        ----------
        path
            Of the log.
        question
            Is called with the index, and a descriptor of the log.

        Raises
        ------
        FileNotFoundError
            There is no such log.
        """
        one = self._found.setdefault(path, _Indexed())
        self._found.move_to_end(path)
        while len(self._found) > _MOST_INDEXES:
            self._found.popitem(last=False)
        async with one.turn:
            try:
                while not await self._work.call(POOL, _grow, one.index, path):
                    pass
                return await self._work.call(POOL, _ask, one.index, path, question)
            except ClusterError:  # its thread may read on, so nobody else reads this one any more
                self._found.pop(path, None)
                raise


class Outputs:
    """The outputs that were looked at last, for all readers; one reader's turn at a time.

    Parameters
    ----------
    work
        The pools in which outputs are read.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._found: OrderedDict[tuple[str, str], tuple[Output, asyncio.Lock]] = OrderedDict()

    async def ask(self, job_id: str, task: str, question: Callable[[Output], _T]) -> _T:
        """Read a task's output to its end, and return what `question` finds in it.

        Parameters
        ----------
        job_id
            The job.
        task
            Which of its tasks.
        question
            Is called with the output.

        Raises
        ------
        JobNotFoundError, FileNotFoundError
            There is no such job, or no such task.
        """
        paths = await self._work.call(POOL, jobs.paths_of, job_id)
        if (job_id, task) not in self._found:
            await self._work.call(POOL, jobs.check_task, job_id, task)
        key = (job_id, task)
        output, turn = self._found.setdefault(key, (Output(paths, task), asyncio.Lock()))
        self._found.move_to_end(key)
        while len(self._found) > _MOST_OUTPUTS:
            self._found.popitem(last=False)
        async with turn:
            try:
                while not await self._work.call(POOL, output.grow, _STEP):
                    pass
                return await self._work.call(POOL, question, output)
            except ClusterError:  # as above
                self._found.pop(key, None)
                raise


def _grow(index: LineIndex, path: Path) -> bool:
    with jobs.opened_log(path) as log:
        return index.grow(log, _STEP)


def _ask(index: LineIndex, path: Path, question: Question) -> dict[str, object]:
    with jobs.opened_log(path) as log:
        return question(index, log)


_MOST_BODY = 1 << 20


class Api(APIHandler):
    """What all handlers of the API share: errors as ``what``, ``where`` and ``fix``."""

    def initialize(  # noqa: PLR0913 - what is shared, each by its name
        self,
        work: Work,
        *,
        watchers: Watchers | None = None,
        routes: dict[str, Route] | None = None,
        indexes: Indexes | None = None,
        outputs: Outputs | None = None,
        plugins: tuple[Plugin, ...] = (),
    ) -> None:
        """Take what the server's handlers share, and this path's routes by method."""
        self.work, self.routes, self.plugins = work, routes or {}, plugins
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
        self._tell_error(status_of(error), error_body(error, self.request.path))

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
        """Call the route's function in the pool of the cluster that it is about."""
        method = str(self.request.method).lower()
        route = self.routes[method]
        if route.answer is None:
            raise web.HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        given: dict[str, Any] = {**names, **self.numbers(method)}
        if route.body is not None:
            given["body"] = self._body()
        found = await self.work.call(await self._pool(names), route.answer, **given)
        if isinstance(found, tuple):
            found, size = found
            self.set_header("X-Log-Size", str(size))
        if isinstance(found, bytes):
            self.set_header("Cache-Control", "no-store")
            self.set_header("X-Content-Type-Options", "nosniff")
            await self.finish(found, set_content_type="text/plain; charset=utf-8")
        else:
            self.tell(found)

    async def _pool(self, names: dict[str, str]) -> str:
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
        self.tell(await self.work.call("jobs", openapi, self.plugins, self.base_url))


class Missing(APIHandler):
    """Answers 404 for every other address below ours."""

    @may("read")
    async def get(self) -> None:
        """Say that there is none such."""
        self.set_status(HTTPStatus.NOT_FOUND)
        document = f"{self.base_url.rstrip('/')}{BASE}/openapi.json"
        answer = {"what": "there is no such route", "where": "", "fix": f"see {document}"}
        await self.finish(json.dumps(answer))

    post = get


# The handlers of logs: lines, search, and the whole file.


_BLOCK = 1 << 18
_LONGEST_TEXT = 1000


class LogHandler(Api):
    """What the handlers of one log share."""

    async def ask(
        self,
        names: dict[str, str],
        question: Callable[[LineIndex, int, Masker | None], dict[str, object]],
    ) -> None:
        """Answer with what `question` finds; a log that is not there yet has no lines."""
        path = await self.work.call(POOL, jobs.log_path, **names)
        masker = await self.work.call(POOL, masker_of, path.parents[2])
        try:
            found = await self.indexes.ask(path, lambda index, log: question(index, log, masker))
        except FileNotFoundError:
            await self.work.call(POOL, jobs.check_task, names["job_id"], names["task"])
            found = question(LineIndex(), -1, None)
        self.tell(found)


class Lines(LogHandler):
    """``…/lines``."""

    async def respond(self, **names: str) -> None:
        """Send lines by number, or the last ones."""
        numbers = self.numbers()
        start = numbers["start"] if self.get_query_argument("start", None) is not None else None
        count = numbers["count"]
        await self.ask(names, lambda index, log, mask: read_lines(index, log, start, count, mask))


class Search(LogHandler):
    """``…/search``."""

    async def respond(self, **names: str) -> None:
        """Send the numbers of the lines that hold a text."""
        numbers = self.numbers()
        text = wanted_text(self)
        await self.ask(
            names,
            lambda index, log, masker: search(index, log, text, **numbers, masker=masker),
        )


def wanted_text(handler: Api) -> str:
    """Return the text that the request of `handler` searches for.

    Raises
    ------
    CommandError
        It is not one line, or too long.
    """
    text = handler.get_query_argument("text", "", strip=False)
    if not 1 <= len(text) <= _LONGEST_TEXT or "\n" in text:
        raise CommandError(
            f"the text is not one line of 1 to {_LONGEST_TEXT} characters",
            where="?text=",
            fix="send what the line is to hold",
        )
    return text


class File(LogHandler):
    """``…/file``."""

    async def respond(self, **names: str) -> None:
        """Send the whole log as it is now, as fast as its reader reads."""
        path = await self.work.call(POOL, jobs.log_path, **names)
        masker = await self.work.call(POOL, masker_of, path.parents[2])
        log = await self.work.call(POOL, jobs.open_plain, path)
        try:
            size = os.fstat(log).st_size
            name = "{job_id}-{task}.{stream}.log".format(**names)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.set_header("Content-Disposition", f'attachment; filename="{name}"')
            self.set_header("Content-Length", str(size))
            self.set_header("X-Content-Type-Options", "nosniff")
            position = 0
            while position < size:
                block = min(_BLOCK, size - position)
                data = await self.work.call(POOL, masked_pread, masker, log, block, position)
                if not data:  # it was cut meanwhile: the length that was told cannot be kept
                    raise web.HTTPError(500, "the log was cut while it was sent")
                self.write(data)
                await self.flush()
                position += len(data)
        except StreamClosedError:
            return
        finally:
            os.close(log)
        if not size:
            await self.finish()


# The handlers of a task's output: lines, search, the whole as a file, and what it shows.


_PAGE = 2000
"""Lines of the file that are read at a time."""


class OutputHandler(Api):
    """What the handlers of one output share."""

    async def ask(self, names: dict[str, str], question: Callable[[Output], _T]) -> _T:
        """Return what `question` finds in the output that the path names."""
        return await self.outputs.ask(names["job_id"], names["task"], question)


class OutputLines(OutputHandler):
    """``…/lines``."""

    async def respond(self, **names: str) -> None:
        """Send lines by number, or the last ones."""
        numbers = self.numbers()
        start = numbers["start"] if self.get_query_argument("start", None) is not None else None
        self.tell(await self.ask(names, lambda output: output.read(start, numbers["count"])))


class OutputAt(OutputHandler):
    """``…/at``."""

    async def respond(self, **names: str) -> None:
        """Send the line that was the last one at a moment, and those around it."""
        numbers = self.numbers()
        wall, around = numbers["time"] / 1000, numbers["around"]
        self.tell(await self.ask(names, lambda output: output.at(wall, around)))


class OutputSearch(OutputHandler):
    """``…/search``."""

    async def respond(self, **names: str) -> None:
        """Send the numbers of the lines that hold a text."""
        numbers = self.numbers()
        text = wanted_text(self)
        self.tell(await self.ask(names, lambda output: output.search(text, **numbers)))


class OutputFile(OutputHandler):
    """``…/file``."""

    async def respond(self, **names: str) -> None:
        """Send all lines that there are now, as fast as their reader reads."""
        position = 0
        try:
            while True:
                data, count = await self.ask(
                    names, partial(Output.raw, start=position, count=_PAGE)
                )
                if position == 0:
                    name = "{job_id}-{task}.log".format(**names)
                    self.set_header("Content-Type", "text/plain; charset=utf-8")
                    self.set_header("Content-Disposition", f'attachment; filename="{name}"')
                    self.set_header("X-Content-Type-Options", "nosniff")
                position += count
                self.write(data)
                await self.flush()
                if count < _PAGE:
                    return
        except StreamClosedError:
            return


class OutputDisplays(OutputHandler):
    """``…/displays``."""

    async def respond(self, **names: str) -> None:
        """Send what the task shows now, and where it stands among the lines."""
        self.tell(await self.ask(names, Output.shown))


class Display(OutputHandler):
    """``…/display``."""

    async def respond(self, **names: str) -> None:
        """Send the MIME bundle of one thing that is shown."""
        offset = self.numbers()["offset"]
        self.tell(await self.ask(names, lambda output: output.display(offset)))
