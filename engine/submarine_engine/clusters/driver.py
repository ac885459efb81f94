"""Jobs as folders: what is the same on every cluster that keeps its jobs on record.

The front ends' calls are answered from a job's folder alone; the cluster itself is only told that
somebody looked (`RecordedCluster.attend`), or that a job shall end (`RecordedCluster.ring`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.clusters import store
from submarine_engine.clusters.base import Batch, Cluster, Cursor
from submarine_engine.clusters.machine import reap
from submarine_engine.clusters.reader import read_batch
from submarine_engine.clusters.store import StatusCache, read_warnings
from submarine_engine.errors import JobError, JobNotFoundError
from submarine_engine.history import JobPaths, check_home, default_home
from submarine_engine.lifecycle import JobStatus


class RecordedCluster(Cluster):
    """A cluster whose jobs are folders under one home.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or default_home()
        self.statuses = StatusCache()

    @abstractmethod
    def attend(self, paths: JobPaths, status: JobStatus) -> bool:
        """See to it that somebody runs a job that is not over and tells nothing new.

        Called at each look, so it asks nobody far away.

        Parameters
        ----------
        paths
            The job's files.
        status
            The job as its events tell.

        Returns
        -------
        bool
            Whether its events may tell more now.

        Raises
        ------
        OSError
            The job's folder cannot be read or written.
        """

    @abstractmethod
    def ring(self, paths: JobPaths, reason: str) -> None:
        """Tell who runs the job that it shall end, as its folder says by now; do not wait.

        Parameters
        ----------
        paths
            The job's files.
        reason
            Why it shall end.
        """

    def read(self, job_id: str, cursor: Cursor, *, limit: int = 1 << 20) -> Batch:
        """Return at once what is new after `cursor`: at most `limit` bytes of logs.

        Raises
        ------
        JobNotFoundError
            There is no such job, or its folder was deleted.
        JobError
            `cursor` is no place in this job's stream.
        """
        with self.on_record(job_id) as paths:
            status = self.statuses.status(paths)
            tasks = [task.task for task in status.tasks]
            batch = read_batch(paths, tasks, cursor, limit)
            if not batch.items and not batch.ended and self.attend(paths, status):
                batch = read_batch(paths, tasks, cursor, limit)
            return batch

    def status(self, job_id: str) -> JobStatus:
        """Return the job as it stands; raises as `read` does."""
        with self.on_record(job_id) as paths:
            status = self.statuses.status(paths)
            if not status.state.final and self.attend(paths, status):
                status = self.statuses.status(paths)
            return status

    def cancel(self, job_id: str, reason: str = "") -> None:
        """Ask the job to end: SIGTERM, grace, SIGKILL. Returns at once; no-op when it is over."""
        self._ask_to_end(job_id, reason, kill=False)

    def kill(self, job_id: str) -> None:
        """End the job's processes at once (SIGKILL)."""
        self._ask_to_end(job_id, "killed", kill=True)

    def results(self, job_id: str) -> Path:
        """Return the folder of the job's first task."""
        with self.on_record(job_id) as paths:
            return paths.task(self.statuses.status(paths).tasks[0].task).root

    def warnings(self, job_id: str) -> list[str]:
        """Return what went wrong beside the job itself, as far as it is known now."""
        return read_warnings(JobPaths(self.home, job_id))

    def _ask_to_end(self, job_id: str, reason: str, *, kill: bool) -> None:
        with self.on_record(job_id) as paths:
            if self.statuses.status(paths).state.final:
                return
            # First on record: who takes the job over sees it there, whatever became of the ring.
            store.request_cancel(paths, reason, kill=kill)
            self.ring(paths, reason)

    @contextmanager
    def on_record(self, job_id: str) -> Iterator[JobPaths]:
        """Give a job's files, in a home that is ours; turn what goes wrong into our words.

        Parameters
        ----------
        job_id
            The job's id.

        Raises
        ------
        JobNotFoundError
            There is no such job, or its folder was deleted.
        JobError
            The folder cannot be used.
        ConfigError
            As `check_home`.
        """
        check_home(self.home)
        paths = JobPaths(self.home, job_id)
        reap()
        try:
            yield paths
        except OSError as error:
            if not paths.root.exists():
                raise JobNotFoundError(
                    f"the job is not on record: there is no folder {paths.root} (deleted?)",
                    job_id=job_id,
                    fix="see `submarine job list`",
                ) from error
            raise JobError(
                f"the job's folder cannot be used: {error}",
                job_id=job_id,
                fix=f"see whether {paths.root} is yours and its disk has room",
            ) from error
