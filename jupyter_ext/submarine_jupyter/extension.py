"""The server extension: our handlers and those of the plugins; it ends with the server."""

from __future__ import annotations

from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Float, Int, List, Unicode

from submarine_jupyter import (
    artifacts,
    charts,
    flows,
    metrics,
    notebooks,
    proxy,
    save,
    stacks,
    tensorboard,
    terminal,
    trials,
    usage,
)
from submarine_jupyter.handlers import (
    Call,
    Display,
    Document,
    File,
    Indexes,
    Lines,
    Missing,
    OutputAt,
    OutputDisplays,
    OutputFile,
    OutputLines,
    Outputs,
    OutputSearch,
    Search,
)
from submarine_jupyter.page import JobPage
from submarine_jupyter.routes import BASE, Plugin, Server, all_routes
from submarine_jupyter.stream import CardSnapshot, Events, OverviewSnapshot, Page
from submarine_jupyter.work import LIMIT, MOST_STREAMS, Watchers, Work

# The modules that add to the server, each by one line.


PLUGINS: tuple[Plugin, ...] = (
    artifacts.PLUGIN,
    charts.PLUGIN,
    flows.PLUGIN,
    metrics.PLUGIN,
    notebooks.PLUGIN,
    proxy.PLUGIN,
    save.PLUGIN,
    stacks.PLUGIN,
    tensorboard.PLUGIN,
    terminal.PLUGIN,
    trials.PLUGIN,
    usage.PLUGIN,
)


# All handlers of the extension, as tornado takes them.


_LOG = "/jobs/{job_id}/logs/{task}/{stream}"
_OUTPUT = "/jobs/{job_id}/output/{task}"
_OWN: dict[str, Any] = {
    "/openapi.json": Document,
    "/overview": OverviewSnapshot,
    "/stream": Page,
    "/jobs/{job_id}/card": CardSnapshot,
    "/jobs/{job_id}/events": Events,
    f"{_LOG}/lines": Lines,
    f"{_LOG}/search": Search,
    f"{_LOG}/file": File,
    f"{_OUTPUT}/lines": OutputLines,
    f"{_OUTPUT}/at": OutputAt,
    f"{_OUTPUT}/search": OutputSearch,
    f"{_OUTPUT}/file": OutputFile,
    f"{_OUTPUT}/displays": OutputDisplays,
    f"{_OUTPUT}/display": Display,
}


def handlers(app: Server, plugins: tuple[Plugin, ...]) -> list[tuple[Any, ...]]:
    """Return every route of `app` with its handler; the modules in `plugins` add theirs."""
    shared: dict[str, Any] = {"work": app.work, "watchers": app.watchers, "plugins": plugins}
    shared["indexes"] = Indexes(app.work)
    shared["outputs"] = Outputs(app.work)
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes(plugins):
        paths.setdefault(route.path, {})[route.method] = route
    found: list[tuple[Any, ...]] = []
    for plugin in plugins:
        found += plugin.handlers(app) if plugin.handlers else ()
    for path, routes in paths.items():
        kind = _OWN.get(path, Call)
        pattern = next(iter(routes.values())).pattern
        found.append((pattern, kind, {**shared, "routes": routes}))
    page = (r"/submarine/jobs/(?P<job_id>[^/]{1,64})", JobPage, {"work": app.work})
    return [*found, page, (rf"{BASE}/.*", Missing)]


# The server extension: it brings our handlers, and ends with the server.


class SubmarineApp(ExtensionApp):
    """``submarine_jupyter`` as Jupyter's server loads it.

    Attributes
    ----------
    work, watchers
        The threads, and what is watched; the modules in `extension` may use both.
    """

    name = "submarine_jupyter"

    max_streams = Int(
        MOST_STREAMS, min=1, help="Streams that may be open at once; a page has one."
    ).tag(config=True)

    call_limit = Float(
        LIMIT, min=0.1, help="Seconds after which a cluster that does not answer is given up."
    ).tag(config=True)

    proxy_headers = List(
        Unicode(), help="Headers that pass to a job's port and back, besides the usual ones."
    ).tag(config=True)

    proxy_connections = Int(
        proxy.MOST, min=1, help="Connections to ports of jobs that may be open at once."
    ).tag(config=True)

    def initialize_handlers(self) -> None:
        """Register the routes, all of them below the server's base URL."""
        self.work = Work(self.call_limit)
        self.watchers = Watchers(self.max_streams)
        self.handlers.extend(handlers(self, PLUGINS))

    async def stop_extension(self) -> None:
        """End what is watched, and the threads, with the server."""
        for plugin in PLUGINS:
            if plugin.stop:
                plugin.stop(self)
        self.watchers.stop()
        self.work.stop()
