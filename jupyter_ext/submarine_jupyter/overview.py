"""All jobs and all clusters at a glance: one task looks, for every page that is open.

Jobs come from their summaries on disk. What a cluster knows is asked in lanes of its own, its GPUs
about once a second, so that one which does not answer delays nothing and is told by name.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from submarine_engine.clusters import configured_names, open_cluster
from submarine_engine.clusters.base import Cluster
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, default_home
from submarine_engine.job import JobState
from submarine_engine.records import JobSummary, iter_jobs

from submarine_jupyter import jobs
from submarine_jupyter.origins import origin_of
from submarine_jupyter.work import Work

MOST_JOBS = 200
_EVERY = 1.0
_FIRST = 3.0
"""Seconds that the first overview waits for clusters; what comes later is told later."""
_LATE = 5.0

_NOTHING: dict[str, Any] = {"total": 0, "free": 0, "error": "", "shares": [], "gpus": []}


class _Asked:
    """One question to one cluster, asked again and again: its last answer, and how late it is."""

    def __init__(self, work: Work, lane: str) -> None:
        self._work, self._lane = work, lane
        self._began = 0.0
        self.task: asyncio.Task[None] | None = None
        self.answer: dict[str, Any] = {}
        self.error = ""

    @property
    def late(self) -> bool:
        waiting = self.task is not None and not self.task.done()
        return waiting and time.monotonic() - self._began > _LATE

    def ask(self, question: Callable[[], dict[str, Any]], every: float) -> None:
        now = time.monotonic()
        if self.task is None or (self.task.done() and now - self._began >= every):
            self._began = now
            self.task = asyncio.create_task(self._ask(question))

    async def _ask(self, question: Callable[[], dict[str, Any]]) -> None:
        try:
            self.answer, self.error = await self._work.call(self._lane, question), ""
        except (SubmarineError, OSError) as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001 - of whatever cluster somebody has installed
            self.error = f"{type(error).__name__}: {error}"


class Overview:
    """What is looked at; made for as long as anybody watches."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._clusters: dict[str, Cluster] = {}
        self._gpus: dict[str, _Asked] = {}
        self._states: dict[str, _Asked] = {}
        self._names: list[str] | None = None
        self._seen: object = None

    async def look(self) -> tuple[str | None, bool]:
        """Return the overview as JSON, or None where nothing has changed; it never ends."""
        if self._names is None:
            self._names = await self._work.call("overview", configured_names)
        rows = await self._work.call("overview", _rows)
        names = sorted({*self._names, *(row["cluster"] for row in rows if row["open"])})
        for name in names:
            gpus = self._gpus.setdefault(name, _Asked(self._work, f"{name} figures"))
            gpus.ask(partial(jobs.figures, name), _EVERY)
            unfinished = [row["id"] for row in rows if row["open"] and row["cluster"] == name]
            states = self._states.setdefault(name, _Asked(self._work, f"{name} overview"))
            states.ask(partial(self._now, name, unfinished), 0)
        await self._wait()
        found = [self._row(row) for row in rows]
        clusters = [{"name": name, **_told(self._gpus[name])} for name in names]
        if (clusters, found) == self._seen:
            return None, False
        self._seen = (clusters, found)
        return json.dumps({"now": time.time(), "clusters": clusters, "jobs": found}), False

    async def _wait(self) -> None:
        first = self._seen is None
        wanted = [*self._states.values(), *(self._gpus.values() if first else ())]
        tasks = [asked.task for asked in wanted if asked.task and not asked.late]
        if tasks:
            await asyncio.wait(tasks, timeout=_FIRST if first else _EVERY / 4)

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        known = self._states[row["cluster"]].answer.get(row["id"], {}) if row["open"] else {}
        return {key: value for key, value in {**row, **known}.items() if key != "open"}

    def _now(self, name: str, ids: list[str]) -> dict[str, Any]:
        """Return what a cluster knows better of its unfinished jobs than their summaries."""
        if ids and name not in self._clusters:  # kept: it has folded the events of its jobs
            self._clusters[name] = open_cluster(name)
        return {one: now for one in ids if (now := _now(self._clusters[name], one))}


def _told(asked: _Asked) -> dict[str, Any]:
    error = asked.error or ("it does not answer" if asked.late else "")
    return {**_NOTHING, **asked.answer, "error": error}


def _now(cluster: Cluster, job_id: str) -> dict[str, Any] | None:
    try:
        status = cluster.status(job_id)
    except (SubmarineError, OSError):
        return None
    ending = status.cancelling and not status.state.final
    return {
        "state": "cancelling" if ending else status.state.value,
        "reason": status.reason or status.waiting_reason,
        "finished": status.finished.wall if status.finished else None,
        "progress": status.progress,
    }


def _rows() -> list[dict[str, Any]]:
    home = default_home()
    return [_row(JobPaths(home, job.id), job) for job in islice(iter_jobs(home), MOST_JOBS)]


def _row(paths: JobPaths, job: JobSummary) -> dict[str, Any]:
    origin = origin_of(paths)
    return {
        "id": job.id,
        "cluster": job.cluster,
        "name": job.name,
        "state": job.state.value,
        "reason": job.reason,
        "gpus": job.gpus,
        "created": job.created.wall if job.created else None,
        "finished": job.finished.wall if job.finished else None,
        "notebook": origin.notebook,
        "cell": origin.cell,
        "cell_id": origin.cell_id,
        "progress": 1.0 if job.state is JobState.SUCCEEDED else None,
        "open": not job.state.final,
    }
