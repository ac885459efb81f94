"""All handlers of the extension, as tornado takes them."""

from __future__ import annotations

from typing import Any

from submarine_jupyter.glance import CardNow, OverviewNow
from submarine_jupyter.handlers import Call, Document, Missing
from submarine_jupyter.indexes import Indexes, Outputs
from submarine_jupyter.logs import File, Lines, Search
from submarine_jupyter.outputs import (
    Display,
    OutputFile,
    OutputLines,
    OutputSearch,
    Shown,
)
from submarine_jupyter.page import JobPage
from submarine_jupyter.parts import Extra, Server
from submarine_jupyter.routes import BASE, all_routes
from submarine_jupyter.streams import Events, Page


_LOG = "/jobs/{job_id}/logs/{task}/{stream}"
_OUTPUT = "/jobs/{job_id}/output/{task}"
_OWN: dict[str, Any] = {
    "/openapi.json": Document,
    "/overview": OverviewNow,
    "/stream": Page,
    "/jobs/{job_id}/card": CardNow,
    "/jobs/{job_id}/events": Events,
    f"{_LOG}/lines": Lines,
    f"{_LOG}/search": Search,
    f"{_LOG}/file": File,
    f"{_OUTPUT}/lines": OutputLines,
    f"{_OUTPUT}/search": OutputSearch,
    f"{_OUTPUT}/file": OutputFile,
    f"{_OUTPUT}/displays": Shown,
    f"{_OUTPUT}/display": Display,
}


def handlers(app: Server, extras: tuple[Extra, ...]) -> list[tuple[Any, ...]]:
    """Return every route with its handler; the modules in `extras` add theirs."""
    shared: dict[str, Any] = {"work": app.work, "watchers": app.watchers, "extras": extras}
    shared["indexes"] = Indexes(app.work)
    shared["outputs"] = Outputs(app.work)
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes(extras):
        paths.setdefault(route.path, {})[route.method] = route
    found: list[tuple[Any, ...]] = []
    for extra in extras:
        found += extra.handlers(app) if extra.handlers else ()
    for path, routes in paths.items():
        kind = _OWN.get(path, Call)
        pattern = next(iter(routes.values())).pattern
        found.append((pattern, kind, {**shared, "routes": routes}))
    page = (r"/submarine/jobs/(?P<job_id>[^/]{1,64})", JobPage, {"work": app.work})
    return [*found, page, (rf"{BASE}/.*", Missing)]
