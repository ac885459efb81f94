"""A flow without a scheduler: its nodes run here, each in a process of its own.

The records of the nodes are all that counts. A runner that is killed leaves its nodes' processes to
go on; the next one looks at the records, and goes on from there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from submarine_engine.amounts import duration
from submarine_engine.clusters.machine import process_stat, spawn_detached
from submarine_engine.errors import FlowError, SubmarineError
from submarine_engine.flows.folder import (
    Place,
    address_of,
    beside,
    folders_in,
    make_folder,
    mark,
    read_json,
)
from submarine_engine.flows.leases import is_held, take_left
from submarine_engine.flows.model import Flow, FlowPaths, Node, run_folder
from submarine_engine.flows.node import may_run
from submarine_engine.flows.records import (
    NodePaths,
    NodeRecord,
    NodeState,
    ended,
    fix_parameters,
    read_record,
    write_record,
)
from submarine_engine.history import make_private, new_job_id
from submarine_engine.records import open_job

_PAUSE = 0.05  # seconds between two looks at the processes: a node takes a second at least
_PAUSE_ELSEWHERE = 1.0  # likewise: a storage is asked for each node's record
_EXITS = 10.0  # seconds that a process has to exit once its run is over
# A process that ends without an end of its node was killed, or had no answer from its cluster.
_MOST_STARTS = 3


def runs_of(folder: Place) -> list[str]:
    """Return the ids of a flow's runs, the newest last.

    Parameters
    ----------
    folder
        The flow's.
    """
    found = []
    for path in folders_in(FlowPaths(folder).runs):
        with suppress(OSError, ValueError, KeyError):
            data = read_json(path / "run.json") or {}
            found.append((float(data["created"]), str(data["run"])))
    return [run for _, run in sorted(found)]


def newest_run(folder: Place, wanted: str | None = None) -> str:
    """Return the id of a run: the one that is wanted, else the newest.

    Parameters
    ----------
    folder
        The flow's.
    wanted
        Its id, or None.

    Raises
    ------
    FlowError
        There is none, or none of that id.
    """
    Flow.read(folder)
    runs = runs_of(folder)
    if wanted is not None and wanted not in runs:
        raise FlowError(
            f"there is no run {wanted!r:.80}",
            where=str(folder),
            fix=f"its runs are: {', '.join(runs[-5:]) or 'none'}",
        )
    if not runs:
        raise FlowError(
            "the flow has not run yet", where=str(folder), fix=f"submarine flow run {folder}"
        )
    return wanted or runs[-1]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How far a run is.

    Parameters
    ----------
    records
        What each node has come to, by name, in their order.
    driven
        Whether a process sees it through now.
    """

    run: str
    records: Mapping[str, NodeRecord]
    driven: bool = False

    @property
    def over(self) -> bool:
        """Whether every node has come to its end."""
        return all(one.state.final for one in self.records.values())

    @property
    def failed(self) -> bool:
        """Whether a node has failed, or was cancelled."""
        bad = (NodeState.FAILED, NodeState.CANCELLED)
        return any(one.state in bad for one in self.records.values())


def newest_status(folder: Place) -> RunStatus | None:
    """Return how far a flow's newest run is; None before the first.

    Parameters
    ----------
    folder
        The flow's.
    """
    runs = runs_of(folder)
    return status_of(folder, runs[-1]) if runs else None


def status_of(folder: Place, run: str) -> RunStatus:
    """Return how far a run is.

    Parameters
    ----------
    folder, run
        The flow's, and the run's id.
    """
    flow, paths = Flow.read(folder), FlowPaths(folder)
    # The lock first: a run that ends meanwhile is over, and not one that nobody sees through.
    driven = is_held(_lock_of(paths, run))
    return replace(_status(flow, paths, run), driven=driven)


def _status(flow: Flow, paths: FlowPaths, run: str) -> RunStatus:
    """Return how far a run is, for who has its lock, or does not ask who has."""
    return RunStatus(run, {one.name: read_record(paths, run, one.name) for one in flow.order})


def _lock_of(paths: FlowPaths, run: str) -> Place:
    return paths.run(run) / "runner.lock"


def _logs_of(paths: FlowPaths, run: str, node: str = "") -> Path:
    """Return the folder of what processes of a run, or of one of its nodes, write on this machine.

    Where the flow is on this machine, it is the run's own folder.
    """
    place = beside(paths.folder) / "runs" / run_folder(run)
    return make_private(place / node if node else place)


