"""The verbs that look after jobs: list, show, save, cancel, kill."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine import webhooks
from submarine_engine.amounts import clock, count, duration
from submarine_engine.cli.output import OK, Output, code_of_job, visible
from submarine_engine.clusters.outbox import NOTIFIED
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.records import JobSummary, job_name, list_jobs, open_job, record_of

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus, TaskStatus

_SHOWN = 20
_TASK_MOMENTS = ("queued", "held", "busy", "returned", "exited", "released")


def list_(command: Command, output: Output) -> int:
    """List the jobs on record, newest first.

    Parameters
    ----------
    command
        May have ``all``, or ``limit``: how many, 20 unless given.
    output
        Where the table is written.
    """
    limit = None if command.values.get("all") else command.values.get("limit", _SHOWN)
    if limit == 0:
        raise CommandError(
            "--limit 0 is not possible", where="job list", fix="give 1 or more, or write --all"
        )
    jobs = list_jobs(limit=None if limit is None else limit + 1)
    now = Moment.now()
    shown = jobs[:limit]
    if output.json:
        for job in shown:
            output.data(job.to_json())
        return OK
    if not shown:
        output.note("no job is on record")
        return OK
    rows = [job_row(job, now) for job in shown]
    output.table(("id", "name", "state", "gpus", "age", "elapsed", "cluster"), rows)
    if len(jobs) > len(shown):
        output.note(f"the newest {len(shown)}; --all lists every job")
    return OK


def job_row(job: JobSummary, now: Moment) -> tuple[str, ...]:
    """Return `job` as tables show it `now`: id, name, state, GPUs, age, how long it took, where."""
    age = max(0.0, time.time() - job.created.wall) if job.created else None
    elapsed = (duration if job.state.final else clock)(job.elapsed(now))
    return job.id, job.name, job.state.value, str(job.gpus), clock(age), elapsed, job.runs_on


def show(command: Command, output: Output) -> int:
    """Show on `output` all about the job that `command` names."""
    job = open_job(command.values["job"])
    status = job.status()
    record = record_of(job.id)
    if output.json:
        facts = {"job": job.id, "folder": _folder(job.id), "spec": record.get("spec")}
        facts["rerun_of"] = record.get("rerun_of")
        facts["warnings"] = job.cluster.warnings(job.id)
        started = job.startup()
        facts["startup"] = started and started.to_json()
        output.data({**facts, **status_json(status)})
        return OK
    _show_facts(job, status, record, output)
    _show_tasks(status, output)
    _show_ledger(status, output)
    if started := job.startup():
        output.line(f"{'start:':<16}{started.words}")
    return OK


def _show_facts(job: Job, status: JobStatus, record: dict[str, Any], output: Output) -> None:
    spec = record.get("spec", {})
    facts = {
        "job": job.id,
        "name": spec.get("name"),
        "state": output.state(status.state),
        "reason": status.reason or status.waiting_reason or status.growing,
        "ahead": status.ahead,
        "again": f"job {record['rerun_of']}" if record.get("rerun_of") else None,
        "cluster": spec.get("workers_on") or record.get("cluster"),
        "chosen": spec.get("chosen"),
        "queue": spec.get("queue"),
        "submitted": _clock(status.submitted),
        "started": _clock(status.started),
        "finished": _clock(status.finished),
        "progress": None if status.progress is None else f"{status.progress:.0%}",
        "notebook": spec.get("notebook"),
        "notify": _webhook_words(job.id, spec.get("notify")),
        "working folder": record.get("workdir"),
        "folder": _folder(job.id),
        "log": job.cluster.log_url(job.id) or f"submarine job logs {job.id}",
    }
    for name, value in facts.items():
        if value not in (None, ""):
            text = str(value) if name == "state" else visible(str(value), line=True)
            output.line(f"{name + ':':<16}{text}")
    for warning in job.cluster.warnings(job.id):
        output.line(f"{'warning:':<16}{visible(warning, line=True)}")
    pages = {what: url for what, url in job.cluster.links(job.id).items() if what != "log"}
    for label, url in (*pages.items(), *spec.get("quicklinks", ())):
        output.line(f"{'link:':<16}{visible(f'{label} {url}', line=True)}")


def _webhook_words(job_id: str, named: str | None) -> str | None:
    """Return which webhook is told of a job's end, and whether it has been."""
    if named is None or named == webhooks.NONE:
        return None
    noted = read_json(JobPaths(default_home(), job_id).root / NOTIFIED) or {}
    state = noted.get("state", "")
    return f"{webhooks.host(named)}{f' ({state})' if state else ''}"


