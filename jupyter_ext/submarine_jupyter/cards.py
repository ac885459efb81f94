"""The job card as data: what a front end shows of a job, looked at again and again."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import JobFailedError, SubmarineError
from submarine_engine.events import Moment
from submarine_engine.failures import failure
from submarine_engine.job import JobState
from submarine_engine.outcome import read_outcome

from submarine_jupyter import jobs
from submarine_jupyter.origins import origin_of
from submarine_jupyter.parts import CardPart, Extra

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus
    from submarine_magics.card.record import Record

_STREAMS = ("stdout", "stderr")
_FRAMES = 50
_MESSAGE = 4000
_TASKS = 64


class JobLook:
    """One job, looked at by whoever asks for its card; the unchanging part is read once."""

    def __init__(self, job: Job, extras: Sequence[Extra] = ()) -> None:
        # Late: the card brings IPython, which a server that shows no job need not load.
        from submarine_magics.card.record import read_record  # noqa: PLC0415

        self._job = job
        self._paths = jobs.paths_of(job.id)
        origin = origin_of(self._paths)
        self._record = read_record(job, origin=origin.cell, machine=False)
        self._parts: list[CardPart] = [extra.card(job) for extra in extras if extra.card]
        self._seen: object = None
        self._failure: dict[str, Any] | None = None

    def look(self) -> tuple[str | None, bool]:
        """Return the card as JSON, None where nothing has changed, and whether the job is over.

        Raises
        ------
        SubmarineError
            The job cannot be read any more.
        """
        from submarine_magics.card.links import with_links  # noqa: PLC0415 - as above

        status = self._job.status()
        record = with_links(self._record, self._job)
        logs, outputs = self._logs(status), self._outputs(status)
        parts = {key: value for part in self._parts for key, value in part(status).items()}
        seen = (status, record, logs, outputs, parts)
        if seen == self._seen:
            return None, status.state.final
        card = self._card(status, record) | {"logs": logs, "outputs": outputs} | parts
        self._seen = seen  # not earlier: who failed to draw it has not shown it
        return json.dumps(card), status.state.final

    def _card(self, status: JobStatus, record: Record) -> dict[str, Any]:
        from submarine_magics.card.model import view  # noqa: PLC0415 - as above

        now = Moment.now()
        if status.state is JobState.FAILED and self._failure is None:
            self._failure = _failure(self._job, status)
        return {
            **asdict(view(record, status, now)),
            "now": now.wall,
            "running": not status.state.final,
            "failure": self._failure,
        }

    def _logs(self, status: JobStatus) -> list[dict[str, Any]]:
        return [
            {"task": task.task, "stream": stream, "size": self._size(task.task, stream)}
            for task in status.tasks[:_TASKS]
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
            for task in status.tasks[:_TASKS]
        ]

    def _size(self, task: str, stream: str) -> int:
        try:
            found = self._paths.task(task).log(stream).lstat()
        except OSError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0


def card(job_id: str, extras: Sequence[Extra] = ()) -> dict[str, Any]:
    """Return a job's card as it stands; raises as `jobs.opened` and `JobLook.look` do."""
    text, _ = JobLook(jobs.opened(job_id), extras).look()
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def _failure(job: Job, status: JobStatus) -> dict[str, Any] | None:
    """Return the error that a failed job's `result` would raise, as data."""
    from submarine_magics.card.words import visible, visible_lines  # noqa: PLC0415 - as above

    try:
        folder = job.cluster.results(job.id)
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
