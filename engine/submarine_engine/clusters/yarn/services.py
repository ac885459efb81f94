"""What all jobs of a keeper share: ways to the cluster, and the order in which jobs came."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submarine_engine.clusters.yarn.driver import Driver, KeeperFolder
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.hdfs import Hdfs, open_hdfs
from submarine_engine.clusters.yarn.log_transport import LogTransport
from submarine_engine.clusters.yarn.masters import Masters, Session
from submarine_engine.clusters.yarn.rest import ResourceManager


class Services:
    """What all jobs of a keeper share.

    Parameters
    ----------
    home
        Where all jobs are kept.
    conf
        The cluster's configuration.
    idle
        Seconds after which a warm master without jobs ends.
    lease
        Seconds that a job waits on after its notebook has died.
    logs
        The setting ``yarn_logs``.
    """

    def __init__(
        self,
        home: Path,
        conf: HadoopConf,
        *,
        idle: float,
        lease: float = 30.0,
        logs: str = "auto",
    ) -> None:
        self.conf = conf
        self._lease = lease
        self.folder = KeeperFolder(home, conf)
        self.rm = ResourceManager(conf)
        self.driver = Driver(self.folder)
        self.masters = Masters(self.folder, self.driver, self.rm, idle)
        self.logs = LogTransport(conf, self.rm, lambda: self.hdfs, logs)
        self.submit_queue = SubmitQueue()
        self.load = 0
        self._gone: dict[str, float] = {}
        self._hdfs: Hdfs | None = None
        self._hdfs_lock = threading.Lock()

    @property
    def hdfs(self) -> Hdfs | None:
        """The way to HDFS; None where there is none, or WebHDFS does not answer."""
        with self._hdfs_lock:
            if self._hdfs is None:
                self._hdfs = open_hdfs(self.conf)
            return self._hdfs

    def session(self, launch: Mapping[str, Any]) -> Session | None:
        """Return whose job it is; None where it depends on no process."""
        session = launch.get("session")
        return (int(session[0]), int(session[1])) if session else None

    def lease_is_over(self, job_id: str) -> bool:
        """Return whether the job's notebook is gone too long, as of the first call."""
        now = time.monotonic()
        return now - self._gone.setdefault(job_id, now) > self._lease


# The order in which jobs came: those of one master ask it in that order.


class SubmitQueue:
    """Jobs that have not asked for their containers yet, first come first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, str | None] = {}

    def join(self, job_id: str) -> None:
        """Put a job at the end; nothing where it stands in the line already."""
        with self._lock:
            self._keys.setdefault(job_id, None)

    def name(self, job_id: str, key: str) -> None:
        """Tell which master the job will ask; until then it holds up all that came later."""
        with self._lock:
            if job_id in self._keys:
                self._keys[job_id] = key

    def is_turn(self, job_id: str) -> bool:
        """Return whether no job that came earlier is still to ask the same master."""
        with self._lock:
            mine = self._keys.get(job_id)
            for other, key in self._keys.items():
                if other == job_id:
                    return True
                if key is None or key == mine:
                    return False
            return True

    def before(self, job_id: str) -> int:
        """Return how many jobs that came earlier are still to ask the same master."""
        with self._lock:
            mine, count = self._keys.get(job_id), 0
            for other, key in self._keys.items():
                if other == job_id:
                    return count
                count += key == mine
            return 0

    def leave(self, job_id: str) -> None:
        """Take a job out: it has asked, or never will. Nothing where it is not in the line."""
        with self._lock:
            self._keys.pop(job_id, None)
