"""One job asked of YARN: by an application, followed by the ResourceManager's and nodes' pages.

Where a node shows a container no more, log aggregation has what it wrote (`recover_logs`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.delegation import TOKEN
from submarine_runtime.sealing import seal

from submarine_engine import kerberos
from submarine_engine.clusters.backend import AllocatedByTask, Counted, KeptJob, Request
from submarine_engine.clusters.log_mirror import LogsGoneError, LogSource
from submarine_engine.clusters.store import add_warning
from submarine_engine.clusters.yarn.allocator import blind, open_allocator, room_for
from submarine_engine.clusters.yarn.hadoop_json import at, number
from submarine_engine.clusters.yarn.log_transport import (
    OVER,
    Aggregation,
    NoSource,
    aggregation,
    fetch_aggregated,
)
from submarine_engine.clusters.yarn.masters import FINAL, over_words
from submarine_engine.clusters.yarn.node_pages import NodeConnection
from submarine_engine.clusters.yarn.scheduler import read_nodes, read_scheduler, waiting_reason
from submarine_engine.clusters.yarn.uploads import keep_results
from submarine_engine.errors import ClusterError, KerberosError, SubmarineError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import Allocated
    from submarine_engine.clusters.container import Container
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.tasks import TaskRun
    from submarine_engine.clusters.yarn.services import Services
    from submarine_engine.history import TaskPaths


_LAST_WORDS = 15.0  # seconds: why it ended comes with its node's report, late where that is busy
_LAST_WORDS_EVERY = 0.05  # seconds: the job's end waits for it, and mostly the first look has it
_TICKET_INTERVAL = 1.0  # seconds: a person types ``kinit``; a look reads the ticket's cache here
_ACCESS_INTERVAL = 5.0
"""Seconds; a token has a quarter of its life left when there is another one."""
_ENDING = ("RUNNING", "KILLING")
"""Of a node's container that it was told to end: it runs until that is heard, and for the grace."""


