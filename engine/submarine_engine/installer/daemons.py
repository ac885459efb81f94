"""The daemons of a cluster: what each is, starting it, ending it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from submarine_engine.errors import ClusterError
from submarine_engine.installer.layout import Layout
from submarine_engine.installer.plan import Plan
from submarine_engine.installer.processes import end_daemon, find_daemons, marks
from submarine_engine.installer.programs import quick_flags

_YARN = "org.apache.hadoop.yarn.server"
_HDFS = "org.apache.hadoop.hdfs.server"
_CLASSES = {
    "resourcemanager": f"{_YARN}.resourcemanager.ResourceManager",
    "nodemanager": f"{_YARN}.nodemanager.NodeManager",
    "namenode": f"{_HDFS}.namenode.NameNode",
    "datanode": f"{_HDFS}.datanode.DataNode",
}
_HEAP = {"resourcemanager": 400, "nodemanager": 400, "namenode": 256, "datanode": 256}
# What a daemon, and through it a container, gets of the environment: that of a real cluster's.
_KEPT = re.compile(r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_TOLD = 3
_TAIL = 1 << 16

FORMATTER = "namenode-formatter"
"""The NameNode while it makes the file system."""


class Daemon:
    """One daemon of a cluster.

    Parameters
    ----------
    name
        ``resourcemanager``, ``namenode``, ``datanode`` or ``nodemanager-N``.
    """

    def __init__(self, name: str, plan: Plan, layout: Layout) -> None:
        self.name = name
        self.log = layout.log(name)
        self._plan = plan
        self._layout = layout

    def __repr__(self) -> str:
        return f"<Daemon {self.name} of {self._layout.root}>"

    @property
    def pid(self) -> int | None:
        """Its process; None where it does not run."""
        return find_daemons(self._layout).get(self.name)

    @property
    def web(self) -> str:
        """The address of its pages."""
        plan = self._plan
        _, _, number = self.name.partition("-")
        if number:
            return plan.node_web(int(number))
        webs = {
            "resourcemanager": plan.rm_web,
            "namenode": plan.namenode_web,
            "datanode": plan.datanode_web,
        }
        return webs[self.name]

    def start(self) -> None:
        """Start it where it does not run; returns at once, see `HadoopCluster.wait_ready`."""
        if self.pid is None:
            self.run()

    def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; kill it after half a minute."""
        if not end_daemon(self._layout, self.name, signal.SIGTERM):
            self.kill()

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait until it is gone."""
        end_daemon(self._layout, self.name)

    def run(self, *arguments: str, wait: bool = False) -> None:
        """Run its class with `arguments`, in a session of its own unless waited for.

        Raises
        ------
        ClusterError
            It was waited for, and failed.
        """
        kind, _, number = self.name.partition("-")
        layout, plan = self._layout, self._plan
        folders = [str(layout.conf), str(layout.web), f"{plan.jars}/*"]
        if number:
            folders.insert(0, str(layout.node_conf(int(number))))
        command = [
            str(plan.java.program),
            *quick_flags(_HEAP[kind]),
            *plan.java.flags(),
            f"-Djava.io.tmpdir={layout.tmp}",
            *marks(layout, FORMATTER if wait else self.name),
            "-cp",
            ":".join(folders),
            _CLASSES[kind],
            *arguments,
        ]
        # `setsid --fork` is gone at once, and init waits for the daemon, not this process.
        launcher = [] if wait else ["setsid", "--fork"]
        with open(self.log, "ab", opener=_private) as log:
            done = subprocess.run(  # noqa: S603 - our own program
                [*launcher, *command], env=daemon_environment(plan, layout), cwd=layout.tmp,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, umask=0o077, check=False,
            )  # fmt: skip
        if done.returncode:
            raise self.failure()

    def failure(self) -> ClusterError:
        """Return the error of a daemon that does not run, with the last words of its last life."""
        lines = _last_life(self.log)
        words = [
            line for line in lines if re.search(r" (?:ERROR|FATAL) |Exception: |Error: ", line)
        ]
        told = "\n".join(line[:300] for line in (words or lines)[-_TOLD:]) or "it said nothing"
        return ClusterError(
            f"the {self.name} has ended by itself:\n{told}",
            where=str(self.log),
            fix=f"see `submarine cluster logs {self.name}`; then `submarine cluster down`, and up",
        )


def daemon_names(plan: Plan) -> list[str]:
    """Return the names of a cluster's daemons, in the order of their start."""
    hdfs = ["namenode", "datanode"] if plan.hdfs else []
    return ["resourcemanager", *hdfs, *(f"nodemanager-{n}" for n in range(plan.nodes))]


def daemon_environment(plan: Plan, layout: Layout) -> dict[str, str]:
    """Return the environment that daemons run in."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return {**kept, **cluster_environment(plan, layout, kept)}


def cluster_environment(plan: Plan, layout: Layout, outer: Mapping[str, str]) -> dict[str, str]:
    """Return what programs need in order to find the cluster, above an `outer` environment."""
    here = str(layout.bin)
    path = [entry for entry in outer.get("PATH", "").split(":") if entry not in ("", here)]
    found = {
        "HADOOP_CONF_DIR": str(layout.conf),
        "JAVA_HOME": str(plan.java.home),
        "PATH": ":".join([here, *path]),
    }
    if any(name.lower() in _PROXIES and value for name, value in outer.items()):
        # gRPC, for one, would ask the proxy for loopback.
        direct = [outer.get("no_proxy") or outer.get("NO_PROXY") or "", "127.0.0.1", "localhost"]
        found["no_proxy"] = ",".join(filter(None, direct))
    return found


def _last_life(log: Path) -> list[str]:
    """Return what a daemon has written since its last start; the end of it where it is long."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:  # it was never started
        return []
    return text.rpartition("STARTUP_MSG: Starting")[2].splitlines()


def _private(path: str | Path, flags: int) -> int:
    return os.open(path, flags, 0o600)
