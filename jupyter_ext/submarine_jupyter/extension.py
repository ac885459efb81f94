"""The server extension: it brings our handlers, and ends with the server."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float, Int

from submarine_jupyter.extras import EXTRAS
from submarine_jupyter.table import handlers
from submarine_jupyter.watching import MOST_STREAMS, Watchers
from submarine_jupyter.work import LIMIT, Work


class SubmarineApp(ExtensionApp):
    """``submarine_jupyter`` as Jupyter's server loads it.

    Attributes
    ----------
    work, watchers
        The threads, and what is watched; the modules in `extras` may use both.
    """

    name = "submarine_jupyter"

    max_streams = Int(
        MOST_STREAMS, min=1, help="Streams that may be open at once; a page has one."
    ).tag(config=True)

    call_limit = Float(
        LIMIT, min=0.1, help="Seconds after which a cluster that does not answer is given up."
    ).tag(config=True)

    def initialize_handlers(self) -> None:
        """Register the routes, all of them below the server's base URL."""
        self.work = Work(self.call_limit)
        self.watchers = Watchers(self.max_streams)
        self.handlers.extend(handlers(self, EXTRAS))

    async def stop_extension(self) -> None:
        """End what is watched, and the threads, with the server."""
        for extra in EXTRAS:
            if extra.stop:
                extra.stop(self)
        self.watchers.stop()
        self.work.stop()