def start_run(folder: Place, run: str = "", given: Mapping[str, str] | None = None) -> str:
    """Have a process of its own see a run through; it outlives this one.

    Parameters
    ----------
    folder
        The flow's.
    run
        The run's id: one that goes on where it stands, or is new; any new one where it is empty.
    given
        Texts of ``--param``; None for those that it has begun with.

    Returns
    -------
    str
        The run's id. Its process holds the run by then, or the run is over.

    Raises
    ------
    FlowError
        Another process runs it, or its process has ended at once: it says why.
    """
    runner = Runner(folder, run, given)
    paths, status = FlowPaths(folder), status_of(folder, runner.run)
    if status.over:
        return runner.run
    if status.driven:
        raise _taken(folder, runner.run)
    log = _logs_of(paths, runner.run) / "runner.log"
    before = log.stat().st_size if log.is_file() else 0
    words = ["flow", "run", address_of(folder), "--run", runner.run, "--json"]
    pid = spawn_detached(
        [sys.executable, "-m", "submarine_engine.cli", *words], os.environ, log=log, keep=()
    )
    while True:
        status = status_of(folder, runner.run)
        if status.driven or status.over:
            return runner.run
        found = process_stat(pid)
        if found is None or found.state == "Z":
            if status_of(folder, runner.run).over:  # since that look
                return runner.run
            text = log.read_bytes()[before:].decode(errors="replace").strip()
            raise FlowError(
                f"its process has ended at once: {text[-1000:] or 'it said nothing'}",
                where=str(folder),
                fix=f"run it in a terminal: submarine flow run {folder} --run {runner.run}",
            )
        time.sleep(_PAUSE)


def retry_run(folder: Place, run: str) -> list[str]:
    """Run again what has failed in a run, and what follows it, by a process as of `start_run`.

    Parameters
    ----------
    folder, run
        The flow's, and the run's id.

    Returns
    -------
    list
        The nodes that run again; where there are none, and the run is over, nothing is begun.

    Raises
    ------
    FlowError
        As `start_run`; also where the run still goes on.
    """
    end = time.monotonic() + _EXITS
    status = status_of(folder, run)
    while status.over and status.driven and time.monotonic() < end:
        time.sleep(_PAUSE)  # its process is about to exit
        status = status_of(folder, run)
    if status.driven:
        raise _taken(folder, run)
    again = reset_failed(folder, run)
    start_run(folder, run)
    return again


def _taken(folder: Place, run: str) -> FlowError:
    return FlowError(
        f"another process runs {run}",
        where=str(folder),
        fix=f"see how far it is: submarine flow status {folder} --run {run}",
    )


def cancel_run(folder: Place, run: str) -> bool:
    """Ask a run to end; return whether anything of it was not over.

    Parameters
    ----------
    folder, run
        The flow's, and the run's id.
    """
    flow, paths = Flow.read(folder), FlowPaths(folder)
    found, driven = False, status_of(folder, run).driven
    if driven:  # tries whose processes start just now would take the nodes' marks for older ones
        mark(paths.cancelled(run))
    # The last first: none of them begins because of another one's end.
    for node in reversed(flow.order):
        record = read_record(paths, run, node.name)
        # One that has failed may wait for its next try.
        if record.state.final and not (driven and record.state is NodeState.FAILED):
            continue
        found = True
        files = NodePaths(paths.node(run, node.name))
        mark(files.cancel)
        lock = take_left(files.lock)
        if lock is None:
            continue  # its process looks at that file
        try:
            record = read_record(paths, run, node.name)
            if not record.state.final:
                if record.job:
                    with suppress(SubmarineError):  # it is over, or nobody knows it any more
                        open_job(record.job).cancel("its node was cancelled")
                cancelled = ended(record, NodeState.CANCELLED, "the run was cancelled")
                write_record(paths, run, node.name, cancelled)
        finally:
            lock.drop()
    return found


def reset_failed(folder: Place, run: str) -> list[str]:
    """Let what has failed in a run, and what follows it, wait again; return these nodes.

    Parameters
    ----------
    folder, run
        The flow's, and the run's id.
    """
    flow, paths = Flow.read(folder), FlowPaths(folder)
    paths.cancelled(run).unlink(missing_ok=True)
    again: set[str] = set()
    for node in flow.order:
        state = read_record(paths, run, node.name).state
        if state in (NodeState.FAILED, NodeState.CANCELLED):
            again.update((node.name, *flow.followers(node.name)))
    # The last first: where this is cut short, what has failed is still found.
    for node in reversed(flow.order):
        record = read_record(paths, run, node.name)
        if node.name in again and record.state.final:
            NodePaths(paths.node(run, node.name)).cancel.unlink(missing_ok=True)
            fresh = NodeRecord(attempt=record.attempt, first=record.attempt + 1)
            write_record(paths, run, node.name, fresh)
    return [node.name for node in flow.order if node.name in again]


@dataclass(slots=True)
class _Process:
    """A node's process, and how far its log was shown."""

    process: subprocess.Popen[bytes]
    log: BinaryIO
    attempt: int
    starts: int
    begun: bytes = b""


