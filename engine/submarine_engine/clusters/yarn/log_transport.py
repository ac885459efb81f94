"""How the logs of containers come here: found out once, the same for all jobs of a keeper.

From the nodes' own pages; where those cannot be reached, through HDFS; and when the application is
over, from log aggregation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from submarine_runtime.container import SHIP

from submarine_engine.clusters.log_mirror import STREAMS, LogsGoneError
from submarine_engine.clusters.yarn.log_format import (
    Stored,
    all_logs,
    application_of,
    stored_logs,
)
from submarine_engine.clusters.yarn.node_pages import NodeConnection, NodeLogs, NodeSource
from submarine_engine.errors import ClusterError, SubmarineError

if TYPE_CHECKING:
    import ssl

    from submarine_engine.clusters.log_mirror import LogSource
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Entry, Hdfs
    from submarine_engine.clusters.yarn.rest import ResourceManager


# Logs of running containers by way of HDFS, where the nodes' own pages cannot be reached.
#
# `submarine_runtime.ship` brings them there; its docstring says how they lie.


EVERY = 0.5
"""Seconds for which a listing is believed: the NameNode is everybody's."""

_OFFSET = 20
OVER = "@over"
"""Brought last: there is nothing more to come."""


class _Entry(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def folder(self) -> bool: ...


class Files(Protocol):
    """What is needed of HDFS, as `submarine_engine.clusters.yarn.hdfs.Hdfs` has it."""

    def list(self, folder: str) -> Sequence[_Entry]:
        """Return what lies in `folder`."""

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file at `path` from `offset` on."""


class _Segment(NamedTuple):
    begins: int
    size: int
    path: str


class HdfsSource:
    """The files of one container as it brings them to HDFS, as `LogMirror` takes them.

    Parameters
    ----------
    files
        The user's HDFS.
    folder
        Where the container brings them.
    container
        YARN's id of it.
    """

    live = False  # it lags: what is shorter here was not truncated

    def __init__(self, files: Files, folder: str, container: str) -> None:
        self.container = container
        self._files = files
        self._folder = folder.rstrip("/")
        self._segments: dict[str, list[_Segment]] = {}
        self._listed = float("-inf")
        self._over = False

    @property
    def complete(self) -> bool:
        """Whether the container has brought all that it will bring."""
        return self._over

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file, as it was `EVERY` seconds ago at most."""
        if time.monotonic() - self._listed >= EVERY:
            entries = self._files.list(self._folder)
            self._over = any(entry.path.endswith(f"/{OVER}") for entry in entries)
            self._segments = _by_name(entries)
            self._listed = time.monotonic()
        return {
            name: max(segment.begins + segment.size for segment in segments)
            for name, segments in self._segments.items()
        }

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file `name` from `offset` on.

        Raises
        ------
        LogsGoneError
            There is no such file.
        """
        if name not in self._segments:
            raise LogsGoneError(f"{name} of {self.container} is not in {self._folder}")
        for begins, size, path in self._segments[name]:
            if begins <= offset < begins + size:
                return self._files.read(path, offset - begins, min(limit, begins + size - offset))
        return b""

    def close(self) -> None:
        """Close nothing: the way to HDFS is others', too."""


def _by_name(entries: Iterable[_Entry]) -> dict[str, list[_Segment]]:
    found: dict[str, list[_Segment]] = {}
    for entry in entries:
        name, at, begins = entry.path.rpartition("/")[2].partition("@")
        if entry.folder or (at and not (len(begins) == _OFFSET and begins.isdecimal())):
            continue
        found.setdefault(name, []).append(_Segment(int(begins or 0), entry.size, entry.path))
    return found


class Channel(Enum):
    """The ways on which logs of running containers can come."""

    NODES = "from the nodes' own pages"
    HDFS = "by way of HDFS"
    AFTER = "after the end only, from log aggregation"


_ANSWER = 2.0  # seconds for each node that is tried: a job's start waits for it


class Choice(NamedTuple):
    """A way, and why it is this one, in words."""

    channel: Channel
    why: str


def choose_channel(
    nodes: Sequence[str],
    hdfs: Callable[[], bool],
    *,
    user: str | None = "",
    tls: ssl.SSLContext | None = None,
) -> Choice:
    """Find out on which way logs can come from here.

    Parameters
    ----------
    nodes
        Web addresses of running nodes; a few are tried.
    hdfs
        Tells whether HDFS answers here; asked only where no node does.
    user, tls
        As `NodeConnection` has them.
    """
    silent = ""
    for address in nodes[:3]:
        wrong = _wrong_with(address, user, tls)
        if not wrong:
            return Choice(Channel.NODES, f"{address} answers")
        silent = silent or wrong
    silent = silent or "no node runs"
    if hdfs():
        return Choice(Channel.HDFS, silent)
    return Choice(Channel.AFTER, f"{silent}; HDFS cannot be reached either")


def _wrong_with(address: str, user: str | None, tls: ssl.SSLContext | None) -> str:
    """Return why a node's pages cannot be used; empty where they can."""
    try:
        connection = NodeConnection(address, user=user, timeout=_ANSWER, tls=tls)
        status = connection.get("/ws/v1/node/info").status
        connection.close()
    except ClusterError as error:
        return f"{error.where or address}: {error.what}"
    return "" if status == 200 else f"node {address}: it answers HTTP {status}"  # noqa: PLR2004


# Logs of applications that are over, from where log aggregation keeps them.
#
# They are read by the ``yarn logs`` command, which knows each of the layouts and formats of the
# aggregated files, and the credentials. Its output is taken by ``-out``: what a JVM says of itself
# on its standard output cannot get between the bytes of a log there.


PATIENCE = 300.0
"""Seconds that the command has in all: it starts a JVM, and copies some 100 MB/s."""

LATE = 1200.0
"""Seconds after an application's end when its logs are looked for, whatever YARN says of them."""

_FINAL = ("FINISHED", "FAILED", "KILLED")
_ABSENT = re.compile(
    rb"Can not find any log file|Could not locate application logs|does not have any log files"
    rb"|Can not find the logs for|Log aggregation has not completed or is not enabled"
)
_LAST_WORDS = 500
_PLAN = "task.json"


class Aggregation(Enum):
    """What has become of an application's logs."""

    LIVE = "the application runs: its nodes have the logs"
    WAITING = "its nodes are still gathering the logs"
    KEPT = "gathered, and kept for as long as the cluster keeps them"
    OFF = "the cluster keeps no logs"


def aggregation(report: Mapping[str, Any] | None) -> Aggregation:
    """Tell what has become of the logs by the ResourceManager's report of the application.

    Parameters
    ----------
    report
        ``/ws/v1/cluster/apps/<id>``, its ``app``; None where the ResourceManager has forgotten it.
    """
    if report is None:
        return Aggregation.KEPT
    if report.get("state") not in _FINAL:
        return Aggregation.LIVE
    status = report.get("logAggregationStatus")
    if status == "DISABLED":
        return Aggregation.OFF
    # A restarted ResourceManager does not know what nodes told the one before.
    ended = report.get("finishedTime") or 0
    if status in ("NOT_START", "RUNNING") and time.time() - ended / 1000 < LATE:
        return Aggregation.WAITING
    return Aggregation.KEPT


class AggregatedSource:
    """The logs of one container as they were gathered, as `LogMirror` takes them.

    What the command wrote is removed by `close`.

    Parameters
    ----------
    container
        YARN's id of it.
    folder
        Where the command wrote.

    Raises
    ------
    LogsGoneError
        It wrote none.
    ClusterError
        What it wrote is not of the form of logs.
    """

    live = False
    complete = True

    def __init__(self, container: str, folder: Path) -> None:
        self.container = container
        self._folder = folder
        self._logs: dict[str, Stored] = stored_logs(folder, container)
        if not self._logs:
            raise _gone(container)

    def close(self) -> None:
        """Remove what the command wrote; nothing can be read any more."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file."""
        return {name: log.length for name, log in self._logs.items()}

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file `name` from `offset` on.

        Raises
        ------
        LogsGoneError
            It is not among what was gathered.
        """
        if name not in self._logs:
            raise LogsGoneError(f"{name} of {self.container} was not gathered")
        return self._logs[name].read(offset, limit)


def fetch_aggregated(  # noqa: PLR0913 - what the command takes
    container: str,
    *,
    hadoop: Path,
    scratch: Path,
    owner: str = "",
    names: Sequence[str] = STREAMS,
    patience: float = PATIENCE,
) -> AggregatedSource:
    """Fetch a container's logs out of what log aggregation keeps.

    Parameters
    ----------
    container
        YARN's id of it.
    hadoop
        The folder of Hadoop's configuration.
    scratch
        A folder with room for the logs; they lie in a folder of their own there.
    owner
        Whose application it is, where it is not the user's.
    names
        Which of its files.
    patience
        Seconds that the command has in all.

    Raises
    ------
    LogsGoneError
        They are not there: not gathered yet (ask `aggregation` before), or deleted by age.
    ClusterError
        The command cannot be run, fails, or takes longer than `patience` seconds.
    """
    words = ["logs", "-applicationId", application_of(container), "-containerId", container]
    command = [_program(), *words]
    folder = Path(tempfile.mkdtemp(prefix=".aggregated-", dir=scratch))
    command += ["-log_files", ",".join(names), "-out", str(folder / "logs")]
    command += ["-appOwner", owner] if owner else []
    try:
        _run(command, hadoop, patience, container)
        return AggregatedSource(container, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def gathered_tasks(app_id: str, *, hadoop: Path, scratch: Path) -> dict[str, str]:
    """Return the last container of each task of an application that is over, by task.

    Only log aggregation knows them then: each has its plan among its logs.

    Parameters
    ----------
    app_id
        The application's id.
    hadoop, scratch
        As `fetch_aggregated` has them.

    Raises
    ------
    ClusterError
        As `fetch_aggregated`.
    """
    folder = Path(tempfile.mkdtemp(prefix=".aggregated-", dir=scratch))
    try:
        words = ["logs", "-applicationId", app_id, "-log_files", _PLAN, "-out", str(folder)]
        _run([_program(), *words], hadoop, PATIENCE, app_id)
        found = {}
        for container, name, log in sorted(all_logs(folder), key=lambda one: one[0]):
            if name == _PLAN:
                with suppress(ValueError, KeyError, TypeError):
                    found[str(json.loads(log.read(0, log.length))["task"])] = container
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], hadoop: Path, patience: float, container: str) -> None:
    what = f"logs of {container}"
    environment = {**os.environ, "HADOOP_CONF_DIR": str(hadoop), "YARN_CONF_DIR": str(hadoop)}
    try:
        done = subprocess.run(  # noqa: S603 - a list of words, no shell
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patience,
            check=False,
        )
    except OSError as error:
        raise ClusterError(f"{what}: `{command[0]}` cannot be run: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"{what}: `yarn logs` took over {patience:g} s",
            fix="do the ResourceManager and HDFS answer? See `submarine doctor`",
        ) from error
    if _ABSENT.search(done.stdout):
        raise _gone(container)
    if done.returncode:
        words = done.stdout.decode("utf-8", "replace").strip()[-_LAST_WORDS:]
        raise ClusterError(f"{what}: `yarn logs` failed with {done.returncode}: {words}")


def _gone(container: str) -> LogsGoneError:
    return LogsGoneError(
        f"the cluster does not have the logs of {container}, or not any more",
        fix="how long it keeps them is its `yarn.log-aggregation.retain-seconds`",
    )


def _program() -> str:
    """Return the ``yarn`` command: of ``$HADOOP_YARN_HOME`` or ``$HADOOP_HOME``, or on the path."""
    for variable in ("HADOOP_YARN_HOME", "HADOOP_HOME"):
        if home := os.environ.get(variable):
            program = Path(home, "bin", "yarn")
            if os.access(program, os.X_OK):
                return str(program)
    found = shutil.which("yarn")
    if found is None:
        raise ClusterError(
            "logs of applications that are over are read by the `yarn` command, and there is none",
            fix="put Hadoop's `bin` folder on the PATH",
        )
    return found


# On which way the logs of a keeper's containers come: found out once, the same for all.


_AGAIN = 60.0  # seconds: what hinders the best way is seldom gone sooner, and a look costs requests
_LOGS = ".submarine/logs"


class LogTransport:
    """Gives the logs of containers, on the way that works from here.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    rm
        The ResourceManager: it tells which nodes there are.
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
        """Return what the containers of the job `job_id` have to know, as environment variables.

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
        """Return the logs of a container of the job.

        Parameters
        ----------
        job_id
            The job's id.
        container
            Its id.
        node
            The address of its node's pages.
        """
        if self.choice().channel is Channel.HDFS:
            return HdfsSource(_Files(self._files), f"{_LOGS}/{job_id}/{container}", container)
        if self.choice().channel is Channel.AFTER:
            return NoSource(container)
        logs = NodeLogs(node, user=self._conf.web_user, tls=self._conf.node_tls)
        return NodeSource(logs, container)

    def shipped(self, job_id: str, container: str) -> dict[str, int]:
        """Return what `container` of the job `job_id` has brought to HDFS so far: sizes by name.

        Raises
        ------
        ClusterError
            HDFS does not answer.
        """
        hdfs = self._files()
        found = hdfs.list(f"{hdfs.home}/{_LOGS}/{job_id}/{container}")
        return {entry.path.rpartition("/")[2]: entry.size for entry in found}

    def clear(self, job_id: str) -> None:
        """Remove from HDFS what the job `job_id`, which is over, has brought there: all is home."""
        if self._choice is not None and self._choice.channel is Channel.HDFS:
            with suppress(SubmarineError):
                hdfs = self._files()
                hdfs.remove(f"{hdfs.home}/{_LOGS}/{job_id}")

    def forget(self, job_id: str, container: str, names: Iterable[str]) -> None:
        """Remove from HDFS files that a container has brought there, once they are home.

        Parameters
        ----------
        job_id
            The job's id.
        container
            Its id.
        names
            Which files.
        """
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
        if not self._conf.nodes_show_logs:
            # Nor could they gather them: that, too, reads a log as its owner's alone.
            why = "the nodes show logs to the user alone whom they run as"
            if self._hdfs() is not None:
                return Choice(Channel.HDFS, why)
            return Choice(Channel.AFTER, f"{why}; HDFS does not answer")
        return choose_channel(
            running,
            lambda: self._hdfs() is not None,
            user=self._conf.web_user,
            tls=self._conf.node_tls,
        )

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
    complete = True

    def __init__(self, container: str) -> None:
        self.container = container

    def sizes(self) -> Mapping[str, int]:
        """Return that there is nothing yet."""
        return {}

    def read(self, name: str, offset: int, limit: int) -> bytes:  # noqa: ARG002 - as sources have it
        """Read nothing.

        Parameters
        ----------
        name, offset, limit
            As `LogSource.read` has them.

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
