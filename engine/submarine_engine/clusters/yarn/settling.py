"""What containers leave when they end: brought home, and put into words."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.ending import Ending, judge, read_outcome, returned_event
from submarine_engine.clusters.warned import add_warning
from submarine_engine.clusters.yarn.container import Container
from submarine_engine.clusters.yarn.master import FINAL, over_words
from submarine_engine.clusters.yarn.rescue import rescue
from submarine_engine.clusters.yarn.uploads import keep_results
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.events import CancelRequested, Event, Exited, Moment, Released
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, TaskEnd, TaskStatus

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.keeper import Services
    from submarine_engine.clusters.yarn.way import Way

_BETWEEN = 0.05
_LAST_WORDS = 15.0


class Settling:
    """How the containers of one job ended.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    """

    def __init__(self, services: Services, paths: JobPaths, way: Way) -> None:
        self._services = services
        self._paths = paths
        self._way = way
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
            self.report = rescue(self._services, self._way.app_id, container) or self.report
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
        while not (said := self._way.words(container.task)):
            if self.report.get("state") in FINAL:
                return over_words(self.report)
            if not ending.interrupted or self.cancelled or time.monotonic() > until:
                break
            time.sleep(_BETWEEN)
            with suppress(ClusterError):
                self.report = self._services.rm.application(self._way.app_id)
        return said

    def _judge(self, container: Container, ending: Ending) -> tuple[JobState, str]:
        state, reason = judge(ending, self._paths.root, oom_killed=False)
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
