"""The warm masters of a keeper: which there are, and when each ends."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from submarine_engine.clusters.yarn.folder import KeeperFolder, read_masters, write_masters
from submarine_engine.clusters.yarn.master import (
    Master,
    Session,
    lives,
    read_master_probe,
    wait_running,
)
from submarine_engine.clusters.yarn.scheduler import DEFAULT
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.history import JobPaths, read_json

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.driver import Driver
    from submarine_engine.clusters.yarn.rest import ResourceManager


class Life(NamedTuple):
    """A master's application, and since when no job needs it; None while one does."""

    app_id: str
    idle_since: float | None


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
            master = Master.noted(noted)
            self._masters[master.key] = master
            self._start(master, None, probed=False)

    def take(
        self,
        key: str,
        session: Session | None,
        queue: str | None,
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
                master = self._masters[key] = Master(key, session, queue)
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
        master.close()

    def tend(self) -> int:
        """End those that nobody needs any more; return how many are left."""
        with self._lock:
            unneeded = [m for m in self._masters.values() if self._is_unneeded(m)]
            left = len(self._masters) - len(unneeded)
        self._end(unneeded)
        return left

    def lives(self) -> list[Life]:
        """Return those that run, and since when no job needs them."""
        with self._lock:
            return [
                Life(m.app_id, None if m.jobs else m.idle_since)
                for m in self._masters.values()
                if m.ready.is_set() and m.failure is None
            ]

    def idle_queues(self) -> Mapping[str, int]:
        """Return how many no job needs now, by queue."""
        with self._lock:
            return Counter(m.queue or DEFAULT for m in self._masters.values() if m.is_idle)

    def end_idlest(self, queue: str) -> None:
        """End the one in that queue that has been idle for the longest time, if there is any."""
        with self._lock:
            idle = [m for m in self._masters.values() if m.is_idle]
        here = [m for m in idle if (m.queue or DEFAULT) == queue]
        self._end(sorted(here, key=lambda master: master.idle_since)[:1])

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            masters = list(self._masters.values())
            for master in masters:
                master.jobs = 0
        self._end(masters)

    def _is_unneeded(self, master: Master) -> bool:
        if master.jobs:
            return False
        if lives(master.session):
            idle = time.time() - master.idle_since
            over = master.ready.is_set() and (bool(master.failure) or idle > self._idle)
        else:
            over = bool(master.app_id)
        return over and not self._is_noted(master.app_id)

    def _is_noted(self, app_id: str) -> bool:
        """Return whether a job that is not over has containers of it, watched already or not.

        A keeper that comes after a kill knows its masters before it has taken up their jobs.
        """
        for job_id in self._folder.open_jobs():
            noted = read_json(JobPaths(self._folder.home, job_id).root / "yarn.json") or {}
            if noted.get("app_id") == app_id and noted.get("containers"):
                return True
        return False

    def _end(self, masters: list[Master]) -> None:
        """End those of them that no job has taken meanwhile."""
        with self._lock:
            ended = [m for m in masters if not m.jobs and self._masters.get(m.key) is m]
            for master in ended:
                del self._masters[master.key]
            if ended:
                self._note()
        for master in ended:
            asked = master.shut_down()
            master.close()
            if master.app_id and not asked:  # to be killed while it ends would show as a failure
                with suppress(SubmarineError):
                    self._rm.kill(master.app_id)

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
                master.probe = read_master_probe(self._folder.conf, report)
                with self._lock:
                    self._note()
        except SubmarineError as error:
            master.failure = error
        except Exception as error:  # noqa: BLE001 - whoever waits for it must not wait for ever
            master.failure = ClusterError(f"{type(error).__name__}: {error}")
        finally:
            master.ready.set()

    def _note(self) -> None:
        write_masters(self._folder, [m.note() for m in self._masters.values() if m.app_id])
