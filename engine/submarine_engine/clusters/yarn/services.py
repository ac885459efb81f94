"""What all jobs of a keeper share: ways to the cluster, and the order in which jobs came."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submarine_engine.clusters.backend import SubmitQueue
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
