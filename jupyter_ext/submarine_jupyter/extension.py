"""The server extension: it brings our handlers, and ends with the server."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from submarine_jupyter.followers import Followers
from submarine_jupyter.handlers import handlers
from submarine_jupyter.work import Work


class SubmarineApp(ExtensionApp):
    """``submarine_jupyter`` as Jupyter's server loads it."""

    name = "submarine_jupyter"

    def initialize_handlers(self) -> None:
        """Register the routes, all of them below the server's base URL."""
        self.work = Work()
        self.followers = Followers(self.work)
        self.handlers.extend(handlers(self.work, self.followers))

    async def stop_extension(self) -> None:
        """End the followers and the threads with the server."""
        self.followers.stop()
        self.work.stop()