def _folder(job_id: str) -> str:
    return str(JobPaths(default_home(), job_id).root)


def _show_tasks(status: JobStatus, output: Output) -> None:
    if not status.tasks:
        return
    output.line()
    output.table(
        ("task", "state", "host", "container", "gpus", "start", "finish", "progress", "exit"),
        [_task_row(task) for task in status.tasks],
    )


def _task_row(task: TaskStatus) -> tuple[str, ...]:
    return (
        task.task,
        task.state.value,
        task.host or "-",
        task.container or "-",
        ",".join(task.named_gpus) or (f"{len(task.gpus)}" if task.gpus else "-"),
        _clock(task.busy) or "-",
        _clock(task.exited) or "-",
        "-" if task.progress is None else f"{task.progress:.0%}",
        "-" if task.exit_code is None else str(task.exit_code),
    )


def _show_ledger(status: JobStatus, output: Output) -> None:
    ledger = status.ledger
    seconds = ledger.seconds(Moment.now())
    words = [count(ledger.gpus, "GPU")]
    words += [f"{stage} {duration(spent)}" for stage, spent in seconds.items()]
    if ledger.released_after is not None:
        words.append(f"released {duration(ledger.released_after)} after return")
    elif ledger.held_now:
        words.append(f"{ledger.held_now} held now")
    output.line()
    output.line(f"{'GPU ledger:':<16}{' · '.join(words)}")


def status_json(status: JobStatus) -> dict[str, Any]:
    """Return a job's `status`, its tasks and its GPU ledger; moments as ``[wall, mono]``."""
    ledger = status.ledger
    return {
        "state": status.state.value,
        "reason": status.reason,
        "failed_task": status.failed_task,
        "exit_code": code_of_job(status) if status.state.final else None,
        "ahead": status.ahead,
        "progress": status.progress,
        "submitted": _pair(status.submitted),
        "started": _pair(status.started),
        "finished": _pair(status.finished),
        "tasks": [_task_json(task) for task in status.tasks],
        "ledger": {
            "gpus": ledger.gpus,
            "held_now": ledger.held_now,
            **ledger.seconds(Moment.now()),
            "released_after": ledger.released_after,
        },
    }


def _task_json(task: TaskStatus) -> dict[str, Any]:
    return {
        "task": task.task,
        "role": task.role,
        "state": task.state.value,
        "attempt": task.attempt,
        "host": task.host,
        "container": task.container,
        "gpus": list(task.gpus),
        "progress": task.progress,
        "message": task.message,
        "exit_code": task.exit_code,
        "reason": task.reason,
        **{name: _pair(getattr(task, name)) for name in _TASK_MOMENTS},
    }


def _pair(moment: Moment | None) -> list[float] | None:
    return [moment.wall, moment.mono] if moment else None


def _clock(moment: Moment | None) -> str | None:
    if moment is None:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment.wall))


def save(command: Command, output: Output) -> int:
    """Save a running job's model.

    Parameters
    ----------
    command
        Names the job; may have ``path``, a new folder, else one is made here, and ``timeout``, the
        seconds that saving may take.
    output
        Where the model's place is written.
    """
    job = open_job(command.values["job"])
    from submarine_engine.clusters.saving import absolute, default_name  # noqa: PLC0415 - seldom

    path = command.values.get("path") or default_name(job_name(job.id))
    saved = job.save(absolute(path, Path.cwd()), patience=command.values.get("timeout"))
    if output.json:
        output.data({"job": job.id, **saved.to_json()})
    else:
        output.line(saved.path)
        output.note(saved.words)
    return OK


def stacks(command: Command, output: Output) -> int:
    """Show where a job's tasks stand.

    Parameters
    ----------
    command
        Names the job; may have the task whose threads are all shown.
    output
        Where the stacks are written.
    """
    job = open_job(command.values["job"])
    found = job.stacks()
    if output.json:
        output.data({"job": job.id, **found.to_json()})
        return OK
    for line in found.lines(command.values.get("task")):
        output.line(visible(line))
    return OK


def cancel(command: Command, output: Output) -> int:
    """Ask jobs to end.

    Parameters
    ----------
    command
        Names them: each by its id, the end of its id, or its name.
    output
        Where it is said of each whether it was asked, or was over already.
    """
    return _end(
        command, output, lambda job: job.cancel("cancelled in the terminal"), "asked to end"
    )


def kill(command: Command, output: Output) -> int:
    """End jobs at once.

    Parameters
    ----------
    command
        Names them: each by its id, the end of its id, or its name.
    output
        Where it is said of each whether it was killed, or was over already.
    """

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
    return OK
