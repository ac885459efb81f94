"""A warm master: an application without a GPU that keeps the way to YARN open for a notebook."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.processes import stat
from submarine_engine.clusters.yarn.application import PROBED
from submarine_engine.clusters.yarn.nodelogs import NodeLogs
from submarine_engine.errors import ClusterError, SubmarineError

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.rest import ResourceManager

FINAL = ("FINISHED", "FAILED", "KILLED")
_POLL = 0.1
_PROBE_LOG = "application.driver.log"  # as skein names what runs beside a master
_PROBE_PATIENCE = 20.0
_CONTAINER = re.compile(r"container_[0-9e_]+")

Session = tuple[int, int]
"""A notebook's kernel: process id, and when it began in clock ticks; a number alone is reused."""


def lives(session: Session | None) -> bool:
    """Return whether the process of a session is there; one that is None always is."""
    if session is None:
        return True
    seen = stat(session[0])
    return seen is not None and seen.start == session[1] and seen.state != "Z"


@dataclass(eq=False)
class Master:
    """An application that holds no GPU, and through which jobs ask for their containers.

    Parameters
    ----------
    key
        Its notebook and shape.
    session
        Whom it is for.
    queue
        Name or path of the queue it is in; None for ``default``.
    probe
        What the job's interpreter said on the master's node; None where it was not tried.
    """

    key: str
    session: Session | None
    queue: str | None = None
    app_id: str = ""
    app: skein.ApplicationClient | None = None
    probe: str | None = None
    failure: SubmarineError | None = None
    jobs: int = 0
    asking: threading.Lock = field(default_factory=threading.Lock)
    idle_since: float = field(default_factory=time.time)
    ready: threading.Event = field(default_factory=threading.Event)

    def note(self) -> dict[str, Any]:
        """Return what a keeper that comes after a kill has to know of it."""
        return {
            "key": self.key,
            "session": self.session,
            "queue": self.queue,
            "app_id": self.app_id,
            "idle_since": self.idle_since,
            "probe": self.probe,
        }

    @classmethod
    def noted(cls, noted: Mapping[str, Any]) -> Master:
        """Return the one that `note` told of."""
        session = noted["session"]
        return cls(
            noted["key"],
            (int(session[0]), int(session[1])) if session else None,
            noted.get("queue"),
            app_id=noted["app_id"],
            probe=noted["probe"],
        )

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and no job needs it."""
        return self.ready.is_set() and not self.jobs

    def shut_down(self) -> bool:
        """Let its application end by itself; whether that could be asked for."""
        with suppress(Exception):
            if self.app is not None:
                self.app.shutdown("SUCCEEDED", "nobody needs it any more")
                return True
        return False

    def close(self) -> None:
        """Close the way to it."""
        with suppress(Exception):
            if self.app is not None:
                self.app.close()


def application_master(report: Mapping[str, Any]) -> str | None:
    """Return the id of the container that an application's master runs in."""
    found = _CONTAINER.search(str(report.get("amContainerLogs") or ""))
    return found[0] if found else None


def wait_running(rm: ResourceManager, app_id: str) -> dict[str, Any]:
    """Wait until an application's master runs; return the application's report.

    Raises
    ------
    ClusterError
        It is over before that: with YARN's own words.
    """
    while True:
        with suppress(ClusterError):
            report = rm.application(app_id)
            if report["state"] == "RUNNING":
                return report
            if report["state"] in FINAL:
                break
        time.sleep(_POLL)
    raise ClusterError(
        f"the application ended before it ran: {over_words(report)}",
        where=app_id,
        fix="YARN's words say why; submarine doctor --cluster yarn checks the cluster",
    )


def over_words(report: Mapping[str, Any]) -> str:
    """Return how YARN says that an application ended, on one line."""
    said = " ".join(str(report.get("diagnostics") or "").split())[:500]
    state = str(report["state"])
    if state == "FINISHED":  # by its master's own word, which tells how
        state = str(report.get("finalStatus") or state)
    return f"{state.lower()}{': ' + said if said else ''}"


def read_master_probe(conf: HadoopConf, report: Mapping[str, Any]) -> str | None:
    """Return what the interpreter said beside a new master; None where nobody can tell.

    Parameters
    ----------
    report
        The ResourceManager's of its application.
    """
    container = application_master(report)
    logs = NodeLogs(str(report.get("amHostHttpAddress")), user=conf.user)
    until = time.monotonic() + _PROBE_PATIENCE
    try:
        while container and time.monotonic() < until:
            with suppress(ClusterError):
                text = logs.read(container, _PROBE_LOG, 0, 1 << 16).decode(errors="replace")
                if PROBED in text:
                    return text.partition(PROBED)[0]
            time.sleep(_POLL)
    finally:
        logs.close()
    return None
