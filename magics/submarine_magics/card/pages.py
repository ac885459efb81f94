"""The log pages of jobs on this machine: a small web server in the notebook's process.

It listens on the loopback interface only, answers only to its own address (a foreign page that had
its name rebound to 127.0.0.1 sends another ``Host``), and only below a path that nobody can guess.
Everything it shows is read from the jobs' records; it ends with the process.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths

from submarine_magics.card.answers import Handler
from submarine_magics.card.record import stored_spec

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.future import Job

_STREAMS = ("stdout", "stderr")
_servers: dict[tuple[int, Path, str], LogPages] = {}
_starting = threading.Lock()


class LogPages(ThreadingHTTPServer):
    """Serves the log pages of the jobs of one cluster; starts at once.

    Parameters
    ----------
    cluster
        Asked for the status of jobs, and to cancel them.
    home
        Where the jobs' records are.
    """

    daemon_threads = True

    def __init__(self, cluster: Cluster, home: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.token = secrets.token_urlsafe(24)
        self._cluster = cluster
        self._home = home
        threading.Thread(target=self.serve_forever, name="submarine-logs", daemon=True).start()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The ``Host`` headers that requests may carry."""
        return tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    def knows(self, token: str) -> bool:
        """Return whether `token` is the one of this server's addresses."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def url(self, job_id: str) -> str:
        """Return the address of a job's log page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/jobs/{job_id}/"

    def state(self, job_id: str) -> dict[str, Any]:
        """Return what the page shows besides the text: name, state, and the logs with their sizes.

        Raises
        ------
        JobNotFoundError, JobError
            The job is not on record, or cannot be read.
        """
        paths = JobPaths(self._home, job_id)
        status = self._cluster.status(job_id)
        logs = [(task.task, stream) for task in status.tasks for stream in _STREAMS]
        return {
            "job_id": job_id,
            "name": stored_spec(paths).name,
            "state": status.state.value,
            "cancelling": status.cancelling,
            "final": status.state.final,
            "folder": str(paths.root),
            "logs": [
                {"task": task, "stream": stream, "size": self._size(job_id, task, stream)}
                for task, stream in logs
            ],
        }

    def log_path(self, job_id: str, task: str, stream: str) -> Path:
        """Return the file of a log.

        Raises
        ------
        JobNotFoundError, ValueError
            These words name no log.
        """
        return JobPaths(self._home, job_id).task(task).log(stream)

    def cancel(self, job_id: str) -> None:
        """Cancel a job; raises as `Cluster.cancel` does."""
        self._cluster.cancel(job_id, "cancelled on its card")

    def _size(self, job_id: str, task: str, stream: str) -> int:
        try:
            return self.log_path(job_id, task, stream).lstat().st_size
        except FileNotFoundError:
            return 0


def log_page(job: Job) -> str | None:
    """Return the address of a page with the log of `job`: the cluster's, else one served here.

    None where there is neither: the job's record is not on this machine, or the cluster or this
    machine's network does not answer.
    """
    try:
        return job.cluster.log_url(job.id) or _own_page(job)
    except (OSError, SubmarineError):
        return None


def cancel_url(job: Job) -> str:
    """Return where a POST cancels `job`, on this machine; empty where nowhere."""
    try:
        page = _own_page(job)
    except (OSError, SubmarineError):
        return ""
    return f"{page}cancel" if page else ""


def _own_page(job: Job) -> str | None:
    home = getattr(job.cluster, "home", None)
    if home is None:
        return None
    with _starting:
        # A forked child has the server's socket, but not its thread. Clusters share a home, and
        # only its own one knows what becomes of a job.
        key = (os.getpid(), home, job.cluster.name)
        if key not in _servers:
            _servers[key] = LogPages(job.cluster, home)
        return _servers[key].url(job.id)
