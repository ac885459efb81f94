"""The handlers of a task's output: lines, search, the whole as a file, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tornado.iostream import StreamClosedError

from submarine_jupyter.handlers import Api
from submarine_jupyter.logs import wanted_text
from submarine_jupyter.output import Output

_T = TypeVar("_T")
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


class Shown(OutputHandler):
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
