"""What all jobs of a keeper share: the ways to the cluster."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_engine.clusters.backend import SubmitQueue
from submarine_engine.clusters.machine import Session, session_of
from submarine_engine.clusters.yarn.driver import Driver, KeeperFolder
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.hdfs import Hdfs, open_hdfs
from submarine_engine.clusters.yarn.log_transport import LogTransport
from submarine_engine.clusters.yarn.masters import Masters
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import SubmarineError


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
    logs
        The setting ``yarn_logs``.
    submit_queue
        The order in which jobs came: those of one master ask it in that order.
    """

    def __init__(
        self,
        home: Path,
        conf: HadoopConf,
        *,
        idle: float,
        logs: str,
        submit_queue: SubmitQueue,
    ) -> None:
        self.conf = conf
        self.folder = KeeperFolder(home, conf)
        self.key = self.folder.read_key()
        self.rm = ResourceManager(conf)
        self.driver = Driver(self.folder)
        self.logs = LogTransport(conf, self.rm, lambda: self.hdfs, logs)
        self.submit_queue = submit_queue
        self._hdfs: Hdfs | None = None
        self._hdfs_lock = threading.Lock()
        self._opening = threading.Lock()
        self.masters = Masters(self.folder, self.driver, self.rm, idle, self._token_life)

    def _token_life(self) -> float:
        """Return for how many seconds an application's tokens for HDFS count; infinite if always.

        Theirs and the keeper's are of one kind, and HDFS says of one token alone when it ends.
        """
        if not self.conf.kerberos:
            return math.inf
        with suppress(SubmarineError):  # no ticket, or HDFS is away: nothing new would begin
            if (hdfs := self.hdfs) is not None:
                return hdfs.token_life
        return math.inf

    @property
    def hdfs(self) -> Hdfs | None:
        """The way to HDFS; None where there is none, or WebHDFS does not answer."""
        with self._hdfs_lock:
            if self._hdfs is None:
                self._hdfs = open_hdfs(self.conf)
            return self._hdfs

    @property
    def hdfs_at_once(self) -> Hdfs | None:
        """The same without a wait: None, too, while it is not open yet, which somebody sees to."""
        if self._hdfs is None and self._opening.acquire(blocking=False):
            try:
                threading.Thread(target=self._open, daemon=True).start()
            except RuntimeError:  # no more threads: who asks next tries it
                self._opening.release()
        return self._hdfs

    def _open(self) -> None:
        try:
            with suppress(SubmarineError):  # who cannot go on without it is told
                _ = self.hdfs
        finally:
            self._opening.release()

    def session(self, launch: Mapping[str, Any]) -> Session | None:
        """Return whose job it is; None where it depends on no process.

        Parameters
        ----------
        launch
            The content of ``launch.json``.
        """
        return session_of(launch)
