"""Starting daemons in order, and waiting until a job could run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence

from submarine_engine.errors import ClusterError
from submarine_engine.installer.daemons import FORMATTER, Daemon, daemon_names
from submarine_engine.installer.layout import Layout
from submarine_engine.installer.plan import Plan
from submarine_engine.installer.processes import end_daemon, find_daemons
from submarine_engine.installer.ready import missing

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
        """Start daemons, all at once: the configuration lets them look for each other often.

        Those of HDFS come last, since the file system may have to be made first.
        """
        for name in sorted(names, key=("namenode", "datanode").__contains__):
            if name == "namenode":
                self._format()
            Daemon(name, self._plan, self._layout).run()

    def wait(self) -> None:
        """Wait until a job could run.

        Raises
        ------
        ClusterError
            A daemon has ended by itself, or it takes too long.
        """
        while problems := missing(self._plan):
            running = find_daemons(self._layout)
            for name in daemon_names(self._plan):
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
