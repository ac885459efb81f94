"""One node of one run: begun once, whoever asks for it, and however often.

What is to be is on disk before it is asked for. A job carries a mark that says of which node and
try it is, so that who takes over after a kill finds it on record and follows it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from submarine_engine import cache
from submarine_engine.amounts import duration
from submarine_engine.bundle import BuildOptions, Bundle
from submarine_engine.cache import Caching
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.clusters.machine import host
from submarine_engine.command import job_name, parse_cell
from submarine_engine.config import load_config
from submarine_engine.errors import (
    ClusterError,
    FlowError,
    JobError,
    JobFailedError,
    JobNotFoundError,
    SubmarineError,
    SubmissionError,
)
from submarine_engine.flows.analysis import constants
from submarine_engine.flows.build import context, make_bundle, overriding, said_in, with_cell
from submarine_engine.flows.folder import (
    Copies,
    Place,
    RemotePath,
    address_of,
    beside,
    make_folder,
    write_once,
)
from submarine_engine.flows.leases import Lock, take
from submarine_engine.flows.model import (
    ALL_DONE,
    ALL_SUCCESS,
    CELL,
    Flow,
    FlowPaths,
    Node,
    run_folder,
)
from submarine_engine.flows.records import (
    NodePaths,
    NodeRecord,
    NodeState,
    ended,
    fix_parameters,
    read_record,
    write_record,
)
from submarine_engine.flows.session import Session
from submarine_engine.future import Job
from submarine_engine.history import SPOILT, default_home, home_id
from submarine_engine.job import FLOW_MARK, JobSpec, JobState, Resources, Role
from submarine_engine.records import iter_jobs, open_job, record_of

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.lifecycle import JobStatus

# A job's folder is named when it is made, at most this long after the intent was written: clocks
# of two workers differ.
_CLOCKS = 300.0
_LOOK = 2.0  # seconds between two looks in a storage whether a node is still wanted


class Following(Protocol):
    """How a job is followed: shows its log, and ends it where the process is asked to end."""

    def __call__(self, job: Job, name: str, wanted: Callable[[], bool], /) -> JobStatus:
        """Return how the job ended; `wanted` says whether it still is, else it is cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """Which node of which run, and how it is run.

    Parameters
    ----------
    folder
        The flow's.
    node, run
        The node's name; the run's id, any scheduler's.
    given
        Texts of ``--param``; None for those that the run has begun with.
    attempt
        Which try the scheduler says it is, from 1: a failure of that try, or of a later one, is
        returned as it is. None tries again after a failure.
    """

    folder: Place
    node: str
    run: str
    given: Mapping[str, str] | None = None
    attempt: int | None = None


def run_node(
    asked: NodeRequest, follow: Following, tell: Callable[[str], object] = lambda _: None
) -> NodeRecord:
    """Run a node to its end, or return the end that it has come to.

    Parameters
    ----------
    asked
        Which one.
    follow
        Shows the job, and waits for its end.
    tell
        Is told what there is to say, a line each.

    Returns
    -------
    NodeRecord
        In a final state.

    Raises
    ------
    SubmarineError
        It cannot be run; the record says so, too.
    """
    flow = Flow.read(asked.folder)
    node = flow.node(asked.node)
    paths = FlowPaths(asked.folder)
    run_folder(asked.run)
    values = fix_parameters(flow, paths, asked.run, asked.given)
    files = NodePaths(paths.node(asked.run, node.name))
    make_folder(files.folder)
    lock, copies = take(files.lock), Copies()
    if lock is None:
        tell(f"node {node.name} is run by another process; waiting for it")
        while lock is None:
            lock = take(files.lock, wait=math.inf)
    try:
        return _Running(flow, node, paths, asked, values, follow, tell, lock, copies).run()
    finally:
        lock.drop()
        copies.close()


