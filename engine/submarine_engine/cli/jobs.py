"""``job wait``, ``job save``, ``job cancel`` and ``job kill``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from submarine_engine.cli import exits
from submarine_engine.cli.output import Output
from submarine_engine.cli.watch import ending_json, ending_text
from submarine_engine.clusters.saving import absolute, default_name
from submarine_engine.command.parser import Command
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.records import job_name, open_job


def wait(command: Command, output: Output) -> int:
    """Wait for the end of a job, in silence."""
    job = open_job(command.values["job"])
    try:
        status = job.wait(command.values.get("timeout"))
    except TimeoutError:
        output.note(f"job {job.id} is not over yet; it goes on")
        return exits.TIMED_OUT
    if output.json:
        output.data(ending_json(job.id, status))
    elif status.state is not JobState.SUCCEEDED or output.live:
        output.note(ending_text(output, job.id, job_name(job.id), status))
    return exits.code_of_job(status)


def save(command: Command, output: Output) -> int:
    """Save a running job's model."""
    job = open_job(command.values["job"])
    path = command.values.get("path") or default_name(job_name(job.id))
    saved = job.save(absolute(path, Path.cwd()), patience=command.values.get("timeout"))
    if output.json:
        output.data({"job": job.id, **saved.to_json()})
    else:
        output.line(saved.path)
        output.note(saved.words)
    return exits.OK


def cancel(command: Command, output: Output) -> int:
    """Ask jobs to end."""
    return _end(
        command, output, lambda job: job.cancel("cancelled in the terminal"), "asked to end"
    )


def kill(command: Command, output: Output) -> int:
    """End jobs at once."""

    def end(job: Job) -> bool:
        over = job.done()
        job.kill()
        return not over

    return _end(command, output, end, "killed")


def _end(command: Command, output: Output, end: Callable[[Job], bool], word: str) -> int:
    # All are found before the first is touched: a typing error ends none.
    for job in [open_job(wanted) for wanted in command.values["jobs"]]:
        asked = end(job)
        if output.json:
            output.data({"job": job.id, "asked": asked})
        else:
            output.line(f"{job.id} {word if asked else 'was over already'}")
    return exits.OK
