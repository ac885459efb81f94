"""The view model of the job card: what it shows, as plain data, ready to be written anywhere.

`view` is pure: the job's record, its status and the time in, words and numbers out. All text from
outside is made visible and short here; a renderer only has to escape for its own language.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from submarine_engine.events import Moment
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import JobStatus, TaskStatus

from submarine_magics.card.ledger import LedgerView, view_ledger
from submarine_magics.card.record import Record
from submarine_magics.card.words import (
    UNKNOWN,
    clock,
    count,
    date_and_time,
    duration,
    ordinal,
    time_of_day,
    visible,
    visible_lines,
)

SCRIPT_SHOWN = 16_000
"""Characters of a script in a card: a notebook keeps them for every job."""

_GLYPHS = {
    JobState.QUEUED: "○",
    JobState.STARTING: "◌",
    JobState.RUNNING: "●",
    JobState.SUCCEEDED: "✓",
    JobState.FAILED: "✕",
    JobState.CANCELLED: "■",
    JobState.LOST: "?",
}
_TASKS_SHOWN = 64
KILLED = "killed"
"""The reason of a job that was ended at once: every cluster gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One row of the tasks table, in words."""

    role: str
    task: str
    host: str
    state: str
    detail: str
    gpus: str
    started: str
    finished: str
    progress: float | None
    log_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptView:
    """The script: its name and hash, its text, and how much of it is left out here."""

    name: str
    hash: str
    text: str
    lines: str
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """All that a card shows.

    Parameters
    ----------
    state
        The job's state, ``cancelling`` where it was asked to end.
    word
        The state as it is shown: who ended a job at once has not cancelled it.
    elapsed
        Seconds since submission, to the end where there is one.
    ticking
        Whether `elapsed` goes on growing.
    as_of
        When this was so, for what will not change by itself; empty once the job is over.
    facts
        What the job is and has, short: ``In [3]``, ``on local``.
    sentence
        What it waits for or why it ended; empty where there is nothing to say.
    error
        Whether `sentence` tells of a failure.
    progress, message
        From 0 to 1, None where unknown; what the task says about it.
    log_url, log_label
        The page of the job's log, and what its link is called.
    log_path, log_command
        Where the log is, and how to see it from a terminal, when its page is gone.
    links
        The cluster's own pages of the job, ``(label, url)``.
    """

    job_id: str
    cluster: str
    title: str
    state: str
    word: str
    glyph: str
    final: bool
    elapsed: float
    elapsed_text: str
    ticking: bool
    as_of: str
    facts: tuple[str, ...]
    sentence: str
    error: bool
    progress: float | None
    message: str
    tasks: tuple[TaskView, ...]
    tasks_left_out: int
    ledger: LedgerView
    log_url: str | None
    log_label: str
    log_path: str
    log_command: str
    script: ScriptView | None
    links: tuple[tuple[str, str], ...]
    quicklinks: tuple[tuple[str, str], ...]


def view(record: Record, status: JobStatus, now: Moment) -> CardView:
    """Return what to show of a job at the moment `now`."""
    end = status.finished or now
    elapsed = round(status.submitted.until(end), 3) if status.submitted else 0.0
    ticking = not status.state.final and status.submitted is not None
    return CardView(
        job_id=visible(record.job_id, 64),
        cluster=visible(record.cluster, 40),
        title=visible(record.title or record.spec.name, 80),
        state=_state(status),
        word=_word(status),
        glyph=_GLYPHS[status.state],
        final=status.state.final,
        elapsed=elapsed,
        elapsed_text=clock(elapsed) if ticking else duration(elapsed),
        ticking=ticking,
        as_of="" if status.state.final else f"as of {date_and_time(now)}",
        facts=_facts(record, status),
        sentence=_sentence(status),
        error=status.state in (JobState.FAILED, JobState.LOST),
        progress=_fraction(status.progress),
        message=_message(status),
        tasks=tuple(
            _task(status, task, record.task_links.get(task.task))
            for task in status.tasks[:_TASKS_SHOWN]
        ),
        tasks_left_out=max(0, len(status.tasks) - _TASKS_SHOWN),
        ledger=view_ledger(record, status, now),
        log_url=web_address(record.log_url),
        log_label=visible(record.log_label, 40),
        log_path=visible(f"{record.folder}/tasks", 400) if record.folder else "",
        log_command=f"submarine job logs {visible(record.job_id, 64)}",
        script=_script(record),
        links=_links(record.links),
        quicklinks=_links(record.spec.quicklinks),
    )


def web_address(url: object) -> str | None:
    """Return `url` where a link may lead there (``http``, ``https``, nothing unseen), else None."""
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        return None
    return url if len(url) <= 2000 and visible(url, 2000) == url and " " not in url else None  # noqa: PLR2004 - what browsers take


def _state(status: JobStatus) -> str:
    return "cancelling" if status.cancelling and not status.state.final else status.state.value


def _killed(status: JobStatus) -> bool:
    return status.reason == KILLED


def _word(status: JobStatus) -> str:
    state = _state(status)
    words = {"cancelling": "killing", "cancelled": "killed"}
    return words.get(state, state) if _killed(status) else state


def _task_word(status: JobStatus, task: TaskStatus) -> str:
    """Return a task's state: one that ended as it was asked to was not killed."""
    asked = status.cancelling and not _killed(status)
    if task.state is TaskState.KILLED and asked and task.exit_code != -signal.SIGKILL:
        return "cancelled"
    return task.state.value