class _Running:
    """One node, while this process has its lock."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it runs with
        self,
        flow: Flow,
        node: Node,
        paths: FlowPaths,
        asked: NodeRequest,
        values: Mapping[str, Any],
        follow: Following,
        tell: Callable[[str], object],
        lock: Lock,
        copies: Copies,
    ) -> None:
        self.lock, self.copies, self.looked, self.begun = lock, copies, (0.0, False), False
        self.flow, self.node, self.paths, self.asked = flow, node, paths, asked
        self.values, self.follow, self.tell = values, follow, tell
        self.files = NodePaths(paths.node(asked.run, node.name))
        own = next((one for one in flow.cells if one.number == flow.parameters_cell), None)
        said = said_in(own) if own is not None else ()
        added = overriding(flow.parameters_cell, said, values)
        every = with_cell(flow.cells, added)
        by_number = {cell.number: cell for cell in flow.cells}
        self.cells = [by_number[number] for number in node.cells]
        self.above = context(every, node.cells)
        usual = {one.name: one.default for one in flow.parameters}
        self.usual = repr(usual) == repr(dict(values))
        self.where = f"{flow.notebook}, node {node.name}"

    def run(self) -> NodeRecord:
        record = read_record(self.paths, self.asked.run, self.node.name)
        if record.state is NodeState.SUCCEEDED:
            self.tell(f"node {self.node.name} has succeeded before, in try {record.attempt}")
            return record
        again = self.asked.attempt
        if record.state.final and again is not None and again <= record.attempt:
            return record
        if record.state.final:
            self.files.cancel.unlink(missing_ok=True)  # of the try before
        cancelled = record.state is NodeState.WAITING and self.files.cancel.exists()
        # Since whoever runs all of it has begun this try: its mark may be the one removed just now.
        cancelled |= again is not None and self.paths.cancelled(self.asked.run).exists()
        if cancelled and record.state is not NodeState.RUNNING:
            return self._write(ended(record, NodeState.CANCELLED, "the run was cancelled"))
        if record.state is not NodeState.RUNNING:
            record = self._intend(record)
        try:
            return self._through(record)
        except SubmarineError as error:
            if isinstance(error, JobError) and not isinstance(error, JobFailedError):
                raise  # the job may go on: whoever comes next follows it
            if isinstance(self.paths.folder, RemotePath) and self._may_be_the_storage(error):
                raise  # likewise
            self._write(ended(self._read(), NodeState.FAILED, str(error)))
            raise

    def _may_be_the_storage(self, error: SubmarineError) -> bool:
        """Return whether the storage may have said it, of which the job knows nothing."""
        return isinstance(error, ClusterError) or (
            self.begun and isinstance(error, SubmissionError)  # as a storage refuses to write
        )

    def _read(self) -> NodeRecord:
        return read_record(self.paths, self.asked.run, self.node.name)

    def _write(self, record: NodeRecord) -> NodeRecord:
        self.lock.check()
        return write_record(self.paths, self.asked.run, self.node.name, record)

    def _intend(self, former: NodeRecord) -> NodeRecord:
        """Write down that a try begins, before anything is asked for."""
        self._check_followed()
        return self._write(
            NodeRecord(
                state=NodeState.RUNNING,
                attempt=max(former.attempt + 1, self.asked.attempt or 0),
                first=former.first,
                started=time.time(),
            )
        )

    def _check_followed(self) -> None:
        for name in self.node.follows:
            state = read_record(self.paths, self.asked.run, name).state
            needed = any(read.node == name for read in self.node.reads)
            # Of a node that is not to run, since one before it has failed, a scheduler never asks.
            never = state is NodeState.WAITING and self.node.condition != ALL_SUCCESS
            if not state.final and (needed or not never):
                raise FlowError(
                    f"it follows {name}, which is {state.value}",
                    where=self.where,
                    fix=f"run that one first: submarine flow node FOLDER {name}",
                )
            if not state.good and (needed or self.node.condition == ALL_SUCCESS):
                raise FlowError(
                    f"it follows {name}, which has {state.value}",
                    where=self.where,
                    fix=f"run that one again: submarine flow node FOLDER {name}",
                )

    def _through(self, record: NodeRecord) -> NodeRecord:
        where, spec, caching = self._spec(record)
        job = self._adopted(record)
        with ExitStack() as stack:
            session, bundle = None, None
            kept = self._kept_by_others()
            if job is None or self.node.binds or kept:
                session, bundle = self._bundle(stack)
            if job is None:
                assert bundle is not None  # noqa: S101 - for the type checker
                # Who takes over looks for the job in this very home, and nowhere else.
                cluster, spec = cluster_for(where, spec, self.tell)
                record = replace(record, home=home_id(default_home()), host=host())
                record = self._write(replace(record, bundle=bundle.hash, cluster=cluster.name))
                write_once(bundle, self.paths.bundle(bundle.hash))
                self.lock.check()
                job = self._submit(cluster, spec, bundle, caching)
            self.begun = True
            record = replace(record, job=job.id, cluster=job.cluster.name)
            record = self._write(replace(record, remembered=job.remembered))
            status = self.follow(job, self.node.name, lambda: self._goes_on(record))
            if status.state is JobState.CANCELLED:
                return self._write(self._cut_short(record))
            if status.state is not JobState.SUCCEEDED:
                return self._failed(record, job)
            if session is not None and bundle is not None:
                self._come_home(record, job, session, bundle, kept)
                shared = self._leave(record, session)
                record = replace(record, shared=shared)
            return self._write(ended(record, NodeState.SUCCEEDED))

    def _goes_on(self, record: NodeRecord) -> bool:
        return not self._is_cancelled() and not self._is_late(record)

    def _is_cancelled(self) -> bool:
        if isinstance(self.files.cancel, Path):
            return self.files.cancel.exists()
        at, cancelled = self.looked
        if not cancelled and time.monotonic() - at > _LOOK:
            with suppress(ClusterError):  # a storage that does not answer now is asked once more
                cancelled = self.files.cancel.exists()
            self.looked = time.monotonic(), cancelled
        return cancelled

    def _is_late(self, record: NodeRecord) -> bool:
        limit, started = self.node.time_limit, record.started
        return limit is not None and started is not None and time.time() - started > limit

    def _cut_short(self, record: NodeRecord) -> NodeRecord:
        if self.files.cancel.exists() or not self._is_late(record):
            return ended(record, NodeState.CANCELLED, "the node was cancelled")
        text = f"{self.where}: it took longer than {duration(self.node.time_limit or 0)}"
        return ended(record, NodeState.FAILED, text)

    # What runs

    def _spec(self, record: NodeRecord) -> tuple[str, JobSpec, Caching | None]:
        """Return where the node's job is to go, what it is, and whether it may be remembered."""
        name = f"{self.flow.name}.{self.node.name}"
        env = {FLOW_MARK: self._mark(record)}
        if self.node.kind == CELL:
            role = Role(resources=Resources(gpus=0))
            spec = JobSpec(name=job_name(name), roles=(role,), env=env)
            return "local", self._with_notebook(spec), self._caching({})
        command = parse_cell(list(self.node.options))
        chosen = load_config({"cluster": command.values.get("cluster")}).value("cluster")
        spec = command.named(job_name(name))
        spec = self._with_notebook(replace(spec, env={**spec.env, **env}))
        return str(chosen), spec, self._caching(command.values)

    def _caching(self, said: Mapping[str, Any]) -> Caching | None:
        """Return whether the result may be remembered: as the cell says, else as the flow does."""
        origin = f"{self.flow.workdir}/{self.flow.notebook} {self.node.name}"
        caching = Caching.of({"cache": self.node.cache, **said}, origin)
        return caching and replace(caching, where_possible=True)

    def _with_notebook(self, spec: JobSpec) -> JobSpec:
        """Name the flow's notebook for people, and the node's webhook unless the cell has one."""
        # No file of the notebook need be here: its name is for people.
        notify = spec.notify or next(iter(self.node.notify), None)
        return replace(spec, notebook=self.flow.notebook, notify=notify)

    def _mark(self, record: NodeRecord) -> str:
        return f"{address_of(self.asked.folder)}|{self.asked.run}|{self.node.name}|{record.attempt}"

    def _bundle(self, stack: ExitStack) -> tuple[Session | None, Bundle]:
        """Return what runs: the stored bundle, or one with the values that others have left."""
        node = self.node
        stored = node.bundle if self.usual else ""
        if stored and not node.binds:
            return None, self._stored(stored)
        modules = self.copies.of(self.paths.modules)
        session = stack.enter_context(Session(self.above, modules).open())
        wanted: dict[str, set[str]] = {}
        for read in node.reads:
            wanted.setdefault(read.node, set()).add(read.name)
        for source in self.flow.nodes:
            if source.name in wanted:
                session.take(self._left_by(source.name), wanted[source.name], source.binds)
        if stored:
            return session, self._stored(stored)
        self._refuse_split(wanted)
        options = BuildOptions(limit=sys.maxsize, tell=self.tell)
        bundle = make_bundle(self.cells, self.above, session.namespace, modules, options)
        return session, bundle

    def _record_of(self, name: str) -> NodeRecord:
        return read_record(self.paths, self.asked.run, name)

    def _left_by(self, name: str) -> Path:
        attempt = self._record_of(name).attempt
        return self.copies.of(NodePaths(self.paths.node(self.asked.run, name)).values(attempt))

    def _refuse_split(self, wanted: Mapping[str, set[str]]) -> None:
        """Raise where values that shared an object come from two nodes: they are two here."""
        taken_from = {read.name: read.node for read in self.node.reads}
        for name, names in wanted.items():
            shared = self._record_of(name).shared
            for mine in sorted(names & shared.keys()):
                for other in shared[mine]:
                    source = taken_from.get(other, name)
                    if source != name:
                        raise FlowError(
                            f"`{mine}` of {name} shares an object with `{other}`, which is taken"
                            f" from {source}: here they would be two",
                            where=self.where,
                            fix=f"bind `{mine}` in a cell that follows {source}, or in its cell",
                        )

    def _stored(self, digest: str) -> Bundle:
        folder = self.paths.bundle(digest)
        try:
            bundle = Bundle.read(self.copies.of(folder))
        except SPOILT as error:
            raise FlowError(
                f"its bundle cannot be read: {error}",
                where=str(folder),
                fix="build the flow anew: submarine flow build",
            ) from None
        if bundle.hash != digest:
            raise FlowError(
                "its bundle has changed since the flow was built",
                where=str(folder),
                fix="build the flow anew: submarine flow build",
            )
        return bundle

    # Its job

    def _adopted(self, record: NodeRecord) -> Job | None:
        """Return the job that this try has begun already; None where there is none."""
        if not record.bundle:
            return None  # nothing had been asked for
        if record.home and record.home != home_id(default_home()):
            raise JobNotFoundError(
                f"try {record.attempt} was begun on {record.host}, and its job is on record there"
                " alone: it may still run",
                where=self.where,
                fix=f"run it there again, or let SUBMARINE_HOME be a folder that all workers share;"
                f" is {record.host} gone for good: submarine flow cancel, and run it again",
                job_id=record.job,
            )
        if record.job:
            return open_job(record.job)
        mark, since = self._mark(record), (record.started or 0) - _CLOCKS
        home = default_home()
        for summary in iter_jobs(home):
            if summary.created is not None and summary.created.wall < since:
                break
            data = record_of(summary.id, home)
            if data.get("spec", {}).get("env", {}).get(FLOW_MARK) == mark:
                self.tell(f"node {self.node.name} goes on: job {summary.id}")
                return open_job(summary.id)
        return None

    def _submit(
        self, cluster: Cluster, spec: JobSpec, bundle: Bundle, caching: Caching | None
    ) -> Job:
        cluster.tell = self.tell
        workdir = Path(self.flow.workdir)
        if not self.flow.workdir or not workdir.is_dir():
            workdir = beside(self.asked.folder)
        job = cache.submit(cluster, spec, bundle, workdir=workdir, caching=caching)
        if job.remembered:
            self.tell(f"the result is {job.remembered} ({job.id})")
        return job

    def _failed(self, record: NodeRecord, job: Job) -> NodeRecord:
        try:
            job.results()
        except SubmarineError as error:
            where = error.where
            if isinstance(error, JobFailedError) and error.frames:
                where = f"{error.frames[-1].cell}, line {error.frames[-1].line}"
            text = f"{self.flow.notebook}, {where}: {error.what}"
            return self._write(ended(record, NodeState.FAILED, text))
        return self._write(ended(record, NodeState.FAILED, f"{self.where}: the job failed"))

    def _come_home(
        self,
        record: NodeRecord,
        job: Job,
        session: Session,
        bundle: Bundle,
        kept: Mapping[str, str],
    ) -> None:
        """Have the session as the job has left it."""
        before = session.fingerprints(sorted(kept))
        session.define(bundle, self.node.cells)
        # Objects of this process are those that the job got only where it got this very bundle.
        same = record.bundle in {"", bundle.hash}
        session.bring_home(job, bundle.sent if same else None)
        after = session.fingerprints(sorted(kept))
        for name, user in kept.items():
            if before[name] != after[name]:
                raise FlowError(
                    f"it has changed `{name}` in place, and {user} reads that as it was before",
                    where=self.where,
                    fix=f"write --after {self.node.name} above the cell of {user}, and build anew",
                )

    def _kept_by_others(self) -> dict[str, str]:
        """Return what this node reads and later ones take from elsewhere, with one that does.

        The code does not show that it changes these values. Where it does all the same, a notebook
        would have the later cell see that.
        """
        names = [node.name for node in self.flow.nodes]
        own = {read.name: read.node for read in self.node.reads}
        later = self.flow.nodes[names.index(self.node.name) + 1 :]
        found: dict[str, str] = {}
        for node in later:
            for read in node.reads:
                if own.get(read.name) == read.node:
                    found.setdefault(read.name, node.name)
        return found

    def _leave(self, record: NodeRecord, session: Session) -> dict[str, list[str]]:
        """Keep what others take of this node; return what of it shares objects with the rest."""
        if not self.node.binds:
            return {}
        left = session.leave(self.node.binds, self.cells, self.where)
        write_once(left, self.files.values(record.attempt))
        held = {read.name for read in self.node.reads} | {*constants(self.above)}
        return session.shared(self.node.binds, sorted(held))


def may_run(node: Node, states: Mapping[str, NodeState]) -> bool | None:
    """Return whether a node runs, by the ends of those that it follows; None for not yet.

    Parameters
    ----------
    node
        The node.
    states
        Those of all nodes, by name.
    """
    followed = [states[name] for name in node.follows]
    if node.condition == ALL_SUCCESS:
        if any(state.final and not state.good for state in followed):
            return False
        return True if all(state.good for state in followed) else None
    if not all(state.final for state in followed):
        return None
    return (
        True if node.condition == ALL_DONE else any(state is NodeState.FAILED for state in followed)
    )
