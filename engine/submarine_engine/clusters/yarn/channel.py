"""On which way the logs of a keeper's containers come: found out once, the same for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from submarine_runtime.container import SHIP

from submarine_engine.clusters.yarn.hdfslogs import Channel, Choice, HdfsSource, choose_channel
from submarine_engine.clusters.yarn.logpage import LogsGoneError
from submarine_engine.clusters.yarn.nodelogs import NodeLogs, NodeSource
from submarine_engine.errors import ClusterError, SubmarineError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs
    from submarine_engine.clusters.yarn.hdfsentry import Entry
    from submarine_engine.clusters.yarn.mirrorlog import LogSource
    from submarine_engine.clusters.yarn.rest import ResourceManager

_AGAIN = 60.0
_LOGS = ".submarine/logs"


class LogChannel:
    """Gives the logs of containers, on the way that works from here.

    Parameters
    ----------
    hdfs
        Returns the user's HDFS; None where it does not answer.
    wanted
        ``auto``, or the way that the user wants: ``nodes``, ``hdfs`` or ``after``.
    """

    def __init__(
        self,
        conf: HadoopConf,
        rm: ResourceManager,
        hdfs: Callable[[], Hdfs | None],
        wanted: str = "auto",
    ) -> None:
        self._conf = conf
        self._rm = rm
        self._hdfs = hdfs
        self._wanted = wanted
        self._lock = Lock()
        self._choice: Choice | None = None
        self._chosen_at = 0.0

    def choice(self) -> Choice:
        """Return the way. Where it is not the best one, it is looked for again after a minute."""
        with self._lock:
            stale = time.monotonic() - self._chosen_at > _AGAIN
            best = self._choice is not None and self._choice.channel is Channel.NODES
            if self._choice is None or (stale and not best):
                try:
                    self._choice = self._choose()
                except ClusterError as error:  # the ResourceManager is away for a while
                    return self._choice or Choice(Channel.NODES, error.what)
                self._chosen_at = time.monotonic()
            return self._choice

    def variables(self, job_id: str) -> dict[str, str]:
        """Return what the job's containers have to know, as environment variables.

        Raises
        ------
        ClusterError, SubmissionError
            The logs have to come by way of HDFS, and it refuses.
        """
        if self.choice().channel is not Channel.HDFS:
            return {}
        hdfs = self._files()
        folder = f"{hdfs.home}/{_LOGS}/{job_id}"
        hdfs.make_folder(folder)
        return {SHIP: hdfs.url_for_container(folder)}

    def source(self, job_id: str, container: str, node: str) -> LogSource:
        """Return the logs of a container of the job."""
        if self.choice().channel is Channel.HDFS:
            return HdfsSource(_Files(self._files), f"{_LOGS}/{job_id}/{container}", container)
        if self.choice().channel is Channel.AFTER:
            return NoSource(container)
        return NodeSource(NodeLogs(node, user=self._conf.user), container)

    def clear(self, job_id: str) -> None:
        """Remove from HDFS what a job that is over has brought there; everything of it is home."""
        if self._choice is not None and self._choice.channel is Channel.HDFS:
            with suppress(SubmarineError):
                hdfs = self._files()
                hdfs.remove(f"{hdfs.home}/{_LOGS}/{job_id}")

    def forget(self, job_id: str, container: str, names: Iterable[str]) -> None:
        """Remove from HDFS files that a container has brought there, once they are home."""
        if self._choice is not None and self._choice.channel is Channel.HDFS:
            with suppress(SubmarineError):
                hdfs = self._files()
                for name in names:
                    hdfs.remove(f"{hdfs.home}/{_LOGS}/{job_id}/{container}/{name}")

    def _choose(self) -> Choice:
        if self._wanted in ("nodes", "hdfs", "after"):
            return Choice(Channel[self._wanted.upper()], "the setting `yarn_logs` says so")
        running = [
            str(node["nodeHTTPAddress"])
            for node in self._rm.nodes()
            if node.get("state") == "RUNNING" and node.get("nodeHTTPAddress")
        ]
        return choose_channel(running, lambda: self._hdfs() is not None, user=self._conf.user)

    def _files(self) -> Hdfs:
        hdfs = self._hdfs()
        if hdfs is None:
            raise ClusterError(
                "logs have to come by way of HDFS, and it does not answer",
                where=self._conf.default_fs,
                fix="see `submarine doctor --cluster yarn`",
            )
        return hdfs


class NoSource:
    """The logs of a container that nobody sees before its application is over."""

    live = False
    settled = True

    def __init__(self, container: str) -> None:
        self.container = container

    def sizes(self) -> Mapping[str, int]:
        """Return that there is nothing yet."""
        return {}

    def read(self, name: str, offset: int, limit: int) -> bytes:  # noqa: ARG002 - as sources have it
        """Read nothing.

        Raises
        ------
        LogsGoneError
            Always.
        """
        raise LogsGoneError(f"{name} of {self.container} cannot be seen from here yet")

    def close(self) -> None:
        """Close nothing."""


class _Files:
    """The user's home folder in HDFS, asked for when it is needed: HDFS may be away for a while."""

    def __init__(self, hdfs: Callable[[], Hdfs]) -> None:
        self._hdfs = hdfs

    def list(self, folder: str) -> list[Entry]:
        hdfs = self._hdfs()
        return hdfs.list(f"{hdfs.home}/{folder}")

    def read(self, path: str, offset: int, limit: int) -> bytes:
        return self._hdfs().read(path, offset, limit)