@dataclass(slots=True)
class Runner:
    """Sees a run of a flow through.

    Parameters
    ----------
    folder, run
        The flow's, and the run's id; a new one where that is empty.
    given
        Texts of ``--param``; None for those that it has begun with.
    show
        Is given each line of a node's log, with the node's name.
    tell
        Is told what happens to nodes, with the node's name.
    wanted
        Whether it is still to go on; else it is cancelled.
    """

    folder: Place
    run: str = ""
    given: Mapping[str, str] | None = None
    show: Callable[[str, bytes], object] = lambda *_: None
    tell: Callable[[str, str], object] = lambda *_: None
    wanted: Callable[[], bool] = lambda: True
    _flow: Flow = field(init=False)
    _paths: FlowPaths = field(init=False)
    _processes: dict[str, _Process] = field(default_factory=dict)
    _starts: dict[str, int] = field(default_factory=dict)
    _told: dict[str, NodeState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._flow = Flow.read(self.folder)
        self._paths = FlowPaths(self.folder)
        self.run = self.run or new_job_id()
        fix_parameters(self._flow, self._paths, self.run, self.given)

    def through(self) -> RunStatus:
        """Run what is to run; return how it ended.

        Raises
        ------
        FlowError
            Another process runs it.
        """
        with self._alone():
            cancelled = False
            while True:
                if not cancelled and not self.wanted():
                    cancelled = True
                    cancel_run(self.folder, self.run)
                states = self._poll_nodes()
                if not self._processes and all(state.final for state in states.values()):
                    return _status(self._flow, self._paths, self.run)
                time.sleep(_PAUSE if isinstance(self.folder, Path) else _PAUSE_ELSEWHERE)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = take_left(_lock_of(self._paths, self.run))
        if lock is None:
            raise _taken(self.folder, self.run)
        try:
            yield
        finally:
            lock.drop()
            for one in self._processes.values():  # they go on by themselves
                one.log.close()

    def _poll_nodes(self) -> dict[str, NodeState]:
        """Look at every node once, and do what is to be done."""
        states: dict[str, NodeState] = {}
        for node in self._flow.order:
            if node.name in self._processes:
                self._follow(node, self._processes[node.name])
            record = read_record(self._paths, self.run, node.name)
            if node.name not in self._processes:
                record = self._decide(node, record, states)
            elif record.state.final:
                # Its process is about to end: only then is it known whether it is tried again.
                record = replace(record, state=NodeState.RUNNING)
            states[node.name] = record.state
            if self._told.get(node.name) is not record.state:
                self._told[node.name] = record.state
                if record.state is not NodeState.WAITING:
                    self.tell(node.name, _words(record))
        return states

    def _decide(
        self, node: Node, record: NodeRecord, states: Mapping[str, NodeState]
    ) -> NodeRecord:
        if record.state is NodeState.FAILED:
            return self._again(node, record)
        if record.state.final:
            return record
        if record.state is NodeState.RUNNING:
            self._start(node, record.attempt)
            return record
        runs = may_run(node, states)
        if runs is False:
            why = "those that it follows have not ended so that it runs"
            skipped = ended(record, NodeState.SKIPPED, why)
            return write_record(self._paths, self.run, node.name, skipped)
        if runs:
            self._start(node, record.attempt + 1)
        return record

    def _again(self, node: Node, record: NodeRecord) -> NodeRecord:
        """Begin the next try of what has failed, where one is left and its time has come."""
        cancelled = NodePaths(self._paths.node(self.run, node.name)).cancel.exists()
        if record.attempt >= record.first + node.retries or cancelled:
            return record
        delay, waits = node.retry_delay or 0, self._told.get(node.name) is NodeState.WAITING
        if time.time() < (record.ended or 0) + delay:
            if not waits:
                self.tell(node.name, f"{_words(record)}; tried again in {duration(delay)}")
            return NodeRecord(state=NodeState.WAITING, attempt=record.attempt)
        if not waits:
            self.tell(node.name, f"{_words(record)}; tried again")
        self._start(node, record.attempt + 1)
        return NodeRecord(state=NodeState.RUNNING, attempt=record.attempt + 1)

    def _start(self, node: Node, attempt: int) -> None:
        make_folder(self._paths.node(self.run, node.name))
        written = _logs_of(self._paths, self.run, node.name) / "log"
        starts = self._starts[node.name] = self._starts.get(node.name, 0) + 1
        words = ["flow", "node", address_of(self.folder), node.name]
        words += ["--run", self.run, "--attempt", str(attempt)]
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            end = os.fstat(descriptor).st_size
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "submarine_engine.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,  # a Ctrl-C here is told to it by a file
            )
        finally:
            os.close(descriptor)
        log = written.open("rb")
        log.seek(end)
        self._processes[node.name] = _Process(process, log, attempt, starts)

    def _follow(self, node: Node, one: _Process) -> None:
        code = one.process.poll()
        *lines, one.begun = (one.begun + one.log.read()).split(b"\n")
        for line in lines:
            self.show(node.name, line)
        if code is None:
            return
        if one.begun:
            self.show(node.name, one.begun)
        one.log.close()
        del self._processes[node.name]
        record = read_record(self._paths, self.run, node.name)
        if not record.state.final and one.starts >= _MOST_STARTS + node.retries:
            text = f"{self._flow.notebook}, node {node.name}: its process ended with code {code}"
            write_record(self._paths, self.run, node.name, ended(record, NodeState.FAILED, text))


def _words(record: NodeRecord) -> str:
    text = record.state.value
    if record.state is NodeState.RUNNING and record.attempt > 1:
        text += f", try {record.attempt}"
    if record.job:
        text += f" ({record.job})"
    if record.remembered:
        text += f", not run: the result is {record.remembered}"
    return f"{text}: {record.error}" if record.error else text
