"""``job logs``: what a job has printed, byte for byte, and what it showed, as text."""

from __future__ import annotations

from collections.abc import Iterator

from submarine_engine.cli import exits
from submarine_engine.cli.output import Output
from submarine_engine.cli.watch import JsonView, View
from submarine_engine.clusters.base import Cursor
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError
from submarine_engine.events import Display, LogChunk, Question
from submarine_engine.future import Job
from submarine_engine.records import open_job


def logs(command: Command, output: Output) -> int:
    """Write a job's log; both streams of all tasks, unless told otherwise."""
    values = command.values
    job = open_job(values["job"])
    tasks = [task.task for task in job.status().tasks]
    wanted = values.get("task")
    if wanted is not None and wanted not in tasks:
        raise CommandError(
            f"the job has no task {wanted!r}", where="job logs", fix=f"it has {', '.join(tasks)}"
        )
    streams = [stream for stream in ("stdout", "stderr") if values.get(stream)]
    view = JsonView(output, job.id) if output.json else View(output, job.id)
    offset = values.get("offset", 0)
    for chunk in _chunks(job, follow=bool(values.get("follow"))):
        if wanted not in (None, chunk.task):
            continue
        if isinstance(chunk, Question):  # it is text of the log
            continue
        if isinstance(chunk, Display):
            # One that asks for the bytes of a stream gets these alone.
            if not streams and max(chunk.stdout, chunk.stderr) >= offset:
                view.display(chunk)
        elif not streams or chunk.stream in streams:
            rest = chunk.after(offset)
            if rest.data:
                view.log(rest)
    return exits.OK


def _chunks(job: Job, *, follow: bool) -> Iterator[LogChunk | Display]:
    """Yield what the logs hold now; where `follow`, up to the job's end."""
    if follow:
        for item, _ in job.stream():
            if isinstance(item, (LogChunk, Display)):
                yield item
        return
    cursor = Cursor()
    while True:
        batch = job.cluster.read(job.id, cursor)
        yield from (item for item in batch.items if isinstance(item, (LogChunk, Display)))
        cursor = batch.cursor
        if batch.ended or not batch.items:
            return