def _fraction(progress: float | None) -> float | None:
    return None if progress is None else round(progress, 4)


def _facts(record: Record, status: JobStatus) -> tuple[str, ...]:
    tasks = len(status.tasks)
    facts = [
        visible(record.origin, 40),
        count(tasks, "task") if tasks > 1 else "",
        f"queue {visible(record.spec.queue, 40)}" if record.spec.queue else "",
        f"on {visible(record.cluster, 40)}",
        date_and_time(status.submitted) if status.submitted else "",
    ]
    return tuple(fact for fact in facts if fact)


def _sentence(status: JobStatus) -> str:
    if status.state is JobState.QUEUED and not status.cancelling:
        reason = visible(status.waiting_reason, 300)
        known = any(word in reason for word in ("ahead", "behind"))
        if status.ahead is None or (reason and (known or not status.ahead)):
            return reason[:1].upper() + reason[1:]
        return ", ".join(filter(None, (f"{ordinal(status.ahead + 1)} in the queue", reason)))
    if _killed(status):
        return ""
    if status.cancelling and not status.state.final:
        return visible(status.reason, 300)
    if status.state in (JobState.SUCCEEDED, JobState.STARTING, JobState.RUNNING):
        return ""
    reasons = [status.reason, *(task.reason for task in status.tasks if task.exit_code)]
    return visible(next(filter(None, reasons), ""), 600)


def _message(status: JobStatus) -> str:
    running = [task.message for task in status.tasks if task.message]
    return visible(running[0], 80) if running and not status.state.final else ""


def _task(status: JobStatus, task: TaskStatus, log_url: str | None) -> TaskView:
    detail = [f"attempt {task.attempt}"] if task.attempt > 1 else []
    if task.exit_code:
        word = "signal" if task.exit_code < 0 else "exit code"
        detail.append(f"{word} {abs(task.exit_code)}")
    return TaskView(
        role=visible(task.role, 20),
        task=visible(task.task, 30),
        host=visible(task.host, 60) or UNKNOWN,
        state=_task_word(status, task),
        detail=", ".join(detail),
        gpus=", ".join(visible(gpu, 20) for gpu in task.named_gpus)
        or (str(len(task.gpus)) if task.gpus else UNKNOWN),
        started=time_of_day(task.busy),
        finished=time_of_day(task.exited),
        progress=1.0 if task.state is TaskState.SUCCEEDED else _fraction(task.progress),
        log_url=web_address(log_url),
    )


def _script(record: Record) -> ScriptView | None:
    if not record.script_name:
        return None
    text = visible_lines(record.script, SCRIPT_SHOWN)
    left_out = max(0, record.script_size - len(text.encode("utf-8", "replace")))
    return ScriptView(
        name=visible(record.script_name, 60),
        hash=visible(record.bundle_hash, 64),
        text=text,
        lines=count(len(text.splitlines()), "line") + ("+" if left_out else ""),
        left_out=f"… {left_out:,} bytes more" if left_out else "",
    )


def _links(found: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    links = ((visible(label, 40), web_address(url)) for label, url in found)
    return tuple((label, url) for label, url in links if url)
