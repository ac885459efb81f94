"""Shared applications: which there are, how one is reached, and when each ends.

One without a job gives way where other applications wait to start (`yield_capacity`), and ends by
itself where the machine of its notebook is gone and its keeper too (`keep_app_timeouts`).
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.clusters.machine import Session, lives, session_of
from submarine_engine.clusters.yarn.application import PROBED
from submarine_engine.clusters.yarn.driver import KeeperFolder, read_masters, write_masters
from submarine_engine.clusters.yarn.hadoop_json import GPU, MEMORY, VCORES, Amounts, lacking, plus
from submarine_engine.clusters.yarn.node_pages import NodeLogs
from submarine_engine.clusters.yarn.scheduler import (
    DEFAULT,
    Node,
    Queue,
    Scheduler,
    read_nodes,
    read_scheduler,
)
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.driver import Driver
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.rest import ResourceManager


# A warm master: an application without a GPU that keeps the way to YARN open for a notebook.


FINAL = ("FINISHED", "FAILED", "KILLED")
_POLL = 0.1  # seconds: the first job waits for the master, whose start takes seconds
_PROBE_LOG = "application.driver.log"  # as skein names what runs beside a master
_PROBE_PATIENCE = 20.0
"""Seconds: it is written as the master begins; without it, logs go another way."""
_CONTAINER = re.compile(r"container_[0-9e_]+")

_HEARD = 5.0  # seconds: with Hadoop's own heartbeat of five it would have been heard of by then
_HEARTBEAT_LOOK = 0.02  # seconds: a tenth of our heartbeat, and few looks are needed
_PROGRESS = (0.1, 0.2)  # told in turn: a change of it shows that a heartbeat has come through

Size = tuple[int, int, int]
"""Memory, vcores, GPUs of a container: in the order in which YARN compares them."""


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
    parent
        The job whose workers it is for, and with which it ends; None where it is for a notebook.
    probe
        What the job's interpreter said on the master's node; None where it was not tried.
    asked
        How large the containers are that YARN may take to be asked for still, by skein's id.
    asked_by
        The job that asked for a container, by skein's id, of those that this keeper has asked for.
    began
        When it was asked for, seconds since the epoch; 0 where nobody knows.
    is_retired
        Whether it has a successor: no job takes it any more, and it ends with the last that has.
    """

    key: str
    session: Session | None
    queue: str | None = None
    parent: str | None = None
    app_id: str = ""
    app: skein.ApplicationClient | None = None
    probe: str | None = None
    failure: SubmarineError | None = None
    jobs: int = 0
    asking: threading.Lock = field(default_factory=threading.Lock)
    asked: dict[str, Size] = field(default_factory=dict)
    asked_by: dict[str, str] = field(default_factory=dict)
    progress: float = 0.0
    idle_since: float = field(default_factory=time.time)
    began: float = field(default_factory=time.time)
    is_retired: bool = False
    ready: threading.Event = field(default_factory=threading.Event)

    def note(self) -> dict[str, Any]:
        """Return what the next keeper has to know of this master, after a kill."""
        return {
            "key": self.key,
            "session": self.session,
            "queue": self.queue,
            "parent": self.parent,
            "app_id": self.app_id,
            "idle_since": self.idle_since,
            "began": self.began,
            "is_retired": self.is_retired,
            "probe": self.probe,
        }

    @classmethod
    def noted(cls, noted: Mapping[str, Any]) -> Master:
        """Return the master of which `note` returned `noted`."""
        return cls(
            noted["key"],
            session_of(noted),
            noted.get("queue"),
            noted.get("parent"),
            app_id=noted["app_id"],
            probe=noted["probe"],
            began=float(noted.get("began", 0.0)),
            is_retired=bool(noted.get("is_retired")),
        )

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and no job needs it."""
        return self.ready.is_set() and not self.jobs

    def wait_to_ask(
        self, rm: ResourceManager, size: Size, waiting: Sequence[skein.Container]
    ) -> None:
        """Wait until a container of that size may be asked for.

        skein uses a priority again as soon as a container has come, and takes the request for that
        one back with its next heartbeat. Where both go in one heartbeat, the ResourceManager counts
        the larger one as the last word, and would forget a smaller one that was asked for.

        Parameters
        ----------
        rm
            The ResourceManager: it tells what it has heard of the master.
        size
            How large the container is.
        waiting
            What the master still waits for.
        """
        left = {container.id for container in waiting}
        self.asked_by = {name: job for name, job in self.asked_by.items() if name in left}
        if max(self.asked.values(), default=size) > size:
            self._await_heartbeat(rm)
            self.asked = {name: one for name, one in self.asked.items() if name in left}

    def _await_heartbeat(self, rm: ResourceManager) -> None:
        """Wait until the ResourceManager has heard of the master: of a progress that is new."""
        assert self.app is not None  # noqa: S101 - it asks for containers
        low, high = _PROGRESS
        self.progress = low if self.progress == high else high
        self.app.set_progress(self.progress)
        until = time.monotonic() + _HEARD
        while time.monotonic() < until:
            with suppress(ClusterError):
                told = float(rm.application(self.app_id).get("progress") or 0.0)
                if abs(told / 100 - self.progress) < (high - low) / 2:
                    return
            time.sleep(_HEARTBEAT_LOOK)

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
    """Return the id of the container that an application's master runs in.

    Parameters
    ----------
    report
        ``/ws/v1/cluster/apps/<id>``, its ``app``.
    """
    found = _CONTAINER.search(str(report.get("amContainerLogs") or ""))
    return found[0] if found else None


def wait_running(rm: ResourceManager, app_id: str) -> dict[str, Any]:
    """Wait until the master of application `app_id` runs; return the report that `rm` gives of it.

    Raises
    ------
    ClusterError
        It is over before that: with YARN's own words.
    """
    while True:
        with suppress(ClusterError):
            report = rm.application(app_id)  # FAILED where the ResourceManager has forgotten it
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
    """Return how YARN says that the application of `report` ended, on one line."""
    said = " ".join(str(report.get("diagnostics") or "").split())[:500]
    state = str(report["state"])
    if state == "FINISHED":  # by its master's own word, which tells how
        state = str(report.get("finalStatus") or state)
    return f"{state.lower()}{': ' + said if said else ''}"


def read_master_probe(conf: HadoopConf, report: Mapping[str, Any]) -> str | None:
    """Return what the interpreter said beside a new master; None where nobody can tell.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    report
        The ResourceManager's of its application.
    """
    container = application_master(report)
    logs = NodeLogs(str(report.get("amHostHttpAddress")), user=conf.web_user, tls=conf.node_tls)
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


# Warm masters end by themselves where the machine of their notebook is gone, and its keeper too.
#
# YARN ends an application whose lifetime is over (``/apps/<id>/timeout`` of "ResourceManager REST
# APIs", Hadoop 2.9 and later). A master that is idle has a lifetime that ends soon after its keeper
# would end it; one that jobs use has a long one, since its end would be theirs.


_TIMEOUT_INTERVAL = 1.0  # seconds: far less than `_MARGIN`, and mostly there is nothing to tell
_MARGIN = 15.0  # seconds after its keeper's own end for it, so that YARN never is the first
_SETTLE = 10.0  # seconds: jobs of a notebook follow one another, and each change is a request
_LONG = 7 * 24 * 3600.0
"""Seconds: told anew at half of it, so that it ends no master which a keeper has."""
_AGAIN = 60.0  # seconds: it may know no lifetimes at all, and is not asked once a second then


def keep_app_timeouts(
    masters: Masters, rm: ResourceManager, idle: float, stop: threading.Event
) -> None:
    """Tell the ResourceManager until when each master may live, whenever that changes.

    Parameters
    ----------
    masters
        The warm masters of the keeper.
    rm
        The ResourceManager.
    idle
        Seconds after which the keeper ends a master without jobs.
    stop
        Ends it.
    """
    told: dict[str, float] = {}
    not_before: dict[str, float] = {}
    while not stop.wait(_TIMEOUT_INTERVAL):
        lives = masters.lives()
        for gone in set(told) - {life.app_id for life in lives}:
            del told[gone]
        for life in lives:
            until = timeout_due(life, told.get(life.app_id), idle, time.time())
            if until is None or not_before.get(life.app_id, 0.0) > time.time():
                continue
            try:
                rm.set_lifetime(life.app_id, until)
                told[life.app_id] = until
            except ClusterError:  # it is away, or knows no lifetimes
                not_before[life.app_id] = time.time() + _AGAIN


def timeout_due(life: Life, told: float | None, idle: float, now: float) -> float | None:
    """Return until when a master is to live, where that is to be told; None where it is not.

    Parameters
    ----------
    life
        The master's application, and since when no job needs it.
    told
        What the ResourceManager was told last.
    idle
        As `keep_app_timeouts` has it.
    now
        The time, in seconds since the epoch, as all of these are.
    """
    if life.idle_since is None:
        until = now + _LONG
        return until if told is None or told < now + _LONG / 2 else None
    # A notebook's jobs follow one another: what would change at once again is not told.
    if now - life.idle_since < min(_SETTLE, idle / 4):
        return None
    until = max(life.idle_since + idle, now) + _MARGIN
    return None if told is not None and abs(told - until) < _MARGIN / 2 else until


# Warm masters stand in nobody's way: an idle one ends where others wait for what it holds.


_YIELD_INTERVAL = 1.0  # seconds: what waits in two looks in a row is held back, not on its way
_ENDS_WITHIN = 30.0
"""Seconds in which a master ends; one that does not keeps others waiting no longer than that."""
_IS_TAKEN_WITHIN = 5.0
"""Seconds in which the scheduler gives away what a master has left: nodes report once a second, and
one that has much to do gives at every second or third report."""
# What a master may take at most: Hadoop's default rounds 256 MB up to that
# (yarn.scheduler.minimum-allocation-mb).
_MASTER = {MEMORY: 1024, VCORES: 1}


def yield_capacity(masters: Masters, rm: ResourceManager, stop: threading.Event) -> None:
    """End idle masters, one a turn and queue, as long as others wait there for their place.

    A queue limits what all application masters in it may hold together
    (``maximum-am-resource-percent`` of YARN's capacity scheduler), warm ones among them, and they
    hold memory and a vcore that containers may lack. Whatever is asked for waits for a moment: what
    is held back is so in two looks a second apart. The ResourceManager is asked for nothing while
    no master is idle.

    Parameters
    ----------
    masters
        The warm masters of the keeper.
    rm
        The ResourceManager.
    stop
        Ends it.
    """
    waited: set[str] = set()
    ending: dict[str, _End] = {}
    while not stop.wait(_YIELD_INTERVAL):
        idle = masters.idle_queues()
        wait = held_back(rm, idle) if idle else set()
        # A master takes its time to end, and who waits to begin in its place: that is no reason for
        # another's end.
        wait -= {queue for queue, end in ending.items() if end.makes_room(rm)}
        for queue in wait & waited:
            if app_id := masters.end_idlest(queue):
                ending[queue] = _End(app_id)
        waited = wait


class _End:
    """Of a master that was asked to end, now."""

    def __init__(self, app_id: str) -> None:
        self._app_id = app_id
        self._asked = time.monotonic()
        self._over: float | None = None

    def makes_room(self, rm: ResourceManager) -> bool:
        """Return whether who waits may still come into its place."""
        now = time.monotonic()
        if self._over is not None:
            return now - self._over <= _IS_TAKEN_WITHIN
        with suppress(ClusterError, KeyError):
            if rm.application(self._app_id)["state"] in FINAL:
                self._over = now
        return now - self._asked <= _ENDS_WITHIN


def held_back(rm: ResourceManager, idle: Mapping[str, int]) -> set[str]:
    """Return in which queues idle masters keep others waiting; none where the RM is silent.

    Parameters
    ----------
    rm
        The ResourceManager.
    idle
        How many there are, by queue.
    """
    with suppress(ClusterError):
        scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
        found = {name: scheduler.find(name) for name in idle}
        starting = {name for name, queue in found.items() if queue is not None and queue.pending}
        paths = {name: queue.path for name, queue in found.items() if queue is not None}
        wanting = [queue for queue in scheduler.leaves if _wanted(queue)]
        if not wanting:
            return starting
        nodes = [node for node in read_nodes(rm.get("/ws/v1/cluster/nodes")) if node.up]
        short = (
            name for one in wanting for name in _in_the_way(one, scheduler, nodes, idle, paths)
        )
        return {*starting, *short}
    return set()


def _wanted(queue: Queue) -> Amounts:
    return {name: queue.waiting[name] for name in (MEMORY, VCORES) if queue.waiting.get(name)}


def _in_the_way(
    queue: Queue,
    scheduler: Scheduler,
    nodes: list[Node],
    idle: Mapping[str, int],
    paths: Mapping[str, str],
) -> Iterator[str]:
    """Yield the queues whose idle masters hold what containers of `queue` lack.

    Where GPUs are lacking, or far more than idle masters hold, their end would help nobody.
    """
    wanted = _wanted(queue)
    if queue.waiting.get(GPU) and not any(node.free.get(GPU, 0) > 0 for node in nodes):
        return
    path = queue.path
    while path:
        limit = scheduler.find(path)
        below = {name for name, one in paths.items() if f"{one}.".startswith(f"{path}.")}
        if limit and limit.most is not None and limit.used is not None:
            room = plus(limit.most, limit.used, -1)
            if queue.waiting.get(GPU) and room.get(GPU, 1) <= 0:
                return
            if _would_do(wanted, room, sum(idle[name] for name in below)):
                yield from below
        path = path.rpartition(".")[0]
    count = sum(idle[name] for name in paths)
    if all(lacking(wanted, node.free) for node in nodes) and any(
        _would_do(wanted, node.free, count) for node in nodes
    ):
        yield from paths


def _would_do(wanted: Amounts, room: Amounts, masters: int) -> bool:
    """Return whether that does not fit, and would without so many masters."""
    freed = plus(room, _MASTER, masters)
    return bool(lacking(wanted, room)) and not lacking(wanted, freed)


# The warm masters of a keeper: which there are, and when each ends.


_OLD = 0.75
"""Of the life of an application's tokens, as `Delegation` replaces others with a quarter left."""


class Life(NamedTuple):
    """A master's application, and since when no job needs it; None while one does."""

    app_id: str
    idle_since: float | None


class Masters:
    """The warm masters of a keeper.

    Parameters
    ----------
    folder
        The keeper's: they are noted there, and taken from there after a kill.
    driver
        The way to skein's driver, by which they are started and reached.
    rm
        The ResourceManager.
    idle
        Seconds after which one without jobs ends.
    token_life
        Returns for how many seconds what an application was begun with opens HDFS to the nodes:
        they bring a container its files by it. Infinite where HDFS asks for nothing.
    """

    def __init__(
        self,
        folder: KeeperFolder,
        driver: Driver,
        rm: ResourceManager,
        idle: float,
        token_life: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._driver = driver
        self._rm = rm
        self._idle = idle
        self._token_life = token_life
        self._lock = threading.Lock()
        self._masters: dict[str, Master] = {}
        for noted in read_masters(folder):
            master = Master.noted(noted)
            self._masters[master.key] = master
            self._start(master, None, probed=False)

    def take(
        self,
        wanted: Master,
        make: Callable[[], skein.ApplicationSpec],
        *,
        probed: bool,
        app_id: str = "",
    ) -> Master:
        """Return the master of a key, for one job more; it may still be starting.

        One whose tokens will soon open nothing any more has a successor from then on: YARN has no
        way to give a running application others.

        Parameters
        ----------
        wanted
            What it is where there is none yet.
        make
            Describes its application, where there is none yet.
        probed
            Whether it tries the job's interpreter.
        app_id
            The application in which the job has containers already: its master, however old.
        """
        life = self._token_life()
        with self._lock:
            master = self._running(app_id)
            if master is None:
                master = self._masters.get(wanted.key)
                if master is not None and _is_old(master, life):
                    self._retire(master)
                    master = None
            if master is None or master.failure is not None:
                master = self._masters[wanted.key] = wanted
                try:
                    self._start(master, make, probed=probed)
                except RuntimeError:  # no more threads: whoever comes next is not to wait for it
                    del self._masters[wanted.key]
                    raise
            master.jobs += 1
            return master

    def keeps(self, key: str) -> bool:
        """Whether `take` would start no other application for that key."""
        life = self._token_life()
        with self._lock:
            master = self._masters.get(key)
            return master is not None and master.failure is None and not _is_old(master, life)

    def _running(self, app_id: str) -> Master | None:
        found = (m for m in self._masters.values() if app_id and m.app_id == app_id)
        return next((master for master in found if master.failure is None), None)

    def _retire(self, master: Master) -> None:
        """Let no other job have a master; those that have it keep it."""
        del self._masters[master.key]
        master.key, master.is_retired = f"{master.key}@{master.app_id}", True
        self._masters[master.key] = master

    def give(self, master: Master) -> None:
        """Take back `master`, which `take` gave: the job needs it no more."""
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
            return Counter(m.queue or DEFAULT for m in self._idle_masters())

    def end_idlest(self, queue: str) -> str:
        """End the one in that queue that has been idle for the longest time.

        Returns
        -------
        str
            Its application; empty where there is none.
        """
        with self._lock:
            idle = self._idle_masters()
        here = [m for m in idle if (m.queue or DEFAULT) == queue]
        idlest = sorted(here, key=lambda master: master.idle_since)[:1]
        self._end(idlest)
        return idlest[0].app_id if idlest else ""

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            masters = list(self._masters.values())
            for master in masters:
                master.jobs = 0
        self._end(masters)

    def _idle_masters(self) -> list[Master]:
        """Return those that run, and that no job needs, watched already or not."""
        every = self._masters.values()
        return [one for one in every if one.is_idle and not self._is_noted(one.app_id)]

    def _is_unneeded(self, master: Master) -> bool:
        if master.jobs:
            return False
        if lives(master.session) and not (master.parent and self._is_over(master.parent)):
            idle = time.time() - master.idle_since
            needless = bool(master.failure) or master.is_retired or idle > self._idle
            over = master.ready.is_set() and needless
        else:
            over = bool(master.app_id)
        return over and not self._is_noted(master.app_id)

    def _is_over(self, job_id: str) -> bool:
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = read_json(JobPaths(self._folder.home, job_id).status)
            return told is None or JobState(told["state"]).final
        return False

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
        """Note those that there are; whoever calls has the lock."""
        write_masters(self._folder, [m.note() for m in self._masters.values() if m.app_id])


def _is_old(master: Master, life: float) -> bool:
    """Return whether its tokens are close to their end: a job may wait long for its containers."""
    return bool(master.app_id) and time.time() - master.began > _OLD * life
