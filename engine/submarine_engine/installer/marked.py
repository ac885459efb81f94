"""What clusters of one's own that are no Hadoop share: daemons that a mark tells from all others.

Such a cluster is known by its name within a home, as a Hadoop cluster of one's own is. Every
process of it has the cluster's folder in its environment, and is found and ended by that: no file
remembers a pid.
"""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import write_json
from submarine_engine.installer.cluster import DaemonStatus, OwnCluster
from submarine_engine.installer.daemons import own_pids, strings_of
from submarine_engine.installer.kept import find_maker
from submarine_engine.installer.plan import hold_block

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not in the path of users who are not root
_NAP = 0.05  # seconds: the daemons take about one; a look is a file, or a question on loopback

PlanT = TypeVar("PlanT")
ClusterT = TypeVar("ClusterT", bound="MarkedCluster[Any]")


class MarkedCluster(OwnCluster, Generic[PlanT]):
    """A cluster of one's own whose processes have its mark in their environment.

    Parameters
    ----------
    home, name
        As `OwnCluster` has them.
    """

    mark: ClassVar[str]
    """The variable that has the cluster's folder."""
    server: ClassVar[str]
    """The daemon without which it does not run."""
    plan_type: ClassVar[type]

    def __init__(self, home: Path | None = None, name: str | None = None) -> None:
        super().__init__(home, name)
        self.root = self.layout.root

    @classmethod
    def running_in(cls: type[ClusterT], home: Path) -> ClusterT | None:
        """Return the one of a home that runs; None where none does.

        Parameters
        ----------
        home
            The folder of Submarine's records.
        """
        for plan in sorted(home.glob(f"clusters/*/{cls.kind}.json")):
            with suppress(CommandError):  # a folder that is none of ours
                cluster = cls(home, plan.parent.name)
                if cluster.runs:
                    return cluster
        return None

    @property
    def plan(self) -> PlanT | None:
        """What it is made of; None where there is no such cluster."""
        try:
            plan: PlanT = self.plan_type(**json.loads(self._plan_path.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return plan

    @property
    def runs(self) -> bool:
        """Whether it is this user's, and its server is a process of this machine."""
        return self.plan is not None and self.server in self._running()

    def daemons(self) -> list[DaemonStatus]:
        """Return its daemons; none where there is no cluster."""
        plan, running = self.plan, self._running()
        names = [] if plan is None else self._names(plan)
        return [DaemonStatus(one, running.get(one), "", self.layout.log(one)) for one in names]

    def daemon(self, name: str) -> DaemonStatus:
        """Return one daemon.

        Raises
        ------
        CommandError
            The cluster has none of that name.
        """
        daemons = {one.name: one for one in self.daemons()}
        if name not in daemons:
            raise CommandError(
                f"there is no daemon {name!r}", fix=f"choose one of {', '.join(daemons)}"
            )
        return daemons[name]

    @property
    def _plan_path(self) -> Path:
        return self.root / f"{self.kind}.json"

    def _write_plan(self, plan: PlanT) -> None:
        write_json(self._plan_path, asdict(plan))  # type: ignore[call-overload] # a dataclass

    def _hold_ports(self, known: int | None) -> AbstractContextManager[int]:
        """Hold its block of ports, of which `known` is the first unless it is taken by now.

        Where a daemon of it runs, the block is its own already: those that start have to find it.
        """
        if known is not None and self._running():
            return nullcontext(known)
        return hold_block(self.root, known)

    @abstractmethod
    def _names(self, plan: PlanT) -> list[str]:
        """Return what its daemons are called."""

    def _until(self, condition: Callable[[], bool], end: float, name: str) -> None:
        """Wait for what a daemon shall do; ClusterError where it has ended, or takes too long."""
        soon = time.monotonic() + 10.0  # it has its own name by then
        while not condition():
            gone = time.monotonic() > soon and name not in self._running()
            if gone or time.monotonic() > end:
                log = self.layout.log(name)
                last = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
                raise ClusterError(
                    f"{name} {'has ended' if gone else 'is not ready'}: {' | '.join(last)}",
                    where=str(log),
                    fix=f"read its log, then say `submarine cluster up {self.kind}` again",
                )
            time.sleep(_NAP)

    def _until_running(self, plan: PlanT, end: float) -> None:
        for name in self._names(plan):
            self._until(lambda name=name: name in self._running(), end, name)  # type: ignore[misc]

    def _marked(self) -> Iterator[int]:
        return (pid for pid in own_pids() if self._is_ours(pid))

    def _is_ours(self, pid: int) -> bool:
        return f"{self.mark}={self.root}" in strings_of(pid, "environ")


def search_path() -> str:
    """Return where programs are, those of servers, too."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))


def find_program(name: str, fix: str) -> str:
    """Return a program's path.

    Parameters
    ----------
    name
        The program.
    fix
        What to do where it is missing.

    Raises
    ------
    ClusterError
        It is missing.
    """
    return find_maker(name, {"PATH": search_path()}, f"the program {name} is missing", fix)


__all__ = ["MarkedCluster", "find_program", "search_path"]
