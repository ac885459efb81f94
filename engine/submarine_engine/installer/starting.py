"""Starting daemons in order, and waiting until a job could run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence

from submarine_engine.errors import ClusterError
from submarine_engine.installer import ready
from submarine_engine.installer.daemons import FORMATTER, Daemon, daemon_names
from submarine_engine.installer.layout import Layout
from submarine_engine.installer.plan import Plan
from submarine_engine.installer.processes import end_daemon, find_daemons

_NAP = 0.1


class Starter:
    """Starts what is not running of a cluster, and waits for it.

    Parameters
    ----------
    timeout
        Seconds that all of it may take.
    """

    def __init__(self, plan: Plan, layout: Layout, timeout: float) -> None:
        self._plan = plan
        self._layout = layout
        self._timeout = timeout
        self._end = time.monotonic() + timeout

    def start(self, names: Sequence[str]) -> None:
        """Start daemons: NodeManagers when the ResourceManager hears them.

        One that comes too early falls asleep for long.
        """
        started: list[str] = []
        for name in names:
            if name == "namenode":
                self._format()
            if name.startswith("nodemanager"):
                self._wait(started, self._missing_tracker)
            Daemon(name, self._plan, self._layout).run()
            started.append(name)

    def wait(self) -> None:
        """Wait until a job could run.

        Raises
        ------
        ClusterError
            A daemon has ended by itself, or it takes too long.
        """
        self._wait(daemon_names(self._plan), lambda: ready.missing(self._plan))

    def _missing_tracker(self) -> list[str]:
        listening = ready.listens(self._plan.rm_tracker)
        return [] if listening else ["the resourcemanager does not listen"]

    def _wait(self, needed: Sequence[str], missing: Callable[[], list[str]]) -> None:
        while problems := missing():
            running = find_daemons(self._layout)
            for name in needed:
                if name not in running:
                    raise Daemon(name, self._plan, self._layout).failure()
            if time.monotonic() > self._end:
                raise ClusterError(
                    f"it is not ready after {self._timeout:g} s: {'; '.join(problems)}",
                    where=f"cluster {self._layout.name}",
                    fix="`submarine cluster up` waits on, `submarine cluster logs` shows why",
                )
            time.sleep(_NAP)

    def _format(self) -> None:
        """Make the file system where there is none yet; one half made is made anew.

        Who made that may be at it still, where the process that waited for it was killed.
        """
        end_daemon(self._layout, FORMATTER)
        if self._layout.formatted.exists():
            return
        for folder in (self._layout.namenode, self._layout.datanode):
            shutil.rmtree(folder, ignore_errors=True)
        Daemon("namenode", self._plan, self._layout).run(
            "-format", "-force", "-nonInteractive", wait=True
        )
        self._layout.formatted.touch(mode=0o600)