class YarnRequest(Request):
    """A job on YARN.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    """

    def __init__(self, services: Services, job: KeptJob) -> None:
        self._services = services
        self._rm = services.rm
        self._job = job
        self._allocator = open_allocator(services, job.paths, job.spec, job.launch, job.attempt)
        self.ends_with_job = self._allocator.ends_with_job
        self._report: dict[str, Any] = {}  # the last that the manager said of the application
        # Of an application that others share, as many as it had before this attempt.
        self._preempted_before: int | None = 0 if self.ends_with_job else None
        self._withdrawn = False
        self._has_told_of_ticket = False
        self._access: dict[str, str] = {}  # the token that each task was told of last
        self._access_at = 0.0

    @property
    def begun(self) -> bool:
        """Whether YARN may know of the job."""
        return self._allocator.begun

    @property
    def master(self) -> tuple[float, float] | None:
        """When the application's master was asked for, and when it ran."""
        return self._allocator.master

    def ask(self) -> AllocatedByTask | None:
        """Ask for the job's containers by its application."""
        # Of a pool's worker nothing would be known before it is over.
        if self._job.spec.parent and not self.begun and (why := blind(self._services)):
            raise ClusterError(
                f"the calls of a map, an Executor or a sweep cannot be followed here: {why}",
                fix="let its nodes' pages or WebHDFS be reached from here (submarine doctor"
                " --cluster yarn), or submit() each call as a job",
            )
        return self._allocator.ask()

    def count(self) -> Counted:
        """Return what the ResourceManager counts as the application's.

        Who has no ticket hears nothing, and so not that the job is over.
        """
        try:
            self._report = self._rm.application(self._allocator.app_id)
        except KerberosError as wrong:
            self._tell_of_ticket(wrong)
            raise
        if self._preempted_before is None:
            self._preempted_before = _preempted(self._report)
        over = self._report["state"] in FINAL
        listed = [] if over else self._rm.containers(self._allocator.app_id)
        return Counted({container["containerId"] for container in listed}, over=over)

    def signal(self, container: str, *, kill: bool) -> None:
        """Let the container's node send it a signal."""
        self._rm.signal(container, "FORCEFUL_SHUTDOWN" if kill else "GRACEFUL_SHUTDOWN")

    def withdraw(self) -> None:
        """End the job's application, or its containers in one that goes on."""
        self._withdrawn = True
        self._allocator.withdraw()

    def source(self, container: Allocated) -> LogSource:
        """Return the files of a container on the way that is open."""
        if not container.node:
            return NoSource(container.id)
        logs = self._services.logs
        return logs.source(self._job.paths.job_id, container.id, container.node)

    def waiting(self) -> tuple[int, str]:
        """Return what the scheduler says that the job waits for."""
        allocator = self._allocator
        ahead, reason = waiting_reason(
            self._rm, allocator.app_id or None, self._job.spec.smallest, ahead=allocator.ahead
        )
        notes = filter(None, (allocator.note, allocator.gang.note))
        return ahead, " ".join([reason, *(f"({note})" for note in notes)])

    def room(self) -> int:
        """Return how many workers more would fit into what no job waits for."""
        if self._others_wait():
            return 0
        scheduler = read_scheduler(self._rm.get("/ws/v1/cluster/scheduler"))
        return room_for(self._job.spec, read_nodes(self._rm.get("/ws/v1/cluster/nodes")), scheduler)

    def _others_wait(self) -> bool:
        """Return whether another job of this home waits: one of several tasks asks YARN late."""
        folder, mine = self._services.folder, self._job.paths.job_id
        for job_id in folder.open_jobs():
            with suppress(OSError, ValueError, KeyError, TypeError):
                told = read_json(JobPaths(folder.home, job_id).status) or {}
                if job_id != mine and JobState(told["state"]) is JobState.QUEUED:
                    return True
        return False

    def is_fresh(self, container: str) -> bool:
        """Return whether the ResourceManager need not know the container yet."""
        return self._allocator.is_new(container)

    def is_over(self, task: str) -> bool:
        """Return whether the application's master was told that a container has ended.

        Of one that is preempted it is told at once; its node has yet to end it, and gives it a
        grace, in which it writes its last checkpoint and log.
        """
        if not self._allocator.is_over(task):
            return False
        return not (self._allocator.is_preempted(task) and self._ends_still(task))

    def _ends_still(self, task: str) -> bool:
        found = self._allocator.container(task)
        if found is None or not found.node:
            return False
        told = _ask_node(self._services, found.node, f"/ws/v1/node/containers/{found.id}")
        return str(at(told, "container", "state")) in _ENDING

    @property
    def stopped(self) -> str:
        """Who killed the job's application, by YARN's own command or page, as YARN says it."""
        killed = self._report.get("state") == "KILLED" and not self._withdrawn
        return f"somebody ended it in YARN: {over_words(self._report)}" if killed else ""

    def is_lost(self, container: TaskRun, *, wanted: bool) -> bool:
        """Return whether YARN ended a container: preempted, or gone with its node or its master.

        No exit status tells that: skein passes none on, and a node forgets a container in the
        moment in which it is over. Nor does a SIGTERM, since YARN ends what uses too much memory by
        one, too. But the scheduler's words of what it has preempted come by the master, and where
        that is gone, the manager counts them; it knows its nodes; and it says FAILED of an
        application whose master died, FINISHED of one whose containers failed.
        """
        if self._allocator.is_preempted(container.task):
            return True
        with suppress(ClusterError):
            self._report = self._rm.application(self._allocator.app_id)
            unsaid = not self._allocator.words(container.task)
            if unsaid and self._counts_preempted:
                return True
            if self._report["state"] == "FAILED" and not wanted:
                return True
            if container.node and _is_lost(self._services, container.node):
                return True
            return _has_forgotten(self._services, container)
        return False

    @property
    def _counts_preempted(self) -> bool:
        return _preempted(self._report) > (self._preempted_before or 0)

    def words(self, task: str, *, patient: bool) -> str:
        """Return what YARN says of a container's end; it ends before it is said why."""
        until = time.monotonic() + _LAST_WORDS
        while not (said := self._allocator.words(task)):
            if self._report.get("state") in FINAL:
                words = over_words(self._report)
                # The first container that is gone takes the application with it, and its words.
                return f"a container was preempted: {words}" if self._counts_preempted else words
            if not patient or time.monotonic() > until:
                break
            time.sleep(_LAST_WORDS_EVERY)
            with suppress(ClusterError):
                self._report = self._rm.application(self._allocator.app_id)
        return said

    def recover(self, container: Container) -> None:
        """Bring home what log aggregation has of a container, or HDFS where that may read none.

        Where the user's ticket has expired, that waits for the next one: the task has ended, and
        how, nobody can be asked before.
        """
        self._await_ticket()
        if not self._services.conf.nodes_show_logs:
            recover_shipped(self._services, self._job.paths.job_id, container)
            return
        found = recover_logs(self._services, self._allocator.app_id, container)
        self._report = found or self._report

    def _await_ticket(self) -> None:
        while self._services.conf.kerberos and (wrong := kerberos.ticket_problem()) is not None:
            self._tell_of_ticket(wrong)
            time.sleep(_TICKET_INTERVAL)

    def _tell_of_ticket(self, wrong: KerberosError) -> None:
        if not self._has_told_of_ticket:
            self._has_told_of_ticket = True
            self._warn(f"the job runs on; its log and its end wait for a ticket: {wrong}")

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages to tasks, and theirs back, by the application's master."""
        return self._allocator.exchange(messages)

    def renew_access(self, tasks: Collection[str]) -> None:
        """Tell tasks of the token by which they ask HDFS, where that is another one by now.

        And what runs beside them.
        """
        now = time.monotonic()
        if not self._services.conf.kerberos or now < self._access_at:
            return
        self._access_at = now + _ACCESS_INTERVAL
        # Neither waits for HDFS: the log and the end of the job come without it.
        hdfs = self._services.hdfs_at_once
        token = hdfs.delegation_token(wait=False) if hdfs is not None else ""
        # What a keeper before this one has told them, nobody knows: they are told once more.
        all_ = [*tasks, *self._allocator.sidecars()]
        late = [task for task in all_ if self._access.get(task, self._allocator.token) != token]
        if hdfs is not None and late:
            # The master shows on a page of its own what its store has.
            told = seal(hdfs.token_message(token), self._services.key)
            self.exchange({task: {TOKEN: told} for task in late})
            self._access |= dict.fromkeys(late, token)

    def end_sidecars(self) -> None:
        """End the TensorBoard beside the job."""
        self._allocator.end_sidecars()

    def keep(self, task: TaskPaths) -> None:
        """Copy the results to HDFS, where they outlive this machine."""
        if not (task.results.is_dir() and any(task.results.iterdir())):
            return
        try:
            if (hdfs := self._services.hdfs) is not None:
                keep_results(hdfs, self._job.paths.job_id, task.root)
                return
            why = "it does not answer"
        except (SubmarineError, OSError) as error:
            why = error.what if isinstance(error, SubmarineError) else str(error)
        if self._services.conf.default_fs.startswith("hdfs:"):
            self._warn(f"the results are not kept on HDFS, only in {task.root}: {why}")

    def forget(self) -> None:
        """Remove what the job's containers have brought to HDFS."""
        self._services.logs.clear(self._job.paths.job_id)
        self._allocator.forget()

    def close(self) -> None:
        """Let go of the application."""
        self._allocator.close()

    def _warn(self, text: str) -> None:
        sys.stderr.write(f"{self._job.paths.job_id}: {text}\n")  # the keeper's log
        with suppress(OSError):
            add_warning(self._job.paths, text)


