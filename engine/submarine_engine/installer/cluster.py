"""One cluster of one's own: up, status, down; one process at a time works on it."""

from __future__ import annotations

import fcntl
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import default_home, make_private
from submarine_engine.installer import realm, tls
from submarine_engine.installer.daemons import (
    Daemon,
    Starter,
    cluster_environment,
    daemon_names,
    end_containers,
    end_daemon,
    find_daemons,
    missing_parts,
)
from submarine_engine.installer.java import fetch_jars, find_java
from submarine_engine.installer.plan import (
    DEFAULT_NAME,
    ClusterPlan,
    Layout,
    Wanted,
    hold_block,
    read_plan,
)
from submarine_engine.installer.sites import remove_files, write_files

# One process at a time works on a cluster; the lock's file is gone with the cluster.


PATIENCE = 900.0  # seconds: who holds it may be fetching Hadoop by Maven, over a slow line

_NAP = 0.1  # seconds: daemons take ten to begin; looking ten times in one costs nothing


@contextmanager
def sole_process(path: Path, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock `path` for the time of a ``with``; whoever holds it may remove its file.

    Parameters
    ----------
    patience
        Seconds to wait for another holder, who may be fetching jars.

    Raises
    ------
    ClusterError
        Another still holds it.
    OSError
        The folder of `path` cannot be made or written.
    """
    make_private(path.parent)  # the home, too, where a cluster is the first that is in it
    end = time.monotonic() + patience
    while (descriptor := _take(path)) is None:
        if time.monotonic() > end:
            raise ClusterError(
                f"another process has worked on this cluster for {patience:g} s",
                where=str(path),
                fix=f"see who: `fuser {path}`",
            )
        time.sleep(_NAP)
    try:
        yield
    finally:
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """Return a descriptor that holds the lock; None where another has it or has just removed it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the last cluster of the home is going down
        make_private(path.parent)
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


# One cluster of one's own: up, status, down.


READY_IN = 300.0
"""Seconds: its daemons take ten on a quiet machine, and many times that on a busy one."""

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """A daemon: its process (None where it does not run), its pages, its log."""

    name: str
    pid: int | None
    web: str
    log: Path


class OwnCluster(ABC):
    """A cluster of one's own on this machine, known by its name within a home.

    Parameters
    ----------
    home
        The folder of Submarine's records; the configured one unless given.
    name
        What to call it; as its kind unless given.

    Raises
    ------
    CommandError
        `name` cannot name a cluster, or `home` cannot hold one.
    """

    kind: ClassVar[str]
    """What `submarine cluster up` calls it."""

    def __init__(self, home: Path | None = None, name: str | None = None) -> None:
        self.name = self.kind if name is None else name
        self.layout = Layout(default_home() if home is None else home, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} in {self.layout.root}>"

    def down(self) -> bool:
        """End its daemons and what runs on it, and remove all of it; whether there was anything."""
        with sole_process(self.layout.lock):
            there = self.layout.root.exists() or bool(self._running())
            self._end()
            self.layout.lock.unlink()
        with suppress(OSError):  # other clusters are in there
            self.layout.lock.parent.rmdir()
        return there

    @abstractmethod
    def _running(self) -> dict[str, int]:
        """Return the pids of its daemons by name."""

    @abstractmethod
    def _end(self) -> None:
        """End all processes of it, and remove its files."""


class HadoopCluster(OwnCluster):
    """A Hadoop cluster of one's own on this machine, see `OwnCluster`."""

    kind = DEFAULT_NAME

    @property
    def runs(self) -> bool:
        """Whether it is this user's, and its ResourceManager is a process of this machine."""
        try:
            mine = self.layout.plan.stat().st_uid == os.geteuid()
        except OSError:
            return False
        return mine and "resourcemanager" in find_daemons(self.layout)

    @property
    def plan(self) -> ClusterPlan:
        """What it is made of.

        Raises
        ------
        ClusterError
            There is no such cluster.
        """
        plan = read_plan(self.layout)
        if plan is None:
            raise ClusterError(
                f"there is no cluster {self.name!r}",
                where=str(self.layout.root),
                fix="make it: `submarine cluster up`",
            )
        return plan

    def up(
        self,
        wanted: Wanted | None = None,
        *,
        report: Report = str,
        timeout: float = READY_IN,
    ) -> ClusterPlan:
        """Build and start it, or what of it is not up; return when a job could run.

        Whatever was interrupted before is finished. Daemons stay until `down`.

        Parameters
        ----------
        wanted
            What is asked for; what it leaves open, all where it is None, is as in the cluster that
            is there, and as usual in a new one.
        report
            Is told in words what goes on.
        timeout
            Seconds to wait for the daemons.

        Raises
        ------
        ClusterError
            Java or Maven is missing; the cluster is there, of another shape; a daemon ended by
            itself, or was not ready in time.
        """
        with sole_process(self.layout.lock):
            plan = read_plan(self.layout)
            if plan is None:
                self._end()
            else:
                self._refuse_other(plan, wanted or Wanted())
            if plan and find_daemons(self.layout):
                self._start(plan, report, timeout)
                return plan
            secure = bool(plan.secure if plan else wanted and wanted.secure)
            if secure:
                realm.check_programs()
                tls.check_installed()
            java = find_java()
            report(f"Java {java.version}: {java.home}")
            jars = fetch_jars(java, report=report)
            more = fetch_jars(java, pom=realm.POM, report=report) if secure else None
            with hold_block(self.layout.root, plan.port if plan else None) as port:
                asked = plan.wanted if plan else wanted or Wanted()
                plan = ClusterPlan.make(asked, port=port, java=java, jars=jars, secure_jars=more)
                write_files(plan, self.layout)
                self._start(plan, report, timeout)
        return plan

    def daemons(self) -> list[DaemonStatus]:
        """Return its daemons; none where there is no cluster."""
        plan = read_plan(self.layout)
        if plan is None:
            return []
        running = find_daemons(self.layout)
        return [
            DaemonStatus(name, running.get(name), daemon.web, daemon.log)
            for name in daemon_names(plan)
            for daemon in [Daemon(name, plan, self.layout)]
        ]

    def problems(self) -> list[str]:
        """Return what is missing before a job could run, in words; empty when it could."""
        plan = self.plan
        running = find_daemons(self.layout)
        ended = [f"{name} does not run" for name in daemon_names(plan) if name not in running]
        # Asked twice: a node that tells news of itself between two questions looks restarted.
        return ended or (missing_parts(plan, self.layout) and missing_parts(plan, self.layout))

    def daemon(self, name: str) -> Daemon:
        """Return the daemon `name`, to kill it or start it.

        Raises
        ------
        ClusterError
            There is no such cluster.
        CommandError
            The cluster has no such daemon.
        """
        plan = self.plan
        if name not in daemon_names(plan):
            raise CommandError(
                f"there is no daemon {name!r}", fix=f"choose one of {', '.join(daemon_names(plan))}"
            )
        return Daemon(name, plan, self.layout)

    def environment(self, outer: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables that let programs find it: ``HADOOP_CONF_DIR`` and its kin.

        Parameters
        ----------
        outer
            The environment that they are for, `PATH` of which stays; this process's unless given.
        """
        return cluster_environment(self.plan, self.layout, os.environ if outer is None else outer)

    def wait_ready(self, timeout: float = READY_IN) -> None:
        """Wait until a job could run, after daemons were started one by one.

        Parameters
        ----------
        timeout
            Seconds to wait.

        Raises
        ------
        ClusterError
            A daemon does not run, or it takes too long.
        """
        Starter(self.plan, self.layout, timeout).wait()

    def _refuse_other(self, plan: ClusterPlan, wanted: Wanted) -> None:
        if different := plan.differs(wanted):
            raise ClusterError(
                f"the cluster {self.name!r} is there already, with {different}",
                where=str(self.layout.root),
                fix="end it first (`submarine cluster down`), or give the new one a --name",
            )

    def _start(self, plan: ClusterPlan, report: Report, timeout: float) -> None:
        running = find_daemons(self.layout)
        absent = [name for name in daemon_names(plan) if name not in running]
        starter = Starter(plan, self.layout, timeout)
        if absent:
            report(f"starting {', '.join(absent)}")
            starter.start(absent)
        starter.wait()
        if plan.secure:
            realm.take_ticket(plan, self.layout)
            report(f"you have a ticket as {plan.user}@{realm.REALM} for a day")

    def _running(self) -> dict[str, int]:
        return find_daemons(self.layout)

    def _end(self) -> None:
        for name in find_daemons(self.layout):
            end_daemon(self.layout, name)
        end_containers(self.layout)
        remove_files(self.layout)


def running_clusters(home: Path) -> list[HadoopCluster]:
    """Return the clusters of a home that run, by name; none of another user's."""
    clusters = []
    for plan in sorted(home.glob("clusters/*/cluster.json")):
        with suppress(CommandError):  # a folder that is none of ours
            clusters.append(HadoopCluster(home, plan.parent.name))
    return [cluster for cluster in clusters if cluster.runs]
