"""Warm masters: applications without a GPU that keep the way to YARN open for a notebook."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.processes import stat
from submarine_engine.clusters.yarn.application import PROBED
from submarine_engine.clusters.yarn.folder import KeeperFolder, read_masters, write_masters
from submarine_engine.clusters.yarn.nodelogs import NodeLogs
from submarine_engine.errors import ClusterError, SubmarineError

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.driver import Driver
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
    probe
        What the job's interpreter said on the master's node; None where it was not tried.
    """

    key: str
    session: Session | None
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
            "app_id": self.app_id,
            "idle_since": self.idle_since,
            "probe": self.probe,
        }


class Masters:
    """The warm masters of a keeper.

    Parameters
    ----------
    idle
        Seconds after which one without jobs ends.
    """

    def __init__(
        self, folder: KeeperFolder, driver: Driver, rm: ResourceManager, idle: float
    ) -> None:
        self._folder = folder
        self._driver = driver
        self._rm = rm
        self._idle = idle
        self._lock = threading.Lock()
        self._masters: dict[str, Master] = {}
        for noted in read_masters(folder):
            session = noted["session"]
            master = Master(noted["key"], tuple(session) if session else None, noted["app_id"])
            master.probe = noted["probe"]
            self._masters[master.key] = master
            self._start(master, None, probed=False)

    def take(
        self,
        key: str,
        session: Session | None,
        make: Callable[[], skein.ApplicationSpec],
        *,
        probed: bool,
    ) -> Master:
        """Return the master of that key, for one job more; it may still be starting.

        Parameters
        ----------
        make
            Describes its application, where there is none yet.
        probed
            Whether it tries the job's interpreter.
        """
        with self._lock:
            master = self._masters.get(key)
            if master is None or master.failure is not None:
                master = self._masters[key] = Master(key, session)
                self._start(master, make, probed=probed)
            master.jobs += 1
            return master

    def keeps(self, key: str) -> bool:
        """Whether `take` would start no other application for that key."""
        with self._lock:
            master = self._masters.get(key)
            return master is not None and master.failure is None

    def give(self, master: Master) -> None:
        """Take back what `take` gave: the job needs it no more."""
        with self._lock:
            master.jobs -= 1
            master.idle_since = time.time()
            self._note()

    def drop(self, master: Master) -> None:
        """Forget a master whose application is over."""
        with self._lock:
            if self._masters.get(master.key) is master:
                del self._masters[master.key]
            self._note()
        _close(master)

    def tend(self) -> int:
        """End those that nobody needs any more; return how many are left."""
        with self._lock:
            unneeded = [m for m in self._masters.values() if self._is_unneeded(m)]
            for master in unneeded:
                del self._masters[master.key]
            if unneeded:
                self._note()
            left = len(self._masters)
        for master in unneeded:
            self._end(master)
        return left

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            masters = list(self._masters.values())
            self._masters.clear()
            self._note()
        for master in masters:
            self._end(master)

    def _is_unneeded(self, master: Master) -> bool:
        if master.jobs or not master.ready.is_set():
            return False
        idle = time.time() - master.idle_since
        return bool(master.failure) or idle > self._idle or not lives(master.session)

    def _end(self, master: Master) -> None:
        asked = False
        with suppress(Exception):
            if master.app is not None:
                master.app.shutdown("SUCCEEDED", "nobody needs it any more")
                asked = True
        _close(master)
        if master.app_id and not asked:  # to be killed while it ends would show as a failure
            with suppress(SubmarineError):
                self._driver.kill(master.app_id)

    def _start(
        self, master: Master, make: Callable[[], skein.ApplicationSpec] | None, *, probed: bool
    ) -> None:
        arguments = (master, make, probed)
        threading.Thread(target=self._run_start, args=arguments, daemon=True).start()

    def _run_start(
        self,
        master: Master,
        make: Callable[[], skein.ApplicationSpec] | None,
        probed: bool,  # noqa: FBT001 - a thread's argument
    ) -> None:
        try:
            if make is not None:
                master.app_id = self._driver.submit(make())
                with self._lock:
                    self._note()
            report = wait_running(self._rm, master.app_id)
            master.app = self._driver.connect(master.app_id)
            if probed:
                master.probe = self._read_probe(report)
                with self._lock:
                    self._note()
        except SubmarineError as error:
            master.failure = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it must not wait for ever
            master.failure = ClusterError(f"{type(error).__name__}: {error}")
        finally:
            master.ready.set()

    def _read_probe(self, report: dict[str, Any]) -> str | None:
        """Return what the interpreter said beside a new master; None where nobody can tell."""
        container = application_master(report)
        logs = NodeLogs(str(report.get("amHostHttpAddress")), user=self._folder.conf.user)
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

    def _note(self) -> None:
        write_masters(self._folder, [m.note() for m in self._masters.values() if m.app_id])


def application_master(report: dict[str, Any]) -> str | None:
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


def over_words(report: dict[str, Any]) -> str:
    """Return how YARN says that an application ended, on one line."""
    said = " ".join(str(report.get("diagnostics") or "").split())[:500]
    state = str(report["state"])
    if state == "FINISHED":  # by its master's own word, which tells how
        state = str(report.get("finalStatus") or state)
    return f"{state.lower()}{': ' + said if said else ''}"


def _close(master: Master) -> None:
    with suppress(Exception):
        if master.app is not None:
            master.app.close()
