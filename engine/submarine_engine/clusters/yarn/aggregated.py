"""Logs of applications that are over, from where log aggregation keeps them.

They are read by the ``yarn logs`` command, which knows each of the layouts and formats of the
aggregated files, and the credentials. Its output is taken by ``-out``: what a JVM says of itself
on its standard output cannot get between the bytes of a log there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from submarine_engine.clusters.yarn.logindex import Stored, stored_logs
from submarine_engine.clusters.yarn.logpage import LogsGoneError, application_of
from submarine_engine.clusters.yarn.mirrorlog import STREAMS
from submarine_engine.errors import ClusterError

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
    settled = True

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
        """Return at most `limit` bytes of a file from `offset` on.

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
