"""The verbs of flows: build one, show it, run a node or all of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from submarine_engine.amounts import count, duration
from submarine_engine.cli.output import FAILED, INTERRUPTED, OK, Output, visible
from submarine_engine.cli.terminal_view import follow, view_of
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError, FlowError, SubmarineError
from submarine_engine.flows.build import FlowOptions, build_flow
from submarine_engine.flows.drawing import drawn
from submarine_engine.flows.folder import RemotePath, place_of
from submarine_engine.flows.model import Flow
from submarine_engine.flows.node import NodeRequest, run_node
from submarine_engine.flows.records import NodeRecord, NodeState
from submarine_engine.flows.runner import (
    Runner,
    RunStatus,
    cancel_run,
    newest_run,
    reset_failed,
    status_of,
)
from submarine_engine.flows.writers import WRITERS
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts, noted
from submarine_engine.lifecycle import JobStatus

_NONE = "none"


def build(command: Command, output: Output) -> int:
    """Make a flow of a notebook, and write it for a scheduler.

    Parameters
    ----------
    command
        Names the notebook; has what the flow's options are, where it is written, for which
        scheduler, and whether it is run at once.
    output
        Where the path of what was written is said, and the run is shown.
    """
    values = command.values
    notebook = Path(values["notebook"])
    to = values.get("to", _NONE)
    if to != _NONE and to not in WRITERS:
        raise CommandError(
            f"flows cannot be written for {to!r}",
            where="--to",
            fix=f"write --to {' or '.join((*WRITERS, _NONE))}",
        )
    folder = place_of(values.get("output") or str(notebook.with_suffix(".flow")))
    flow = build_flow(notebook, folder, _options(values), _noting(output))
    # What a scheduler reads is a file of this machine.
    into = folder if isinstance(folder, Path) else notebook.absolute().parent
    written = WRITERS[to](flow, folder, into) if to != _NONE else folder
    if output.json:
        output.data({"flow": flow.name, "folder": str(folder), "written": str(written)})
    else:
        nodes = count(len(flow.nodes), "node")
        output.note(f"flow {flow.name}: {nodes}, in {visible(str(folder))}")
        output.line(visible(str(written)))
    return _through(Runner(folder), output) if values.get("run") else OK


def _noting(output: Output) -> Callable[[str], object]:
    return lambda words: output.note(visible(words, line=True))


def _options(values: Any) -> FlowOptions:  # noqa: ANN401 - of a command
    return FlowOptions(
        name=values.get("name", ""),
        schedule=values.get("schedule", ""),
        given=_given(values) or {},
        mail=values.get("mail", ""),
        retries=values.get("retries", 0),
        retry_delay=values.get("retry_delay"),
        time_limit=values.get("time_limit"),
        notify=(values["notify"],) if "notify" in values else (),
        cache=bool(values.get("cache")),
    )


def _given(values: Any) -> dict[str, str] | None:  # noqa: ANN401 - of a command
    given: dict[str, str] = {}
    for name, text in values.get("param", ()):
        if name in given:
            raise CommandError(f"--param {name} is given twice", fix="give it once")
        given[name] = text
    return given or None


def show(command: Command, output: Output) -> int:
    """Draw a flow, or the one that a notebook would become.

    Parameters
    ----------
    command
        Names the flow: its folder, its address, or a notebook.
    output
        Where it is drawn; programs get all of the flow as JSON.
    """
    path = place_of(command.values["flow"])
    if isinstance(path, RemotePath) or path.is_dir():
        flow = Flow.read(path)
    else:
        flow = build_flow(path, None, tell=_noting(output))
    if output.json:
        output.data(flow.to_json())
        return OK
    for line in drawn(flow):
        output.line(visible(line, line=True))
    return OK


def run(command: Command, output: Output) -> int:
    """Run a flow to its end, or go on with a run of it.

    Parameters
    ----------
    command
        Names the flow's folder; may have the run's id, a new one unless given, and parameters.
    output
        Where logs of the nodes are shown, and how each ended.
    """
    values = command.values
    wanted = values.get("run", "")
    runner = Runner(place_of(values["folder"]), wanted, _given(values))
    return _through(runner, output)


def _through(runner: Runner, output: Output) -> int:
    output.note(f"run {visible(runner.run, line=True)}")
    wide = max(len(name) for name in status_of(runner.folder, runner.run).records)

    def show_line(name: str, line: bytes) -> None:
        text = visible(line.decode(errors="replace"), line=True)
        output.line(f"{name:<{wide}} │ {text}")

    def tell(name: str, text: str) -> None:
        output.note(f"{name:<{wide}} ● {visible(text, line=True)}")

    if not output.json:
        runner.show, runner.tell = show_line, tell
    with _ended_by_sigterm(), noted(Interrupts()) as interrupts:
        runner.wanted = lambda: not interrupts.pending
        status = runner.through()
    _show_status(status, output)
    if interrupts.pending and status.failed:
        return INTERRUPTED
    return FAILED if status.failed else OK


def status(command: Command, output: Output) -> int:
    """Show how far a run is.

    Parameters
    ----------
    command
        Names the flow's folder; may have the run's id, else the newest is shown.
    output
        Where the nodes are listed, and whether nobody runs them.
    """
    folder = place_of(command.values["folder"])
    found = status_of(folder, newest_run(folder, command.values.get("run")))
    _show_status(found, output)
    if not (found.over or found.driven or output.json):
        name = visible(found.run, line=True)
        output.note(f"nobody runs it: submarine flow run {folder} --run {name}")
    return OK


def _show_status(status: RunStatus, output: Output) -> None:
    if output.json:
        for name, record in status.records.items():
            output.data({"node": name, "run": status.run, **record.to_json()})
        return
    rows = [
        (name, _state(one), str(one.attempt or ""), _seconds(one), one.job, one.error)
        for name, one in status.records.items()
    ]
    output.table(("node", "state", "try", "time", "job", "error"), rows)


def _state(record: NodeRecord) -> str:
    return f"{record.state.value}{', remembered' if record.remembered else ''}"


def _seconds(record: NodeRecord) -> str:
    if record.started is None:
        return ""
    return duration((record.ended or time.time()) - record.started)


def cancel(command: Command, output: Output) -> int:
    """Ask a run to end.

    Parameters
    ----------
    command
        Names the flow's folder; may have the run's id, else the newest is meant.
    output
        Where it is said whether it was asked, or was over already.
    """
    folder = place_of(command.values["folder"])
    wanted = newest_run(folder, command.values.get("run"))
    asked = cancel_run(folder, wanted)
    if output.json:
        output.data({"run": wanted, "asked": asked})
    else:
        words = "asked to end" if asked else "was over already"
        output.line(f"{visible(wanted, line=True)} {words}")
    return OK if asked else FAILED


def retry(command: Command, output: Output) -> int:
    """Run again what has failed, and what follows it.

    Parameters
    ----------
    command
        Names the flow's folder; may have the run's id, else the newest is meant.
    output
        Where the run is shown as it goes on.
    """
    folder = place_of(command.values["folder"])
    wanted = newest_run(folder, command.values.get("run"))
    again = reset_failed(folder, wanted)
    if not again and status_of(folder, wanted).over:
        output.note("nothing of it has failed")
        return OK
    return _through(Runner(folder, wanted), output)


def node(command: Command, output: Output) -> int:
    """Run one node of one run, or return the end that it has come to.

    Parameters
    ----------
    command
        Names the flow's folder and the node; may have the run's id, parameters, and which try it is
        by the scheduler's count.
    output
        Where the log of its job is shown.
    """
    values = command.values
    given = _given(values)
    with _ended_by_sigterm(), noted(Interrupts()) as interrupts:

        def watch(job: Job, name: str, wanted: Callable[[], bool]) -> JobStatus:
            return _watch(job, name, wanted, output, interrupts)

        try:
            asked = NodeRequest(
                folder=place_of(values["folder"]),
                node=values["node"],
                run=values.get("run", ""),
                given=given,
                attempt=values.get("attempt"),
            )
            record = run_node(asked, watch, output.note)
        except SubmarineError as error:
            # To a scheduler a node has failed or it has not, whatever the reason.
            output.error(error)
            return FAILED
    if output.json:
        output.data({"node": asked.node, "run": asked.run, **record.to_json()})
    elif record.error:
        output.error(FlowError(record.error))
    if record.state is NodeState.CANCELLED and interrupts.pending:
        return INTERRUPTED
    return OK if record.state is NodeState.SUCCEEDED else FAILED


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Take SIGTERM, by which schedulers end what they run, for an interrupt."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls
        signal.raise_signal(signal.SIGINT)

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _watch(
    job: Job, name: str, wanted: Callable[[], bool], output: Output, interrupts: Interrupts
) -> JobStatus:
    view = view_of(job, name, output)

    def cancel() -> bool:
        job.cancel("its node was cancelled")
        return True

    noting = _NodeInterrupts(interrupts, wanted)
    status = follow(job, view, noting, cancel)
    assert status is not None  # noqa: S101 - for the type checker: `cancel` never leaves
    return status


class _NodeInterrupts(Interrupts):
    """Interrupts that also come from whoever writes that the node is to end."""

    def __init__(self, inner: Interrupts, wanted: Callable[[], bool]) -> None:
        self._inner, self._wanted = inner, wanted

    @property
    def pending(self) -> bool:  # type: ignore[override] # read alone
        """Whether the job is to end."""
        return self._inner.pending or not self._wanted()
