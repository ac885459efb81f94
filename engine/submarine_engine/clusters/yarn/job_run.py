"""One job on YARN from its request to its end: what a keeper does in a thread for each.

`JobRun` watches, `Teardown` brings home what containers leave and puts their ends into words. Where
a node shows a container no more, log aggregation has what it wrote (`recover_logs`).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import store
from submarine_engine.clusters.container import Container, granted
from submarine_engine.clusters.log_mirror import LogsGoneError
from submarine_engine.clusters.store import Journal, add_warning, read_events
from submarine_engine.clusters.tasks import Ending, final_task_state, read_outcome, returned_event
from submarine_engine.clusters.yarn.allocator import AllocatedByTask, open_allocator
from submarine_engine.clusters.yarn.hadoop_json import at, number
from submarine_engine.clusters.yarn.log_transport import Aggregation, aggregation, fetch_aggregated
from submarine_engine.clusters.yarn.masters import FINAL, lives, over_words
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.scheduler import waiting_reason
from submarine_engine.clusters.yarn.uploads import keep_results
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError
from submarine_engine.events import (
    CancelRequested,
    Event,
    Exited,
    Finished,
    Moment,
    Released,
    Waiting,
)
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import JobStatus, TaskEnd, TaskStatus, final_state, fold

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.allocator import Allocator
    from submarine_engine.clusters.yarn.services import Services


# Logs and results of a container whose node shows them no more: from log aggregation.


_PATIENCE = 60.0
_RECOVERY_INTERVAL = 0.5
_MISSES = 10
_NODE = 2.0
_LARGEST = 1 << 20


def recover_logs(services: Services, app_id: str, container: Container) -> dict[str, Any] | None:
    """Bring home what log aggregation has of a container; the application's last report.

    Waits for an application that is ending, and for its logs to be gathered. A log that nobody has
    any more is left as it is.
    """
    until = time.monotonic() + _PATIENCE
    report: dict[str, Any] | None = None
    missed = 0
    while time.monotonic() < until:
        with suppress(ClusterError):
            report = services.rm.application(app_id)
            over = report["state"] in FINAL
            if over and aggregation(report) is not Aggregation.WAITING:
                break
            lost = _is_lost(services, container.node)
            missed += lost
            if missed > _MISSES:
                return report  # nobody gathers these logs
            if not over and _drained(container):
                return report
            missed += not lost and _has_forgotten(services, container)
        time.sleep(_RECOVERY_INTERVAL)
    with suppress(ClusterError, LogsGoneError):
        source = fetch_aggregated(
            container.id,
            hadoop=services.conf.folder,
            scratch=container.files.root,
            names=("ALL",),
        )
        try:
            container.see(source)
            container.drain()
        finally:
            source.close()
    return report


def _drained(container: Container) -> bool:
    with suppress(ClusterError):
        return container.drain()
    return False


def _has_forgotten(services: Services, container: Container) -> bool:
    """Return whether the node has begun anew since the container began.

    One that restarts without recovery knows nothing of its containers, and so of their logs.
    """
    if container.started is None:
        return False
    connection = NodeConnection(container.node, user=services.conf.user, timeout=_NODE)
    try:
        connection.get("/ws/v1/node/info")
        told = json.loads(connection.body(_LARGEST))
    except ValueError:
        return False
    finally:
        connection.close()
    return number(at(told, "nodeInfo", "nmStartupTime")) / 1000 > container.started.wall


def _is_lost(services: Services, address: str) -> bool:
    """Return whether the ResourceManager counts on no node of that address."""
    return address not in (node.get("nodeHTTPAddress") for node in services.rm.nodes())


# What containers leave when they end: brought home, and put into words.


_TEARDOWN_INTERVAL = 0.05
_LAST_WORDS = 15.0


class Teardown:
    """How the containers of one job ended.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    """

    def __init__(self, services: Services, paths: JobPaths, allocator: Allocator) -> None:
        self._services = services
        self._paths = paths
        self._allocator = allocator
        self.cancelled: CancelRequested | None = None
        """The first request to end the job."""
        self.report: dict[str, Any] = {}
        """The last that the ResourceManager said of the application."""

    def settle(self, container: Container, released: Moment) -> list[Event]:
        """Bring home what a container left; return its last events.

        Raises
        ------
        OSError
            The job's folder cannot be written.
        """
        complete = False
        with suppress(ClusterError):
            complete = container.drain()
        if not complete and container.id:
            self.report = (
                recover_logs(self._services, self._allocator.app_id, container) or self.report
            )
        status = container.exit_status
        ending = Ending(-9 if status is None else status, read_outcome(container.files))
        container.said = self._last_words(container, ending)
        state, reason = self._judge(container, ending)
        if not container.id:
            return []
        came = container.last_progress() if state is not JobState.SUCCEEDED else []
        return last_events(container, ending, reason, released, came)

    def ends(self, containers: Sequence[Container], status: JobStatus) -> list[TaskEnd]:
        """Return how each task ended, once all containers are settled.

        Parameters
        ----------
        status
            The job as its events tell.
        """
        return [self._end(container, status.task(container.task)) for container in containers]

    def _end(self, container: Container, task: TaskStatus | None) -> TaskEnd:
        if not container.id:
            return TaskEnd(
                state=JobState.FAILED, reason=container.said or "its container never came"
            )
        ending = Ending(container.exit_status or 0, read_outcome(container.files))
        to_its_end = ending.came_to_its_end
        if not ending.kind and task is not None and task.exit_code:
            ending = Ending(task.exit_code, {})
        state, reason = self._judge(container, ending)
        return TaskEnd(
            state=state,
            reason=reason,
            at=task.exited if task else None,
            returned=task.returned if task else None,
            to_its_end=to_its_end,
        )

    def keep_results(self, container: Container) -> None:
        """Copy the results to HDFS, where they outlive this machine; nobody waits for that."""
        results = container.files.results
        if not (results.is_dir() and any(results.iterdir())):
            return
        try:
            if (hdfs := self._services.hdfs) is not None:
                keep_results(hdfs, self._paths.job_id, container.files.root)
                return
            why = "it does not answer"
        except (SubmarineError, OSError) as error:
            why = error.what if isinstance(error, SubmarineError) else str(error)
        if self._services.conf.default_fs.startswith("hdfs:"):
            self._warn(f"the results are not kept on HDFS, only in {container.files.root}: {why}")

    def _warn(self, text: str) -> None:
        sys.stderr.write(f"{self._paths.job_id}: {text}\n")  # the keeper's log
        with suppress(OSError):
            add_warning(self._paths, text)

    def _last_words(self, container: Container, ending: Ending) -> str:
        """Return what YARN says of a container's end.

        One that was asked to end, and not by us, ends before it is said why.
        """
        until = time.monotonic() + _LAST_WORDS
        while not (said := self._allocator.words(container.task)):
            if self.report.get("state") in FINAL:
                return over_words(self.report)
            if not ending.interrupted or self.cancelled or time.monotonic() > until:
                break
            time.sleep(_TEARDOWN_INTERVAL)
            with suppress(ClusterError):
                self.report = self._services.rm.application(self._allocator.app_id)
        return said

    def _judge(self, container: Container, ending: Ending) -> tuple[JobState, str]:
        state, reason = final_task_state(ending, self._paths.root, oom_killed=False)
        unsaid = not ending.kind or (ending.interrupted and not self.cancelled)
        if state is not JobState.SUCCEEDED and unsaid and container.said:
            reason = f"{reason}; YARN says: {container.said}" if container.id else container.said
        return state, reason


def last_events(
    container: Container,
    ending: Ending,
    reason: str,
    released: Moment,
    came: Sequence[Event] = (),
) -> list[Event]:
    """Return the last events of a task's container; `came` tells how far it came."""
    returned = None
    if container.started is not None:
        returned = ending.returned_at(container.started, released)
    events = [*container.late, *came]
    if returned:
        events = [*events, returned_event(container.task, ending, returned)]
    exited = Exited(task=container.task, exit_code=ending.exit_code, reason=reason, at=released)
    return [*events, exited, Released(task=container.task, at=released)]


