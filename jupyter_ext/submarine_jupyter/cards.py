"""Cards of jobs and the overview of all of them, as data; looked at once for all pages."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import configured_names, open_cluster
from submarine_engine.clusters.base import Cluster
from submarine_engine.clusters.choice import candidates, clusters_of
from submarine_engine.config import load_config
from submarine_engine.errors import JobFailedError, SubmarineError
from submarine_engine.events import Moment
from submarine_engine.failures import failure
from submarine_engine.history import JobPaths, default_home
from submarine_engine.job import JobState
from submarine_engine.outcome import read_outcome
from submarine_engine.records import JobSummary, iter_jobs

from submarine_jupyter import jobs
from submarine_jupyter.jobs import origin_of
from submarine_jupyter.routes import CardPart, Plugin
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus
    from submarine_magics.card.record import Record
    from submarine_magics.card.trying import Trying


# The job card as data: what a front end shows of a job, looked at again and again.


_STREAMS = ("stdout", "stderr")
_FRAMES = 50
_MESSAGE = 4000
_TASKS = 64


class CardPoller:
    """One job, looked at by whoever asks for its card; the unchanging part is read once.

    Parameters
    ----------
    job
        The job; its record and bundle are read at once.
    plugins
        Modules that add parts of theirs to the card.
    """

    def __init__(self, job: Job, plugins: Sequence[Plugin] = ()) -> None:
        # Late: the card brings IPython, which a server that shows no job need not load.
        from submarine_magics.card.record import read_record  # noqa: PLC0415

        self._job = job
        self._paths = jobs.paths_of(job.id)
        origin = origin_of(self._paths)
        self._record = read_record(job, origin=origin.cell, machine=False)
        self._parts: list[CardPart] = [plugin.card(job) for plugin in plugins if plugin.card]
        self._seen: object = None
        self._failure: dict[str, Any] | None = None

    def poll(self) -> tuple[str | None, bool]:
        """Return the card as JSON, None where nothing has changed, and whether the job is over.

        Raises
        ------
        SubmarineError
            The job cannot be read any more.
        """
        from submarine_magics.card.pages import with_links  # noqa: PLC0415 - as above
        from submarine_magics.card.trying import read_trying  # noqa: PLC0415 - as above

        status = self._job.status()
        record = with_links(self._record, self._job, final=status.state.final)
        logs, outputs = self._logs(status), self._outputs(status)
        parts = {key: value for part in self._parts for key, value in part(status).items()}
        trying = None if status.state.final else read_trying(self._job, record.spec)
        seen = (status, record, logs, outputs, parts, trying)
        if seen == self._seen:
            return None, status.state.final
        card = (
            self._card(status, record, parts, trying) | {"logs": logs, "outputs": outputs} | parts
        )
        self._seen = seen  # not earlier: who failed to draw it has not shown it
        return json.dumps(card), status.state.final

    def _card(
        self, status: JobStatus, record: Record, parts: dict[str, Any], trying: Trying | None
    ) -> dict[str, Any]:
        from submarine_magics.card.model import view  # noqa: PLC0415 - as above
        from submarine_magics.card.served import Extras, served_tree  # noqa: PLC0415 - as above

        now = Moment.now()
        if status.state is JobState.FAILED and self._failure is None:
            self._failure = _failure(self._job, status)
        card = view(record, status, now)
        extras = Extras(
            frames=self._failure["frames"] if self._failure else (),
            scalars=parts.get("scalars", {}),
            tensorboard=parts.get("tensorboard", False),
            can_save=parts.get("can_save", False),
            trying=trying,
            notebook=parts.get("notebook", False),
        )
        return {
            # The script is long, in the tree, and has a route of its own.
            **asdict(replace(card, script=None)),
            "tree": served_tree(card, extras).to_json(),
            "now": now.wall,
            "running": not status.state.final,
            "failure": self._failure,
        }

    def _logs(self, status: JobStatus) -> list[dict[str, Any]]:
        return [
            {"task": task.task, "stream": stream, "size": self._size(task.task, stream)}
            for task in status.ranked[:_TASKS]
            for stream in _STREAMS
        ]

    def _outputs(self, status: JobStatus) -> list[dict[str, Any]]:
        """Return of each task how many bytes of displays it has, and when its code began."""
        return [
            {
                "task": task.task,
                "shown": self._size(task.task, "displays"),
                "began": task.busy.wall if task.busy else None,
            }
            for task in status.ranked[:_TASKS]
        ]

    def _size(self, task: str, stream: str) -> int:
        try:
            found = self._paths.task(task).log(stream).lstat()
        except OSError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0


def card(job_id: str, plugins: Sequence[Plugin] = ()) -> dict[str, Any]:
    """Return the card of the job `job_id`, with what `plugins` add, as it stands.

    Raises as `jobs.opened` and `CardPoller.poll` do.
    """
    text, _ = CardPoller(jobs.opened(job_id), plugins).poll()
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def _failure(job: Job, status: JobStatus) -> dict[str, Any] | None:
    """Return the error that a failed job's `result` would raise, as data."""
    from submarine_magics.card.words import visible, visible_lines  # noqa: PLC0415 - as above

    try:
        folder = job.cluster.results(job.id, status.failed_task or None)
        error: JobFailedError = failure(job.id, status, read_outcome(folder), folder, "")
    except (SubmarineError, OSError, ValueError, LookupError):
        return None
    trace = error.trace
    return {
        "type": visible(trace.type if trace else "", 100),
        "message": visible_lines(trace.message if trace else error.what, _MESSAGE),
        "frames": [
            {
                "cell": visible(frame.cell, 100),
                "cell_id": frame.cell_id or "",
                "line": frame.line,
                "function": visible(frame.function, 100),
                "text": visible(frame.text, 400),
            }
            for frame in (trace.frames[-_FRAMES:] if trace else ())
        ],
    }


