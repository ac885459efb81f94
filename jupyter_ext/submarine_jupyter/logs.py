"""The handlers of logs: lines, search, and the whole file."""

from __future__ import annotations

import os
from collections.abc import Callable

from submarine_engine.errors import CommandError
from tornado import web
from tornado.iostream import StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.handlers import Api
from submarine_jupyter.lineindex import LineIndex
from submarine_jupyter.loglines import read_lines, search

LANE = "logs"
_BLOCK = 1 << 18
_LONGEST_TEXT = 1000


class LogHandler(Api):
    """What the handlers of one log share."""

    async def ask(
        self, names: dict[str, str], question: Callable[[LineIndex, int], dict[str, object]]
    ) -> None:
        """Answer with what `question` finds; a log that is not there yet has no lines."""
        path = await self.work.call(LANE, jobs.log_path, **names)
        try:
            found = await self.indexes.ask(path, question)
        except FileNotFoundError:
            await self.work.call(LANE, jobs.check_task, names["job_id"], names["task"])
            found = question(LineIndex(), -1)
        self.tell(found)


class Lines(LogHandler):
    """``…/lines``."""

    async def respond(self, **names: str) -> None:
        """Send lines by number, or the last ones."""
        numbers = self.numbers()
        start = numbers["start"] if self.get_query_argument("start", None) is not None else None
        await self.ask(names, lambda index, log: read_lines(index, log, start, numbers["count"]))


class Search(LogHandler):
    """``…/search``."""

    async def respond(self, **names: str) -> None:
        """Send the numbers of the lines that hold a text."""
        numbers = self.numbers()
        text = wanted_text(self)
        await self.ask(names, lambda index, log: search(index, log, text, **numbers))


def wanted_text(handler: Api) -> str:
    """Return the text that a request searches for.

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
        path = await self.work.call(LANE, jobs.log_path, **names)
        log = await self.work.call(LANE, jobs.open_plain, path)
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
                data = await self.work.call(LANE, os.pread, log, block, position)
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