_NEXT = 0.003
_FIRST = 0.008
_LAUNCH = 0.1  # seconds that a node takes at least to launch a container
_EARLY = 2.0
_LIVELY = 0.03
_EASY = 0.05
_EVERY = 1.0
_RELEASE = 0.02
_TELLING = 1.0
_UNTOLD = 0.5  # seconds of waiting that are not worth a word, nor three questions to the manager
_MISSED = 60.0


class JobRun:
    """Sees a job through. Its record is on disk: another keeper can go on at any point.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    """

    def __init__(self, services: Services, paths: JobPaths) -> None:
        self._services = services
        self._rm = services.rm
        self._paths = paths
        record = read_json(paths.record)
        launch = read_json(paths.root / "launch.json")
        if record is None or launch is None:
            raise ClusterError("its record is gone", where=str(paths.root))
        self._launch = launch
        self._spec = JobSpec.from_json(record["spec"])
        self._allocator = open_allocator(services, paths, self._spec, launch)
        self._teardown = Teardown(services, paths, self._allocator)
        self._journal = Journal(paths, record)
        told = [event for event, _ in read_events(paths.events)[0]]
        self._status = fold(told)
        # Of the keeper before this one: what returned after it has not returned before the cancel.
        asked_to_end = (event for event in told if isinstance(event, CancelRequested))
        self._teardown.cancelled = next(asked_to_end, None)
        self._containers = [
            Container(paths, task, role.resources.gpus or 0)
            for role in self._spec.roles
            for task in role.tasks
        ]
        for container in self._containers:
            container.gathered = self._allocator.ends_with_job
        self._cancel: store.CancelRequest | None = None
        self._kill_at: float | None = None
        self._told_waiting_at = time.monotonic() - _TELLING + _UNTOLD
        self._looked_at_rm = 0.0
        self._came_on_at = time.monotonic()  # a container was last given, or began

    def run(self, stop: threading.Event) -> bool:
        """See the job through; False where `stop` came first.

        Raises
        ------
        OSError
            Its folder is gone, or cannot be written.
        """
        try:
            if self._status.state.final:
                return True
            while not stop.is_set():
                if self._turn():
                    return True
                stop.wait(self._pause())
            return False
        finally:
            self._allocator.close()
            self._journal.close()

    def _turn(self) -> bool:
        """Do what is due; whether the job is over."""
        self._heed_cancel()
        try:
            asked = self._allocator.ask()
        except (SubmissionError, ClusterError) as error:
            self._finish(JobState.FAILED, str(error))
            return True
        if asked is None:
            return self._wait()
        self._see_containers(asked)
        early = self._is_early
        for container in self._containers:
            before = container.started
            try:
                self._write(*container.look(hurry=early))
            except ClusterError:  # the node is silent, the manager knows why
                continue
            if container.started is not before:
                self._came_on_at = time.monotonic()
        self._allocator.gang.open_gate(self._containers)
        return self._look_at_rm()

    def _wait(self) -> bool:
        """See to a job that has no container yet; whether it is over."""
        if self._cancel is not None:
            self._allocator.withdraw()
            self._finish(JobState.CANCELLED, self._cancel.reason or "cancelled in the queue")
            return True
        dead = not lives(self._services.session(self._launch))
        if dead and self._services.lease_is_over(self._paths.job_id):
            store.request_cancel(self._paths, "its notebook is gone", kill=False)
        self._tell_waiting()
        return False

    def _see_containers(self, asked: AllocatedByTask) -> None:
        for container in self._containers:
            found = asked.get(container.task)
            if found is None or container.id:
                continue
            container.id, container.node = found.id, found.node
            source = self._services.logs.source(self._paths.job_id, found.id, found.node)
            container.see(source)
            self._came_on_at = time.monotonic()
            self._write(granted(container, found.began or time.time()))
        if any(not container.id for container in self._containers):
            self._tell_waiting()

    def _look_at_rm(self) -> bool:
        """See what the ResourceManager counts as the job's; whether the job is over."""
        over = [c for c in self._containers if c.over and not c.released]
        if not over and time.monotonic() - self._looked_at_rm < _EVERY:
            return False
        self._looked_at_rm = time.monotonic()
        try:
            self._teardown.report = self._rm.application(self._allocator.app_id)
            final = self._teardown.report["state"] in FINAL
            listed = [] if final else self._rm.containers(self._allocator.app_id)
        except ClusterError:  # it is away for a while: the job goes on
            return False
        held = {container["containerId"] for container in listed}
        now = Moment.now()
        left = [c for c in self._containers if not c.released]
        gone = [c for c in left if final or self._is_gone(c, held)]
        if len(gone) == len(left):
            self._allocator.end_beside()
        for container in gone:
            container.released = True
            self._write(*self._teardown.settle(container, now))
        if not all(container.released for container in self._containers):
            return False
        ends = self._teardown.ends(self._containers, self._status)
        self._finish(*final_state(ends, cancelled=self._teardown.cancelled))
        self._teardown.keep_results(self._containers[0])
        return True

    def _is_gone(self, container: Container, held: set[str]) -> bool:
        """Return whether a container that the ResourceManager does not list has ended.

        One that was started anew lists none until their nodes have told it of them.
        """
        if not container.id or container.id in held or self._allocator.is_new(container.id):
            container.missed_at = None
            return False
        now = time.monotonic()
        container.missed_at = container.missed_at or now
        told = container.over or self._allocator.is_over(container.task)
        return told or now - container.missed_at > _MISSED

    def _heed_cancel(self) -> None:
        wanted = store.cancel_request(self._paths)
        if wanted is None:
            return
        running = [c for c in self._containers if c.id and not c.released]
        if self._cancel is None:
            self._cancel = wanted
            if self._teardown.cancelled is None:
                self._teardown.cancelled = CancelRequested(reason=wanted.reason)
                self._write(self._teardown.cancelled)
            self._kill_at = time.monotonic() + float(self._launch["grace"])
            for container in running:
                with suppress(ClusterError):
                    self._rm.signal(container.id)
        if running and self._kill_at and (wanted.kill or time.monotonic() >= self._kill_at):
            self._kill_at = time.monotonic() + _EVERY
            for container in running:
                with suppress(ClusterError):
                    self._rm.signal(container.id, "FORCEFUL_SHUTDOWN")
        if running and len(running) < len(self._containers):
            self._allocator.withdraw()

    def _tell_waiting(self) -> None:
        if time.monotonic() - self._told_waiting_at < _TELLING:
            return
        self._told_waiting_at = time.monotonic()
        try:
            ahead, reason = waiting_reason(
                self._rm, self._allocator.app_id or None, self._spec, ahead=self._allocator.ahead
            )
        except ClusterError as error:
            ahead, reason = 0, str(error)
        for note in filter(None, (self._allocator.note, self._allocator.gang.note)):
            reason = f"{reason} ({note})"
        if (self._status.ahead, self._status.waiting_reason) != (ahead, reason):
            self._write(Waiting(ahead=ahead, reason=reason))

    def _write(self, *events: Event) -> None:
        if events:
            self._journal.append(*events)
            self._status = fold(events, self._status)

    def _finish(self, state: JobState, reason: str) -> None:
        self._journal.append_last(Finished(state=state, reason=reason))
        self._services.logs.clear(self._paths.job_id)

    def _pause(self) -> float:
        if any(c.over and not c.released for c in self._containers):
            return _RELEASE
        if any(c.begins for c in self._containers):
            return _NEXT
        begun = all(container.started for container in self._containers)
        if self._is_early:
            # The first line is waited for by somebody.
            since = time.monotonic() - self._came_on_at
            launching = not any(container.started for container in self._containers)
            return max(_FIRST, _LAUNCH - since if launching else 0.0, self._gap)
        return max(_EASY if begun else _LIVELY, self._gap)

    @property
    def _gap(self) -> float:
        """Seconds between two turns at least: many jobs share a keeper."""
        return self._services.load * _EASY / 8

    @property
    def _is_early(self) -> bool:
        """Whether a container was given or began a moment ago, and has said nothing yet."""
        silent = any(c.id and not c.spoke and not c.released for c in self._containers)
        return silent and time.monotonic() - self._came_on_at < _EARLY
