"""What the user's running jobs use and report, for Prometheus: the text format of OpenMetrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from submarine_engine.errors import SubmarineError
from submarine_engine.job import JobState
from submarine_engine.metrics import open_metrics
from submarine_engine.records import list_jobs

from submarine_jupyter import jobs
from submarine_jupyter.handlers import Api
from submarine_jupyter.routes import MOST_JOBS, Plugin, Server
from submarine_jupyter.work import Work

_PATTERN = r"/submarine/metrics"
_KIND = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_LIMIT = 60.0
"""Seconds: the files of some hundred jobs are read."""


class Metrics(Api):
    """``GET /submarine/metrics``: who may read jobs may read this."""

    async def get(self, **names: str) -> None:
        """Answer whoever scrapes."""
        self.routes = {"get": None}  # type: ignore[dict-item] # no route of the API's document
        await super().get(**names)

    async def respond(self, **_names: str) -> None:
        """Read what the jobs' tasks have written, in a thread."""
        text = await self.work.call("metrics", _text)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Type", _KIND)
        self.finish(text, set_content_type=_KIND)


def _text() -> str:
    found = []
    for summary in list_jobs(limit=MOST_JOBS):
        if summary.state is JobState.RUNNING:
            try:
                job = jobs.opened(summary.id)  # somebody else's is not there
                found.append((job.id, summary.name, job.cluster.metrics(job.id)))
            except (SubmarineError, OSError):  # it is being deleted
                continue
    return open_metrics(found)


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    _WORK[app] = Work(_LIMIT)
    return [(_PATTERN, Metrics, {"work": _WORK[app]})]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(handlers=_handlers, stop=_stop)
