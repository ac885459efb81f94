"""The job card as plain data: what it shows, in words and numbers.

`read_record` reads what does not change, `view` makes the `CardView` of that and a status. Text
from jobs becomes visible and short here, and never becomes markup.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from submarine_engine import webhooks
from submarine_engine.amounts import UNKNOWN, clock, count, duration, ordinal
from submarine_engine.artifacts import Listing
from submarine_engine.errors import in_a_notebook
from submarine_engine.events import Moment
from submarine_engine.job import JobState, TaskState
from submarine_engine.lifecycle import JobStatus, TaskStatus
from submarine_engine.metrics import Curve
from submarine_engine.waterfall import Startup

from submarine_magics.card.ledger import LedgerView, view_ledger
from submarine_magics.card.record import Record
from submarine_magics.card.rows import CallsView, SweepView, view_calls, view_sweep
from submarine_magics.card.words import date_and_time, time_of_day, visible, visible_lines

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
_LONGEST_REASON = 40
FEW_TASKS = 4
"""How many tasks a card shows as they are; of more, it shows first what there is of each state."""

_FIRST = {TaskState.FAILED: 0}
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
        What it waits for, what is wrong with it, or why it ended; empty where there is nothing to
        say.
    remembered
        Of a result that was not computed anew: ``from 14:02, job train``.
    error, warning
        Whether `sentence` tells of a failure, or of what is wrong with a job that goes on.
    task_states
        How many of all tasks are in which state, those that failed first.
    progress, message
        From 0 to 1, None where unknown; what the task says about it.
    log_url, log_label
        The page of the job's log, and what its link is called.
    log_path, log_command
        Where the log is, and how to see it from a terminal, when its page is gone.
    links
        The cluster's own pages of the job, ``(label, url)``.
    sweep, calls
        What a sweep has found, or how far the calls of a map are, in place of the controller's own
        GPUs and tasks; None for other jobs.
    curves
        What the tasks have used and reported over time.
    startup
        Where the time of the start went; None for what shows a sweep or a map, whose calls are the
        work, and where nothing was started.
    artifacts
        The files that the job has left; None where there are none.
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
    remembered: str
    error: bool
    warning: bool
    progress: float | None
    message: str
    tasks: tuple[TaskView, ...]
    tasks_left_out: int
    task_states: tuple[tuple[str, int], ...]
    ledger: LedgerView
    log_url: str | None
    log_label: str
    log_path: str
    log_command: str
    script: ScriptView | None
    links: tuple[tuple[str, str], ...]
    quicklinks: tuple[tuple[str, str], ...]
    sweep: SweepView | None = None
    calls: CallsView | None = None
    curves: tuple[Curve, ...] = ()
    startup: Startup | None = None
    artifacts: Listing | None = None


def view(record: Record, status: JobStatus, now: Moment) -> CardView:
    """Return what to show of a job at the moment `now`.

    Parameters
    ----------
    record
        What does not change of the job, with what it has found by now.
    status
        The job's newest.
    """
    end = status.finished or now
    elapsed = round(status.submitted.until(end), 3) if status.submitted else 0.0
    ticking = not status.state.final and status.submitted is not None
    final = status.state.final
    sweep = (
        view_sweep(record.sweep, end, job_id=record.job_id, final=final) if record.sweep else None
    )
    return CardView(
        job_id=visible(record.job_id, 64),
        cluster=visible(record.cluster, 40),
        title=visible(record.spec.name, 80),
        state=_state(status),
        word=_word(status),
        glyph=_GLYPHS[status.state],
        final=status.state.final,
        elapsed=elapsed,
        elapsed_text=clock(elapsed) if ticking else duration(elapsed),
        ticking=ticking,
        as_of="" if status.state.final else f"as of {date_and_time(now)}",
        facts=_facts(record, status),
        sentence=_remembered(record) or _sentence(status),
        remembered=visible(record.remembered, 120),
        error=status.state in (JobState.FAILED, JobState.LOST),
        warning=_warns(status),
        progress=_fraction(status.progress),
        message=_message(status) if sweep is None else sweep.left,
        tasks=tuple(
            _task(status, task, record.task_links.get(task.task))
            for task in _in_order(status)[:_TASKS_SHOWN]
        ),
        tasks_left_out=max(0, len(status.tasks) - _TASKS_SHOWN),
        task_states=_states(status),
        ledger=view_ledger(record, status, now),
        log_url=web_address(record.log_url),
        log_label=visible(record.log_label, 40),
        log_path=visible(f"{record.folder}/tasks", 400) if record.folder else "",
        log_command=f"submarine job logs {visible(record.job_id, 64)}",
        script=_script_view(record),
        links=_links(record.links),
        quicklinks=_links(record.spec.quicklinks),
        sweep=sweep,
        calls=view_calls(record.calls, end, final=final) if record.calls else None,
        curves=tuple(
            replace(curve, name=visible(curve.name, 30), last=visible(curve.last, 30))
            for curve in record.curves
        )
        if sweep is None and record.calls is None
        else (),
        startup=None if record.remembered or record.sweep or record.calls else record.startup,
        artifacts=_artifacts(record.artifacts),
    )


def _artifacts(found: Listing | None) -> Listing | None:
    if found is None:
        return None
    files = tuple(replace(one, name=visible(one.name, 80)) for one in found.files)
    return replace(found, words=visible(found.words, 300), files=files)


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
    tasks, told = len(status.tasks), record.spec.notify
    facts = [
        visible(record.origin, 40),
        count(tasks, "task") if tasks > 1 else "",
        f"attempt {status.attempt}" if status.attempt > 1 else "",
        f"again: job {visible(record.rerun_of, 40)}" if record.rerun_of else "",
        f"queue {visible(record.spec.queue, 40)}" if record.spec.queue else "",
        f"on {visible(record.spec.workers_on or record.cluster, 40)}",
        f"chosen: {visible(record.spec.chosen, 300)}" if record.spec.chosen else "",
        f"tells {visible(webhooks.host(told), 40)}" if told and told != webhooks.NONE else "",
        date_and_time(status.submitted) if status.submitted else "",
    ]
    return tuple(fact for fact in facts if fact)


def _remembered(record: Record) -> str:
    if not record.remembered:
        return ""
    return f"Result {visible(record.remembered, 120)}; with --refresh the cell runs again"


def _sentence(status: JobStatus) -> str:
    if status.state is JobState.QUEUED and not status.cancelling:
        return _while_it_waits(status)
    if _killed(status) or status.state is JobState.SUCCEEDED:
        return ""
    if status.state is JobState.CANCELLED or _state(status) == "cancelling":
        return _begun(visible(status.reason, 300))
    if status.state in (JobState.STARTING, JobState.RUNNING):
        return _while_it_goes_on(status)
    reasons = [status.reason, *(task.reason for task in status.tasks if task.exit_code)]
    reason = next(filter(None, reasons), "")
    failed = status.task(status.failed_task) if len(status.tasks) > 1 else None
    if failed and not reason.startswith(failed.place):
        reason = f"{failed.place}: {reason}" if reason else f"{failed.place} failed"
    return visible(reason, 600)


def _while_it_waits(status: JobStatus) -> str:
    reason = visible(status.waiting_reason, 300)
    known = any(word in reason for word in ("ahead", "behind"))
    if status.ahead is None or (reason and (known or not status.ahead)):
        return _begun(reason)
    return ", ".join(filter(None, (f"{ordinal(status.ahead + 1)} in the queue", reason)))


def _while_it_goes_on(status: JobStatus) -> str:
    if _warns(status):
        return _begun(in_a_notebook(visible(status.warning, 600)))
    if status.growing and status.state is JobState.RUNNING:
        return f"Goes on with more workers: {visible(status.growing, 300)}"
    if status.attempt > 1 and status.retried:
        return f"The attempt before this one ended: {visible(status.retried, 300)}"
    return ""


def _begun(text: str) -> str:
    """Return words as a sentence begins."""
    return text[:1].upper() + text[1:]


def _warns(status: JobStatus) -> bool:
    going = status.state is JobState.RUNNING and not status.cancelling
    return going and bool(status.warning)


def _message(status: JobStatus) -> str:
    running = [task.message for task in status.tasks if task.message]
    return visible(running[0], 80) if running and not status.state.final else ""


def _states(status: JobStatus) -> tuple[tuple[str, int], ...]:
    words = Counter(_task_word(status, task) for task in _in_order(status))
    return tuple(sorted(words.items(), key=lambda item: item[0] != TaskState.FAILED.value))


def _in_order(status: JobStatus) -> list[TaskStatus]:
    """Return the tasks in the order of their ranks; of many, those that failed come first."""
    tasks = list(status.ranked)
    if len(tasks) > FEW_TASKS:
        tasks.sort(key=lambda task: (task.task != status.failed_task, _FIRST.get(task.state, 9)))
    return tasks


def _task(status: JobStatus, task: TaskStatus, log_url: str | None) -> TaskView:
    detail = [f"attempt {task.attempt}"] if task.attempt > 1 else []
    # Why the job failed is said above; of the others, in a word, by what.
    other = status.failed_task not in ("", task.task)
    if other and task.reason and task.state is TaskState.FAILED:
        detail.append(visible(task.reason.partition(":")[0], _LONGEST_REASON))
    elif other and task.state is TaskState.KILLED:
        detail.append("as the job failed")  # a signal alone would read as out of memory
    elif task.exit_code:
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


def _script_view(record: Record) -> ScriptView | None:
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