def _preempted(report: Mapping[str, Any]) -> int:
    """Return how many containers of an application, its master aside, have been preempted."""
    return int(number(report.get("numNonAMContainerPreempted")))


# Logs and results of a container whose node shows them no more: from log aggregation.


_PATIENCE = 60.0  # seconds: nodes gather logs once an application has ended, the large ones slowly
_RECOVERY_INTERVAL = 0.5  # seconds: each is a question to the ResourceManager, and to a node
_MISSES = 10  # looks at a lost node, five seconds of them: one that only restarts is back by then
_NEVER = 4
"""Looks at a node that answers: one is a moment behind what the ResourceManager has heard of it."""

_NODE = 2.0  # seconds for a node's answer: it is asked again, and a dead one gives none
_LARGEST = 1 << 20


def recover_logs(services: Services, app_id: str, container: Container) -> dict[str, Any] | None:
    """Bring home what log aggregation has of a container; the application's last report.

    Waits for an application that is ending, and for its logs to be gathered. A log that nobody has
    any more is left as it is, and one that was never begun is not waited for.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    app_id
        The application's id.
    container
        The task.
    """
    until = time.monotonic() + _PATIENCE
    report: dict[str, Any] | None = None
    missed = never = 0
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
            never = never + 1 if not (over or lost) and _never_began(container) else 0
            if never >= _NEVER or (not over and not never and _drained(container)):
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


def recover_shipped(services: Services, job_id: str, container: Container) -> None:
    """Bring home what a container still brings to HDFS, for as long as more comes.

    Where nodes show logs to the containers' user alone, nobody else has them.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    job_id
        The job's id.
    container
        The task.
    """
    shipped: dict[str, int] | None = None
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(ClusterError):
            before, shipped = shipped, services.logs.shipped(job_id, container.id)
            if _drained(container) or OVER in shipped:
                return
            if shipped != before:
                until = time.monotonic() + _PATIENCE
        time.sleep(_RECOVERY_INTERVAL)


def _drained(container: Container) -> bool:
    with suppress(ClusterError):
        return container.drain()
    return False


def _never_began(container: Container) -> bool:
    """Return whether its node, which answers, has nothing that a container writes as it begins.

    One that is killed between being given and its first word leaves no log, in an application that
    may live on for hours.
    """
    with suppress(ClusterError):
        return container.is_blank
    return False


def _has_forgotten(services: Services, container: TaskRun) -> bool:
    """Return whether the node has begun anew since the container began.

    One that restarts without recovery knows nothing of its containers, and so of their logs.
    """
    if container.started is None or not container.node:
        return False
    told = _ask_node(services, container.node, "/ws/v1/node/info")
    return number(at(told, "nodeInfo", "nmStartupTime")) / 1000 > container.started.wall


def _ask_node(services: Services, address: str, path: str) -> Any:  # noqa: ANN401 - as JSON has it
    """Return what a node answers; None where it does not, or answers nonsense."""
    conf = services.conf
    connection = NodeConnection(address, user=conf.web_user, timeout=_NODE, tls=conf.node_tls)
    try:
        connection.get(path)
        return json.loads(connection.body(_LARGEST))
    except (ClusterError, ValueError):
        return None
    finally:
        connection.close()


def _is_lost(services: Services, address: str) -> bool:
    """Return whether the ResourceManager counts on no node of that address."""
    return address not in (node.get("nodeHTTPAddress") for node in services.rm.nodes())