# All jobs and all clusters at a glance: one task looks, for every page that is open.
#
# Jobs come from their summaries on disk. What a cluster knows is asked in pools of its own, its
# GPUs about once a second, so that one which does not answer delays nothing and is told by name.


MOST_JOBS = 200
_EVERY = 1.0  # seconds between two questions for a cluster's GPUs: each is a call to its scheduler
_FIRST = 3.0
"""Seconds that the first overview waits for clusters; what comes later is told later."""
_LATE = 5.0
"""Seconds after which a cluster that has not answered is said not to answer, and not waited for."""

_NOTHING: dict[str, Any] = {"total": 0, "free": 0, "error": "", "shares": [], "gpus": []}


class _RepeatedQuery:
    """One question to one cluster, asked again and again: its last answer, and how late it is."""

    def __init__(self, work: Work, pool: str) -> None:
        self._work, self._pool = work, pool
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
            self.answer, self.error = await self._work.call(self._pool, question), ""
        except (SubmarineError, OSError) as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001 - of whatever cluster somebody has installed
            self.error = f"{type(error).__name__}: {error}"


class Overview:
    """The overview of clusters and jobs; it is there as long as a page watches it.

    Parameters
    ----------
    work
        The pools in which jobs and clusters are asked.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._clusters: dict[str, Cluster] = {}
        self._gpus: dict[str, _RepeatedQuery] = {}
        self._states: dict[str, _RepeatedQuery] = {}
        self._names: list[str] | None = None
        self._seen: object = None

    async def poll(self) -> tuple[str | None, bool]:
        """Return the overview as JSON, or None where nothing has changed; it never ends."""
        if self._names is None:
            self._names = await self._work.call("overview", overview_order)
        rows = await self._work.call("overview", _rows)
        others = sorted(row["cluster"] for row in rows if row["open"])
        names = list(dict.fromkeys((*self._names, *others)))
        for name in names:
            gpus = self._gpus.setdefault(name, _RepeatedQuery(self._work, f"{name} figures"))
            gpus.ask(partial(jobs.figures, name), _EVERY)
            unfinished = [row["id"] for row in rows if row["open"] and row["cluster"] == name]
            states = self._states.setdefault(name, _RepeatedQuery(self._work, f"{name} overview"))
            states.ask(partial(self._now, name, unfinished), 0)
        await self._wait()
        found = [self._row(row) for row in rows]
        clusters = [{"name": name, **_figures(self._gpus[name])} for name in names]
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
        shown = {**row, **known, "cluster": row["runs_on"]}
        return {key: value for key, value in shown.items() if key not in ("open", "runs_on")}

    def _now(self, name: str, ids: list[str]) -> dict[str, Any]:
        """Return what a cluster knows better of its unfinished jobs than their summaries."""
        if ids and name not in self._clusters:  # kept: it has folded the events of its jobs
            self._clusters[name] = open_cluster(name)
        return {one: now for one in ids if (now := _now(self._clusters[name], one))}


def _figures(asked: _RepeatedQuery) -> dict[str, Any]:
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
        "reason": status.reason or status.waiting_reason or status.warning,
        "finished": status.finished.wall if status.finished else None,
        "progress": status.progress,
    }


def overview_order() -> list[str]:
    """Return the clusters that the user has: first that of jobs which name none."""
    found = configured_names()
    order = [*clusters_of(str(load_config().value("cluster"))), *candidates(), *found]
    return [name for name in dict.fromkeys(order) if name in found]


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
        "serves": origin.serves,
        "runs_on": job.runs_on,
        "progress": 1.0 if job.state is JobState.SUCCEEDED else None,
        "open": not job.state.final,
    }
