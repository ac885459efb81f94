"""Follow a job in a terminal: its bytes as they are, a line below them that says how far it is.

The verbs that do nothing else are here too: attach, logs and wait.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from submarine_engine.amounts import clock, count, duration
from submarine_engine.asking import Asker
from submarine_engine.cli import desktop
from submarine_engine.cli.output import (
    INTERRUPTED,
    OK,
    TIMED_OUT,
    Output,
    clipped,
    code_of_job,
    visible,
)
from submarine_engine.command.parser import Command
from submarine_engine.events import (
    Display,
    Event,
    LogChunk,
    Moment,
    Question,
    Resized,
    Warned,
)
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts, noted
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus
from submarine_engine.logs import (
    ALL,
    FIRST,
    PlainDisplays,
    TaskMarks,
    TextDecoder,
    check_task,
    is_shown,
    shown,
)
from submarine_engine.records import job_name, open_job, record_of

_TICK = 0.1  # seconds: ten drawings in one look like a count that runs, and cost nothing
_ERASE = "\r\x1b[2K"


class View:
    """Shows a job; this one to people.

    Parameters
    ----------
    output
        Where it is shown.
    name
        What the job is called.
    which
        Whose log, of several tasks: as `submarine_engine.logs.follow` has it.
    """

    def __init__(self, output: Output, name: str, which: str = ALL) -> None:
        self._which = which
        self._status = JobStatus()
        self._marks: dict[str, TaskMarks] = {}
        self._output = output
        self._name = name
        self._shown = False
        self._at_line_start = True
        self._due = 0.0
        self._team = False
        self._begun: dict[tuple[str, str], bytes] = {}
        self._displays = PlainDisplays()

    def log(self, chunk: LogChunk) -> None:
        """Write the bytes of `chunk`; where several tasks are followed, lines with their task."""
        if not is_shown(chunk.task, self._which, self._status):
            return
        data = self._lines(chunk) if self._team else chunk.data
        if data:
            self.erase()
            self._output.raw(chunk.stream, data)
            self._at_line_start = data.endswith(b"\n")

    def display(self, item: Display) -> None:
        """Write `item`, what the job showed, as text."""
        if text := self._displays.text(item):
            self.log(LogChunk(task=item.task, stream="stdout", offset=0, data=text.encode()))

    def event(self, event: Event, status: JobStatus) -> None:
        """Take `event`, after which the job is as `status`; say what is wrong with the job."""
        self.know(status)
        if isinstance(event, Warned) and event.text:
            self.say(f"warning: {visible(event.text, line=True)}")

    def know(self, status: JobStatus) -> None:
        """Take from `status` which tasks the job has."""
        self._status = status
        self._team = len(status.logged) > 1 and self._which == ALL

    def tick(self, status: JobStatus) -> None:
        """Draw the line anew by `status` where it is due."""
        now = time.monotonic()
        if not self._output.live or not self._at_line_start or status.state.final:
            return
        if self._shown and now < self._due:
            return
        self._due = now + _TICK
        self._shown = True
        text = clipped(visible(f"{self._name}  {progress_text(status)}", line=True))
        self._write(_ERASE + self._output.style(text, "dim", self._output.err))

    def say(self, text: str) -> None:
        """Write `text` as a line of our own between those of the job."""
        self.erase()
        self._output.note(text if self._at_line_start else f"\n{text}")
        self._at_line_start = True

    def erase(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write(_ERASE)
            self._shown = False

    def end_lines(self) -> None:
        """Write what tasks have begun a line with: nothing more comes now."""
        for task, stream in [key for key, begun in self._begun.items() if begun]:
            self.log(LogChunk(task=task, stream=stream, offset=0, data=b"\n"))

    def end(self, job_id: str, status: JobStatus) -> None:
        """Say how job `job_id` ended, by `status`; to a pipe only where it is not as hoped."""
        self.end_lines()
        self.erase()
        if self._output.live or status.state is not JobState.SUCCEEDED:
            self.say(ending_text(self._output, job_id, self._name, status))

    def _lines(self, chunk: LogChunk) -> bytes:
        key = (chunk.task, chunk.stream)
        *lines, begun = (self._begun.get(key, b"") + chunk.data).split(b"\n")
        # A bar rewrites its line for hours: what it has overwritten is not kept.
        self._begun[key] = begun[begun.rfind(b"\r", 0, -1) + 1 :]
        whose = self._mark(chunk).encode()
        return b"".join(whose + line + b"\n" for line in lines)

    def _mark(self, chunk: LogChunk) -> str:
        if chunk.stream not in self._marks:
            self._marks[chunk.stream] = TaskMarks(colour=self._output.has_colour(chunk.stream))
        return self._marks[chunk.stream].of(chunk.task, self._status)

    def _write(self, text: str) -> None:
        self._output.err.write(text)
        self._output.err.flush()


class JsonView(View):
    """Shows a job to a program: one object a line.

    Parameters
    ----------
    output
        Where the objects are written.
    name
        What the job is called.
    which
        As `View` has it.
    """

    def __init__(self, output: Output, name: str, which: str = ALL) -> None:
        super().__init__(output, name, which)
        self._decoders: dict[tuple[str, str], TextDecoder] = {}
        self._ends: dict[tuple[str, str], int] = {}

    def log(self, chunk: LogChunk) -> None:
        """Write a piece of a log as an object."""
        if not is_shown(chunk.task, self._which, self._status):
            return
        key = (chunk.task, chunk.stream)
        self._ends[key] = chunk.offset + len(chunk.data)
        decoder = self._decoders.setdefault(key, TextDecoder())
        self._piece(key, chunk.offset, decoder.feed(chunk.data))

    def _piece(self, key: tuple[str, str], offset: int, text: str) -> None:
        task, stream = key
        told = {"event": "Log", "task": task, "stream": stream, "offset": offset, "text": text}
        self._output.data(told)

    def display(self, item: Display) -> None:
        """Write what the job showed as an object, with all of its data."""
        self._output.data(item.to_json())

    def event(self, event: Event, status: JobStatus) -> None:
        """Write an event as an object."""
        super().event(event, status)
        self._output.data(event.to_json())

    def tick(self, status: JobStatus) -> None:
        """Write nothing: programs need no line."""

    def say(self, text: str) -> None:
        """Write nothing: programs need no words."""

    def end_lines(self) -> None:
        """Write what a log breaks off with: nothing more comes now."""
        for key, decoder in self._decoders.items():
            if text := decoder.feed(b"", final=True):
                self._piece(key, self._ends[key], text)

    def end(self, job_id: str, status: JobStatus) -> None:
        """Write the last object: how the job ended; before it what a log breaks off with."""
        self.end_lines()
        self._output.data(ending_json(job_id, status))


def view_of(job: Job, name: str, output: Output, which: str | None = None) -> View:
    """Return what shows `job`; to a program, it says at once which job that is.

    Parameters
    ----------
    name
        What the job is called.
    output
        Where it is shown; it also says whether a program reads.
    which
        Whose log, of several tasks; to people that of rank 0 unless given, to a program all.
    """
    if not output.json:
        return View(output, name, which or FIRST)
    output.data({"event": "Job", "job": job.id, "name": name, "cluster": job.cluster.name})
    return JsonView(output, name, which or ALL)


def follow(  # noqa: PLR0913 - how to follow, each by its name
    job: Job,
    view: View,
    interrupts: Interrupts,
    on_interrupt: Callable[[], bool],
    offset: int = 0,
    *,
    asker: Asker | None = None,
) -> JobStatus | None:
    """Show a job until it is over.

    Parameters
    ----------
    job
        Which.
    view
        What shows it.
    interrupts
        Counts the person's.
    on_interrupt
        Called at the first Ctrl-C; returns whether to go on.
    offset
        The first byte of each log to show; a log that is shorter shows nothing.
    asker
        Puts the job's questions to the person; None where they are text alone.

    Returns
    -------
    JobStatus or None
        As the job ended; None where `on_interrupt` said to leave.
    """
    status, heeded = JobStatus(), False
    before = job.status()

    def goes_on() -> bool:
        nonlocal heeded
        if heeded or not interrupts.pending:
            return True
        heeded = True
        return on_interrupt()

    def ask(item: Question) -> str | None:
        view.erase()
        # An interrupt cancels where there is somebody to ask: not after the answer.
        return asker.take(item) if asker and goes_on() else None

    try:
        for item, status in shown(job, ask, offset=offset, idle=_TICK):
            if not goes_on():
                return None
            if isinstance(item, LogChunk):
                view.log(item)
            elif isinstance(item, Display):
                view.display(item)
            elif item is not None:
                view.event(item, status)
            # Of a job that is over all that comes is its past.
            view.tick(before if before.state.final else status)
    finally:
        view.erase()
        if asker:
            asker.close()
    status = status if status.state.final else job.status()
    view.end(job.id, status)
    return status


def progress_text(status: JobStatus) -> str:
    """Return in one line how far the job of `status` is."""
    words = [status.state.value]
    if status.cancelling:
        words.append("ending")
    elif status.growing:
        words.append("begins again with more workers")
    if status.state is JobState.QUEUED and status.ahead is not None:
        words.append(f"{status.ahead} ahead")
    if status.waiting_reason:
        words.append(status.waiting_reason)
    if len(status.tasks) > 1 and not status.state.final:
        states = Counter(task.state.value for task in status.tasks)
        words.append("tasks: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    if status.progress is not None:
        words.append(f"{status.progress:.0%}")
    words += [task.message for task in status.tasks if task.message][:1]
    if gpus := [gpu for task in status.tasks for gpu in task.named_gpus]:
        words.append(f"GPU {','.join(gpus)}")
    if since := status.started or status.submitted:
        words.append(clock(since.until(Moment.now())))
    return " · ".join(words)


def ending_text(output: Output, job_id: str, name: str, status: JobStatus) -> str:
    """Return the last line about a job, for people.

    Parameters
    ----------
    output
        Where it is shown.
    job_id, name
        The job's.
    status
        The job, over.
    """
    words = [f"{visible(name, line=True)} {output.state(status.state, output.err)}"]
    if status.submitted and status.finished:
        words[0] += f" in {duration(status.submitted.until(status.finished))}"
    if status.reason:
        failed = status.task(status.failed_task) if len(status.tasks) > 1 else None
        where = f"{failed.place}: " if failed and not status.reason.startswith(failed.place) else ""
        words.append(visible(f"{where}{status.reason}", line=True))
    if status.ledger.gpus and (released := status.ledger.released_after) is not None:
        gpus = count(status.ledger.gpus, "GPU")
        words.append(f"{gpus} released {duration(released)} after return")
    return " · ".join([*words, job_id])


def ending_json(job_id: str, status: JobStatus) -> dict[str, Any]:
    """Return the last object about job `job_id`, whose `status` is final, for programs."""
    return {
        "event": "Ended",
        "job": job_id,
        "state": status.state.value,
        "reason": status.reason,
        "failed_task": status.failed_task,
        "exit_code": code_of_job(status),
    }


def retry(command: Command, output: Output) -> int:
    """Run the job that `command` names again, and follow the new one on `output`."""
    return follow_new(open_job(command.values["job"]).retry(), command, output)


def follow_new(job: Job, command: Command, output: Output) -> int:
    """Follow a job that was just submitted, unless told to detach.

    Parameters
    ----------
    job
        Which.
    command
        The verb that submitted it, with its options.
    output
        Where it is shown.
    """
    if not command.values.get("detach"):
        output.note(f"job {job.id} ({job_name(job.id)})")
        return attach_to(job, command, output)
    if output.json:
        output.data({"job": job.id, "name": job_name(job.id), "cluster": job.cluster.name})
    else:
        output.line(job.id)
    return OK


def attach(command: Command, output: Output) -> int:
    """Follow a job from its first byte; Ctrl-C leaves, the job goes on.

    Parameters
    ----------
    command
        Names the job; may have ``offset``, the byte of each log to begin at, and ``logs``: whose
        log, of several tasks.
    output
        Where it is shown.
    """
    return attach_to(open_job(command.values["job"]), command, output)


def attach_to(job: Job, command: Command, output: Output) -> int:
    """Follow a job from its first byte, for whichever verb asks.

    Parameters
    ----------
    job
        Which.
    command
        The verb, with its options.
    output
        Where it is shown.
    """
    offset, which = command.values.get("offset", 0), command.values.get("logs")
    check_task(which, job.status().logged)
    name = str(record_of(job.id).get("spec", {}).get("name", job.id))
    view = view_of(job, name, output, which)

    def leave() -> bool:
        view.say(f"left; the job goes on: submarine job attach {job.id}")
        return False

    began = time.monotonic()
    with noted(Interrupts()) as interrupts:
        status = follow(job, view, interrupts, leave, offset)
    if status is None:
        return INTERRUPTED
    desktop.tell(output, name, status, time.monotonic() - began)
    return code_of_job(status)


def logs(command: Command, output: Output) -> int:
    """Write a job's log; both streams of all tasks, unless told otherwise.

    Parameters
    ----------
    command
        Names the job; may have ``task``, ``stdout`` and ``stderr`` for these alone, ``offset``, the
        byte of each log to begin at, and ``follow``: to go on until the job is over.
    output
        Where both streams go, each to its own; to programs all as objects.
    """
    values = command.values
    job = open_job(values["job"])
    status = job.status()
    wanted = values.get("task", ALL)
    check_task(wanted, status.logged, "--task")
    streams = [stream for stream in ("stdout", "stderr") if values.get(stream)]
    view = JsonView(output, job.id) if output.json else View(output, job.id, wanted)
    view.know(status)
    offset = values.get("offset", 0)
    for item, _ in shown(job, _nobody, offset=offset, wait=bool(values.get("follow"))):
        if isinstance(item, Resized):
            status = job.status()
            view.know(status)
        if not isinstance(item, (LogChunk, Display)) or not is_shown(item.task, wanted, status):
            continue
        if isinstance(item, Display):
            if not streams:  # one that asks for the bytes of a stream gets these alone
                view.display(item)
        elif item.data and (not streams or item.stream in streams):
            view.log(item)
    view.end_lines()
    return OK


def _nobody(_: Question) -> None:
    """Take a question that is text of the log and no more."""


def wait(command: Command, output: Output) -> int:
    """Wait for the end of a job, in silence.

    Parameters
    ----------
    command
        Names the job; may have ``timeout``, the seconds after which it waits no longer.
    output
        Where it is said at last how the job ended.
    """
    job = open_job(command.values["job"])
    try:
        status = job.wait(command.values.get("timeout"))
    except TimeoutError:
        output.note(f"job {job.id} is not over yet; it goes on")
        return TIMED_OUT
    if output.json:
        output.data(ending_json(job.id, status))
    elif status.state is not JobState.SUCCEEDED or output.live:
        output.note(ending_text(output, job.id, job_name(job.id), status))
    return code_of_job(status)
