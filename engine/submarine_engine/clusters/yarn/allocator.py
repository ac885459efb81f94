"""How a job comes to its containers: in a shared application, or in one of its own.

`open_allocator` chooses. A `SharedApplication` is kept for a notebook, without a GPU, so that the
next job needs no new master; a `DedicatedApplication` ends with its job. A `Gang` sees to it that a
job of several containers holds all of them or none: two jobs that each hold a part of what they
need would wait for ever, with idle GPUs.
"""

from __future__ import annotations

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from submarine_runtime.call_frames import CALLS, TAKEN
from submarine_runtime.container import DIGEST, LARGE, URL
from submarine_runtime.displays import INLINE
from submarine_runtime.exchange import HELLO, INSIDE, INSIDE_ASK
from submarine_runtime.sealing import KEY_SIZE
from submarine_runtime.skein_store import PREFIX, key
from submarine_runtime.stacks import ASK, STACKS

from submarine_engine.clusters.backend import Allocated, AllocatedByTask
from submarine_engine.clusters.environment import file_address, thread_limits
from submarine_engine.clusters.store import add_warning, task_plan
from submarine_engine.clusters.yarn import application, uploads
from submarine_engine.clusters.yarn.application import (
    MASTER_MEMORY,
    describe_application,
    job_tag,
    service_name,
    shape_key,
)
from submarine_engine.clusters.yarn.environments import check_versions, read_probe
from submarine_engine.clusters.yarn.hadoop_json import lacking
from submarine_engine.clusters.yarn.log_transport import (
    Aggregation,
    Channel,
    aggregation,
    gathered_tasks,
)
from submarine_engine.clusters.yarn.masters import (
    FINAL,
    Master,
    Size,
    over_words,
    wait_running,
)
from submarine_engine.clusters.yarn.scheduler import (
    DEFAULT,
    Node,
    Scheduler,
    asked_for,
    fits,
    master_fits,
    read_nodes,
    read_scheduler,
)
from submarine_engine.clusters.yarn.tensorboard_service import TensorBoardService
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.history import JobPaths, read_json, write_aside, write_json
from submarine_engine.secret_values import noted_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import skein

    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.clusters.yarn.services import Services
    from submarine_engine.job import JobSpec, Resources, Role


# A job of several containers takes all of them or none.
#
# YARN grants containers one by one, and keeps those that it has granted for whoever asked. Two jobs
# that each hold a part of what they need would wait for ever, with idle GPUs. So a gang
#
# * asks only when all of it would fit into what is free now, or is owed to its queue on a cluster
#   that preempts others for it; until then it holds nothing,
# * begins when its last container is there: each waits for that (`submarine_runtime.exchange`),
# * gives back what it holds where the rest does not come within seconds, since somebody was
#   quicker, waits a random time, and begins anew.
#
# Jobs of one container may overtake a gang that waits: what it needs is not kept free for it.
# An elastic job asks for as many workers as would fit, if those are enough.


_LOOK = 1.0  # seconds: nodes report to the ResourceManager once in one, so sooner nothing is new
_SETTLES = 5.0  # seconds in which the manager hears that what an attempt had is free
_PATIENCE = 15.0  # seconds: all of it fitted a moment ago, so the rest comes with some heartbeats
_PREEMPTS = 60.0
"""Seconds for the rest of a gang for which others are preempted: 15 s of their own, and a look."""
_TURN = 0.02  # seconds that a turn of the driver waits for a master: it has other things to see to
_BACK_OFF = (5.0, 15.0)
"""Seconds until it asks again, at random: two gangs that took parts from each other would meet
again and again; five at least, in which what it gave back is free (`_SETTLES`)."""


class Gang:
    """When a job of several containers asks for them, and when it gives them back.

    Parameters
    ----------
    rm
        The ResourceManager: it tells what is free, and what is owed to the job's queue.
    spec
        The job, with every role's resources a number.
    workers
        How many an elastic job is asked for with already; None where that is to be found.
    again
        Whether the job has given containers back just now.
    """

    def __init__(
        self, rm: ResourceManager, spec: JobSpec, workers: int | None = None, *, again: bool = False
    ) -> None:
        self._rm = rm
        self._whole = spec
        self._settled_at = time.monotonic() + _SETTLES if again else 0.0
        self._is_fixed = workers is not None
        self.spec = spec if workers is None else spec.sized(workers)
        """The job as it is asked for; an elastic one with the workers that were found to fit."""
        self._not_before = 0.0
        self._came = 0
        self._came_at = 0.0
        self._waits = False
        self._patience = _PATIENCE

    @property
    def size(self) -> int:
        """How many containers the job is asked for with; at least, where that is to be found."""
        return len(self.spec.smallest.tasks)

    @property
    def workers(self) -> int | None:
        """How many workers were found to fit; None for a job that is not elastic, or not yet."""
        if self._whole.elastic is None or self.spec.elastic is not None:
            return None
        return next(role.count for role in self.spec.roles if role.name == "worker")

    def forget(self) -> None:
        """Look anew how many workers fit."""
        self._is_fixed, self.spec = False, self._whole

    @property
    def has_several(self) -> bool:
        """Whether the job has several containers."""
        return self.size > 1

    @property
    def note(self) -> str:
        """What is said of it while it waits; empty for any other job."""
        if not self._waits:
            return ""
        if self.spec.elastic is not None:
            return f"it takes {self.size} to {len(self.spec.tasks)} containers at once"
        return f"it takes all {self.size} containers at once"

    def may_ask(self) -> bool:
        """Whether all of it would fit now, or is owed to its queue; looked at once a second."""
        if not self.has_several and self.spec.elastic is None:
            return True
        now = time.monotonic()
        if now < self._not_before:
            return False
        self._not_before = now + _LOOK
        self._waits = True
        with suppress(ClusterError):
            scheduler = read_scheduler(self._rm.get("/ws/v1/cluster/scheduler"))
            nodes = read_nodes(self._rm.get("/ws/v1/cluster/nodes"))
            spec = self.spec if self._is_fixed else self._whole
            found = next((one for one in _sizes(spec) if fits(one, nodes, scheduler)), None)
            self._patience = _PREEMPTS if found is None else _PATIENCE
            found = found or next((one for one in _sizes(spec) if is_owed(one, scheduler)), None)
            settles = now < self._settled_at and (found is None or found.tasks != spec.tasks)
            self._waits = found is None or settles
            if found is not None and not settles:
                self.spec = found
        return not self._waits

    def is_late(self, came: int) -> bool:
        """Whether `came` containers have waited for the rest for too long.

        It is not to be asked for again for a random time then.
        """
        now = time.monotonic()
        if came != self._came:
            self._came, self._came_at = came, now
        if not 0 < came < self.size or now - self._came_at < self._patience:
            return False
        self._not_before = now + random.uniform(*_BACK_OFF)  # noqa: S311 - no secret
        self._came, self._waits = 0, True
        return True


def _sizes(spec: JobSpec) -> Iterator[JobSpec]:
    """Yield a job with each number of workers that it may have, the most first."""
    if (role := spec.elastic) is None:
        yield spec
        return
    for count in range(role.count, (role.least or 1) - 1, -1):
        yield spec.sized(count)


def room_for(spec: JobSpec, nodes: Sequence[Node], scheduler: Scheduler) -> int:
    """Return how many workers more an elastic job could have of what nobody waits for.

    Parameters
    ----------
    spec
        The job.
    nodes
        All of the cluster's.
    scheduler
        The queues, as they are now.
    """
    if (role := spec.elastic) is None or any(
        amount for queue in scheduler.leaves for amount in queue.waiting.values()
    ):
        return 0
    more = (replace(role, count=count, least=None) for count in range(role.count, 0, -1))
    found = (one.count for one in more if fits(replace(spec, roles=(one,)), nodes, scheduler))
    return next(found, 0)


def is_owed(spec: JobSpec, scheduler: Scheduler) -> bool:
    """Whether others would be preempted for all containers of a job, as soon as it asks.

    Parameters
    ----------
    spec
        The job.
    scheduler
        The queues, as they are now.
    """
    queue = scheduler.find(spec.queue or DEFAULT)
    if queue is None or spec.options.get("node_label"):
        return False
    if not any(other.loses for other in scheduler.leaves if other is not queue):
        return False
    wanted = asked_for(spec)
    above = (one for one in scheduler.queues if f"{queue.path}.".startswith(f"{one.path}."))
    left = [scheduler.owed(one) for one in above if one.path != "root"]
    return bool(left) and all(one is not None and not lacking(wanted, one) for one in left)


# How a job comes to its containers: by a warm master, or by an application of its own.


_ENDED = ("SUCCEEDED", "FAILED", "KILLED")
_ON_ITS_WAY = 20.0
"""Seconds after which an application that was asked for is there, or never will be."""
_GATHERED = 60.0  # seconds that an application's nodes take at most to gather its logs
_LOOK_EVERY = 0.25  # seconds, once all containers are there: how they end is seen elsewhere first
_STATES = ("WAITING", "REQUESTED", "RUNNING", *_ENDED)
_PREEMPTED = "Container preempted"  # `SchedulerUtils.PREEMPTED_CONTAINER` of YARN


class Allocator(ABC):
    """How one job asks for its containers.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    paths
        The job's files; ``yarn.json`` among them says what an earlier keeper, or attempt, has asked
        for.
    spec
        The job, with every role's resources a number.
    launch
        The content of ``launch.json``.
    attempt
        How often the job has been begun, this time included.
    """

    mode: ClassVar[str]
    """The option's word for it; it is noted in ``yarn.json``, which the next keeper reads."""
    note = ""
    ends_with_job = False
    """Whether the application is over as soon as the job is."""

    def __init__(
        self,
        services: Services,
        paths: JobPaths,
        spec: JobSpec,
        launch: Mapping[str, Any],
        attempt: int = 1,
    ) -> None:
        self._services = services
        self._paths = paths
        self._launch = launch
        self._attempt = attempt
        noted = read_json(paths.root / "yarn.json") or {}
        if noted.get("attempt", 1) < attempt:
            noted = {"given_back": self._all_of(noted)}
        self.app_id: str = noted.get("app_id", "")
        self._master_asked: float | None = noted.get("master_asked")
        self._master_ran: float | None = noted.get("master_ran")
        self._instances: dict[str, str] = noted.get("instances", {})
        self._known = {
            task: Allocated(*found) for task, found in noted.get("containers", {}).items()
        }
        # What was asked for and is not noted yet: a keeper may be killed between the two. The next
        # one adopts it, and asks for nothing twice.
        self._asking: dict[str, Any] = noted.get("asking") or {}
        # What is over and carries the job's id: never adopted again.
        self._given_back: list[str] = noted.get("given_back") or []
        self._seen: dict[str, skein.Container] = {}
        self._app: skein.ApplicationClient | None = None
        self.gang = Gang(services.rm, spec, noted.get("workers"), again=attempt > 1)
        self._has_told = False
        self._asked_stacks: set[str] = set()
        self._brought_calls: set[str] = set()
        self._let_inside: set[str] = set()
        self._looked_at = 0.0
        self.token = ""
        """By which the containers ask HDFS that were asked for last; empty where nobody knows."""
        self._board = TensorBoardService(services, paths.job_id, spec)
        self._board.address = noted.get("board", "")

    @property
    def _spec(self) -> JobSpec:
        """The job as it is asked for, see `Gang.spec`."""
        return self.gang.spec

    @property
    def master(self) -> tuple[float, float] | None:
        """When its master was asked for, and when it ran; None where nobody has seen both."""
        asked, ran = self._master_asked, self._master_ran
        return None if asked is None or ran is None else (asked, ran)

    @property
    def begun(self) -> bool:
        """Whether YARN may know of the job: of its containers, or of a request for them."""
        return bool(self._asking or self._instances)

    @property
    def ahead(self) -> int:
        """How many jobs of the same application asked before this one."""
        return 0

    @abstractmethod
    def ask(self) -> AllocatedByTask | None:
        """Return the containers so far by task; None while nothing could be asked for yet.

        Raises
        ------
        ClusterError
            There is no way to any, for good.
        """

    @staticmethod
    @abstractmethod
    def _all_of(noted: Mapping[str, Any]) -> list[str]:
        """Return what an attempt that is over had of YARN, and those before it."""

    @abstractmethod
    def give_back(self) -> None:
        """End what came of a gang, and forget it."""

    @abstractmethod
    def withdraw(self) -> None:
        """Ask for nothing any more, and end what there is.

        Raises
        ------
        ClusterError
            YARN cannot be told now.
        """

    def end_sidecars(self) -> None:  # noqa: B027 - of applications that are the job's own
        """End the job's sidecars: its own containers are all over."""

    def sidecars(self) -> dict[str, str]:
        """Return the sidecars' containers, which ask HDFS as the job's own do: id by role.

        `exchange` brings them messages by these names.
        """
        return {}

    @abstractmethod
    def close(self) -> None:
        """Let go of what this job held."""

    def _enough(self) -> AllocatedByTask | None:
        """Return the containers so far where the job begins with them, a gang with all; or None."""
        known = self._known
        return None if self.gang.has_several and len(known) < self.gang.size else known or None

    def _look_for_all(self) -> AllocatedByTask | None:
        """Look at what the master says; a gang whose rest does not come is given back."""
        if self.gang.is_late(len(self._poll())):
            self.give_back()
        return self._enough()

    def _forget(self) -> None:
        self.gang.forget()
        self._instances, self._known, self._asking = {}, {}, {}
        self._seen = {}  # the next master gives its containers the same names
        self._note_down()

    def _note_asking(self, task: str = "") -> None:
        """Note that the application, or the container of a task, is being asked for."""
        self._asking = {"task": task, "at": time.time()}
        self._note_down()

    def _note_asked(self) -> None:
        self._asking = {}
        self._note_down()

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages to tasks, and theirs back, by the store of the application's master.

        Raises
        ------
        ClusterError
            It does not answer.
        """
        if self._app is None:
            raise ClusterError("the application's master does not answer yet", where=self.app_id)
        job_id = self._paths.job_id
        containers = {**self.sidecars(), **{task: one.id for task, one in self._known.items()}}
        try:
            self._has_told = self._has_told or bool(messages)
            for task, told in messages.items():
                for name, data in told.items():
                    if name == ASK:
                        self._app.kv.discard(key(job_id, containers[task], STACKS))
                        self._asked_stacks.add(task)
                    elif name == CALLS:
                        self._brought_calls.add(task)
                    elif name == INSIDE_ASK:
                        self._let_inside.add(task)
                    self._app.kv.put(key(job_id, containers[task], name), data)
            wanted = [
                (task, name, key(job_id, container.id, name))
                for task, container in self._known.items()
                for name, is_said in (
                    (HELLO, self.gang.has_several),
                    (STACKS, task in self._asked_stacks),
                    (TAKEN, task in self._brought_calls),
                    (INSIDE, task in self._let_inside),
                )
                if is_said and not messages
            ]
            found: dict[str, dict[str, bytes]] = {}
            for task, name, where in wanted:
                if (data := self._app.kv.get(where)) is not None:
                    found.setdefault(task, {})[name] = data
        except Exception as error:
            raise_unless_silent(self.app_id, error)
            raise ClusterError(f"the application's master is silent: {error}") from error
        return found

    def forget(self) -> None:
        """Remove what is left of a job's messages: its master may live on."""
        if self._app is not None and (self.gang.has_several or self._has_told):
            with suppress(Exception):
                self._app.kv.discard_prefix(f"{PREFIX}/{self._paths.job_id}/")

    def words(self, task: str) -> str:
        """Return what the application's master says of how the container of `task` ended."""
        with suppress(Exception):
            self._looked_at = 0.0
            self._poll()
        return self._said(task)

    def container(self, task: str) -> Allocated | None:
        """Return the task's container; None where it has none yet."""
        return self._known.get(task)

    def is_preempted(self, task: str) -> bool:
        """Return whether the scheduler has taken the task's container back, as its master says."""
        return self._said(task).startswith(_PREEMPTED)

    def _said(self, task: str) -> str:
        container = self._seen.get(self._instances.get(task, ""))
        said = str(getattr(container, "exit_message", "") or "")
        return " ".join(said.split())[:500]

    def is_new(self, container_id: str) -> bool:
        """Return whether the ResourceManager may not show the container `container_id` yet."""
        found = [c for c in self._seen.values() if c.yarn_container_id == container_id]
        return any(str(c.state) in ("WAITING", "REQUESTED") for c in found)

    def is_over(self, task: str) -> bool:
        """Return whether the application's master was told that the task's container has ended."""
        seen = self._seen.get(self._instances.get(task, ""))
        return seen is not None and str(seen.state) in _ENDED

    def _poll(self) -> AllocatedByTask:
        if self._app is None:
            return {}
        now = time.monotonic()
        if len(self._known) == len(self._instances) and now - self._looked_at < _LOOK_EVERY:
            return self._known
        self._looked_at = now
        for container in self._app.get_containers(states=_STATES):
            self._seen[container.id] = container
        known = dict(self._known)
        for task, instance in self._instances.items():
            seen = self._seen.get(instance)
            if seen is not None and seen.yarn_container_id and task not in known:
                began = seen.start_time.timestamp() if seen.start_time else 0.0
                known[task] = Allocated(seen.yarn_container_id, seen.yarn_node_http_address, began)
        if known != self._known:
            self._known = known
            self._note_down()
        return known

    def _note_down(self) -> None:
        write_json(
            self._paths.root / "yarn.json",
            {"version": 1, "mode": self.mode, "app_id": self.app_id,
             "instances": self._instances, "containers": self._known,
             "board": self._board.address, "asking": self._asking,
             "given_back": self._given_back, "attempt": self._attempt,
             "workers": self.gang.workers, "master_asked": self._master_asked,
             "master_ran": self._master_ran},
        )  # fmt: skip

    def _environment(
        self, role: Role, task: str | None, beside: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return what brings a task (None: each task of a role) its payload.

        Parameters
        ----------
        beside
            Variables that are sent with it, and that others are not to see.
        """
        plan = {
            **task_plan(
                self._spec, task or role.tasks[0], job_id=self._paths.job_id, bundle="",
                entry=self._launch["entry"], workdir="", home=self._launch.get("home"),
                attempt=self._attempt,
            ),
            "workdir": None, "results": ".", "env": {}, "metrics": False,
            "anew": bool(self._spec.env or self._spec.secrets),
            "beside": self._launch.get("beside", []),
            "calls": self._spec.parent is not None,
            "environment": {
                **self._data_access(),
                **job_variables(self._paths.job_id, self._spec, role, task),
            },
        }  # fmt: skip
        large: Mapping[str, str] = self._launch.get("large", {})
        archive = application.pack(self._paths, plan, large, self._results_key())
        plain = {application.PYTHON: self._launch["here"]}
        secret = {
            **noted_values(self._paths.root),
            **self._services.logs.variables(self._paths.job_id),
            **(beside or {}),
        }
        if large:
            if (there := self._services.hdfs) is None:
                raise ClusterError(
                    "HDFS, where the job's values are, does not answer",
                    where=self._paths.job_id,
                    fix="see `submarine doctor --cluster yarn`",
                )
            address = uploads.cache_path(there, DIGEST, uploads.LARGE_SUFFIX)
            secret[LARGE] = there.url_for_container(address)
        hdfs = self._services.hdfs if len(archive) > application.INLINE_LIMIT else None
        if hdfs is not None:
            secret[URL] = hdfs.url_for_container(uploads.upload_once(hdfs, archive, ".z"))
            archive = b""
        if len(archive) > application.INLINE_MOST:
            raise ClusterError(
                f"the job's bundle has {len(archive):,} bytes, and there is no HDFS to bring it by",
                where=self._paths.job_id,
                fix="capture less, or let WebHDFS be reached (submarine doctor --cluster yarn)",
            )
        return {**application.chunks(secret, archive, self._services.key), **plain}

    def _results_key(self) -> bytes:
        """Return the key that the job's results are marked with."""
        path = self._paths.results_key
        if not path.exists():
            write_aside(path, os.urandom(KEY_SIZE))
        return path.read_bytes()

    def _data_access(self) -> dict[str, str]:
        """Return what lets the job's own code read HDFS; nothing where that does not answer."""
        with suppress(ClusterError):
            if (hdfs := self._services.hdfs) is not None:
                self.token = hdfs.delegation_token()  # first: what follows has it, or a newer one
                kept = uploads.checkpoint_folder(hdfs, self._paths.job_id)
                return {
                    **hdfs.container_environment(),
                    **hdfs.runtime_environment(),
                    "SUBMARINE_CHECKPOINT_PATH": hdfs.uri(kept),  # unless the job names another
                }
        return {}


def raise_unless_silent(app_id: str, error: Exception) -> None:
    """Pass over a master that is silent: whether it is gone, the ResourceManager knows.

    Parameters
    ----------
    app_id
        The application, for the error's words.
    error
        What a call to its master has raised.

    Raises
    ------
    ClusterError
        The error is none of a silent master.
    """
    if isinstance(error, ClusterError):
        raise error
    name = type(error).__name__
    if name not in ("ConnectionError", "TimeoutError", "ApplicationError", "RpcError"):
        raise ClusterError(f"skein says: {name}: {error}", where=app_id) from error


def job_variables(job_id: str, spec: JobSpec, role: Role, task: str | None) -> dict[str, str]:
    """Return a task's environment besides the container's own.

    Parameters
    ----------
    job_id
        The job's id.
    spec
        The job.
    role
        The task's.
    task
        Which task; None for all of the role.
    """
    # Where the container has no IPython to draw with, the runtime draws without.
    backend = INLINE if spec.notebook else "Agg"
    found = {"PYTHONUNBUFFERED": "1", "SUBMARINE_JOB_ID": job_id, "MPLBACKEND": backend}
    if role.resources.vcores:
        found.update(thread_limits(role.resources.vcores))
    found.update(spec.env)
    if task is not None:
        found["SUBMARINE_TASK"] = task
    for name, path in (("INPUT", spec.input_path), ("CHECKPOINT", spec.checkpoint_path)):
        if path is not None:
            here = file_address(path, f"--{name.lower()}_path")
            found[f"SUBMARINE_{name}_PATH"] = path if here is None else str(here)
    return found


# Jobs by a warm master: an application that is kept for a notebook, without a GPU.


_OUTSTANDING = ("WAITING", "REQUESTED")
# Seconds for one go: a master that heartbeats every 0.2 s has no answer to the first by then.
_BURST = 0.15
_SKEW = 30.0  # seconds by which a master's clock may be behind ours


def master_key(services: Services, spec: JobSpec, launch: Mapping[str, Any]) -> str:
    """Return what tells masters apart: whose they are, and the shape of their containers.

    A pool's workers have one of their own: so all of a sweep is one application to YARN.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    spec
        The job.
    launch
        The content of ``launch.json``.
    """
    owner = spec.parent or services.session(launch)
    return f"{owner}:{shape_key(spec, launch['environment'])}"


def has_master(services: Services, spec: JobSpec, launch: Mapping[str, Any]) -> bool:
    """Whether a master that would do for such a job is kept already.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    spec
        The job.
    launch
        The content of ``launch.json``.
    """
    return services.masters.keeps(master_key(services, spec, launch))


def take_master(
    services: Services, spec: JobSpec, launch: Mapping[str, Any], app_id: str = ""
) -> Master:
    """Return the master of such jobs, for one job more; it may still be starting.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    spec
        The job.
    launch
        The content of ``launch.json``.
    app_id
        The application in which the job has containers already; empty for none.
    """

    def make() -> skein.ApplicationSpec:
        return describe_application(spec, services.folder, launch, job_id=None, environments={})

    master = Master(
        master_key(services, spec, launch),
        services.session(launch),
        spec.queue,
        spec.parent,
    )
    return services.masters.take(master, make, probed=bool(launch["probed"]), app_id=app_id)


def jobs_ahead(
    seen: Iterable[skein.Container], mine: Collection[str], asked_by: Mapping[str, str]
) -> int:
    """Return how many jobs asked for a container before this one did, and still wait for it.

    Parameters
    ----------
    seen
        The containers of the master, in the order in which they were asked for.
    mine
        Skein's ids of this job's; empty where it has not asked.
    asked_by
        The job of each, by skein's id; those of no known job count as one's.
    """
    before = takewhile(lambda container: container.id not in mine, seen)
    return len({asked_by.get(one.id) for one in before if str(one.state) in _OUTSTANDING})


class SharedApplication(Allocator):
    """Through the notebook's own master: ready, and without a GPU between jobs."""

    mode = "warm"
    _master: Master | None = None

    @property
    def ahead(self) -> int:
        """How many jobs asked the same master before this one, and still wait."""
        asked_by = self._master.asked_by if self._master else {}
        asked = jobs_ahead(self._seen.values(), set(self._instances.values()), asked_by)
        return asked + self._services.submit_queue.before(self._paths.job_id)

    @property
    def has_master(self) -> bool:
        """Whether a master that would do is kept already."""
        return has_master(self._services, self._spec, self._launch)

    def ask(self) -> AllocatedByTask | None:
        """Ask the master, as soon as it runs."""
        if self._app is None:
            if self._master is None:
                self._services.submit_queue.name(self._paths.job_id, self._key)
                self._master_asked = self._master_asked or time.time()
                mine = self.app_id if self.begun else ""
                self._master = take_master(self._services, self._spec, self._launch, mine)
            if not self._master.ready.wait(_TURN):
                if not self._known:
                    self.app_id = self._master.app_id
                return self._enough()  # of a job that runs: its log needs no master
            if self._master.failure is not None:
                self._services.masters.drop(self._master)
                if (known := self._enough()) is not None:
                    return known
                raise self._master.failure
            self._check_probe(self._master)
            self._app, self.app_id = self._master.app, self._master.app_id
            self._master_ran = self._master_ran or time.time()
        try:
            if self._is_asked() or (self._may_ask() and self._add()):
                self._services.submit_queue.leave(self._paths.job_id)
            return self._look_for_all()
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            if self._enough() is None:
                self._begin_anew()
            return self._enough()

    @staticmethod
    def _all_of(noted: Mapping[str, Any]) -> list[str]:
        """Return the containers of an attempt, by their masters: each numbers its own."""
        app_id, found = noted.get("app_id", ""), noted.get("instances", {}).values()
        return [*noted.get("given_back", ()), *(f"{app_id}/{one}" for one in found)]

    def give_back(self) -> None:
        """End what came, and stand in the line again."""
        self.withdraw()
        noted = {"app_id": self.app_id, "instances": self._instances}
        self._given_back += self._all_of(noted)
        self._forget()
        self._services.submit_queue.join(self._paths.job_id)
        self._services.submit_queue.name(self._paths.job_id, self._key)

    def withdraw(self) -> None:
        """End the job's own containers."""
        if self._app is not None:
            if self._asking and self._master is not None:
                # What another job of this master is just asking for is none of this one's.
                with self._master.asking:
                    self._adopt()
            for instance in self._instances.values():
                with suppress(Exception):
                    self._app.kill_container(instance)

    def close(self) -> None:
        """Give the master back."""
        self._services.submit_queue.leave(self._paths.job_id)
        if self._master is not None:
            self._services.masters.give(self._master)
            self._master = None

    def _begin_anew(self) -> None:
        """Forget a master that is gone, before the job got anything of it."""
        with suppress(ClusterError):
            if self._services.rm.application(self.app_id)["state"] in FINAL:
                if self._master is not None:
                    self._services.masters.drop(self._master)
                    self.close()
                self._app, self.app_id, self._master_ran = None, "", None
                self._forget()

    @property
    def _key(self) -> str:
        return master_key(self._services, self._spec, self._launch)

    def _check_probe(self, master: Master) -> None:
        """Refuse, before a GPU is asked for, what the interpreter there cannot run."""
        if master.probe is None or self._known:
            return
        found = read_probe(master.probe, self._launch["python"])
        needed = self._launch["needed"]
        check_versions(self._launch["here"], found["python"], needed=needed, found=found)

    def _is_asked(self) -> bool:
        return not self._left

    @property
    def _left(self) -> list[tuple[Role, str]]:
        """What is not asked for yet, the largest first: the small ones fit in beside it."""
        left = [(r, task) for r in self._spec.roles for task in r.tasks]
        missing = [(role, task) for role, task in left if task not in self._instances]
        return sorted(missing, key=lambda one: _size(one[0].resources), reverse=True)

    def _may_ask(self) -> bool:
        if not self._services.submit_queue.is_turn(self._paths.job_id):
            return False
        return bool(self._instances) or self.gang.may_ask()

    def _add(self) -> bool:
        """Ask for what was not asked for yet, as far as that can be done now; whether it is all.

        A gang is asked for in one go: skein counts priorities on while nothing comes or ends. When
        something has, it counts on from the *lowest* outstanding one (YARN's priorities compare
        the other way round), so that with two outstanding a third may take the place of the second,
        which then waits for ever. Hence all else waits until one is outstanding at most.
        """
        assert self._app is not None  # noqa: S101 - `ask` has it
        assert self._master is not None  # noqa: S101 - likewise
        payloads: dict[str, dict[str, str]] = {}
        with self._master.asking:
            if self._asking:
                self._adopt()
            alone = self._master.jobs == 1 and not self._instances
            until = 0.0
            for role, task in (left := self._left):
                if time.monotonic() > until:
                    waiting = () if alone else self._app.get_containers(states=_OUTSTANDING)
                    if len(waiting) > 1:
                        return False
                    payloads = payloads or {
                        task: self._environment(role, task) for role, task in left
                    }
                    self._master.wait_to_ask(self._services.rm, _size(role.resources), waiting)
                    alone = False
                    until = 0.0 if waiting else time.monotonic() + _BURST
                self._note_asking(task)
                added = self._app.add_container(service_name(role), payloads[task])
                self._master.asked[added.id] = _size(role.resources)
                self._master.asked_by[added.id] = self._paths.job_id
                self._instances[task] = added.id
                self._note_asked()
        return True

    def _adopt(self) -> None:
        """Take the container that was asked for, and is not noted, where the master has it.

        Jobs ask a master one after another, and note what they got before the next one asks. So a
        container that nobody has noted is the one that was being asked for.
        """
        assert self._app is not None  # noqa: S101 - `ask` has it
        task, at = str(self._asking["task"]), float(self._asking["at"])
        role = next(role for role in self._spec.roles if task in role.tasks)
        noted = set()
        for path in self._paths.root.parent.glob("*/yarn.json"):
            told = read_json(path) or {}
            if told.get("app_id") == self.app_id:
                noted.update(told.get("instances", {}).values())
            former = (one.partition("/") for one in told.get("given_back", ()))
            noted.update(one for app_id, _, one in former if app_id == self.app_id)
        for found in self._app.get_containers(services=[service_name(role)], states=_STATES):
            # One that is over may be of a job whose folder is deleted.
            began = found.start_time.timestamp() if found.start_time else at
            late = str(found.state) not in _ENDED or began > at - _SKEW
            if found.id not in noted and late:
                self._instances[task] = found.id
                break
        self._note_asked()


def _size(asked: Resources) -> Size:
    """Return how large a container is, in the order in which YARN compares them."""
    return asked.memory or 0, asked.vcores or 0, asked.gpus or 0


# Jobs by an application of their own, which ends with the job.


class DedicatedApplication(Allocator):
    """By an application of the job's own, which ends with it."""

    mode = "cold"
    ends_with_job = True
    _closed = False
    _thread: threading.Thread | None = None
    _failure: SubmarineError | None = None
    _is_over = False

    def ask(self) -> AllocatedByTask | None:
        """Ask the application's master, as soon as it runs."""
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            return self._known
        if self._app is None:
            if self._thread is None:
                self._services.submit_queue.leave(self._paths.job_id)
                if not self.app_id and not self.gang.may_ask():
                    return None
                self._thread = threading.Thread(target=self._start, daemon=True)
                self._thread.start()
            self._thread.join(_TURN)
            return self._enough()  # of a job that runs: its log needs no master
        try:
            if self._board.step(self._app, self._seen):
                self._note_down()
            return self._look_for_all()
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            if self._enough() is None:
                self._raise_if_over()
            return self._enough()

    def _raise_if_over(self) -> None:
        with suppress(ClusterError):
            report = self._services.rm.application(self.app_id)
            if report["state"] in FINAL:
                self._take_gathered()
                self._is_over = True
            if report["state"] in FINAL and not self._known:
                self._failure = ClusterError(
                    f"the application ended before the job began: {over_words(report)}",
                    where=self.app_id,
                )

    def _take_gathered(self) -> None:
        """Take the containers of an application that was over before anybody saw them.

        Its master has ended it (else none of them may ever have run): a short job, and a keeper
        that was killed or slow.
        """
        until = time.monotonic() + _GATHERED
        with suppress(ClusterError, OSError):
            while not self._known and self.app_id:
                report = self._services.rm.application(self.app_id)
                if report["state"] != "FINISHED" or time.monotonic() > until:
                    return
                if aggregation(report) is not Aggregation.WAITING:
                    break
                time.sleep(_LOOK_EVERY)
            else:
                return
            found = gathered_tasks(
                self.app_id, hadoop=self._services.conf.folder, scratch=self._paths.root
            )
            began = float(report.get("startedTime") or 0) / 1000
            self._known = {task: Allocated(one, "", began) for task, one in found.items()}
            self._note_down()

    @property
    def begun(self) -> bool:
        """Whether YARN may know of the job's application."""
        return bool(self._asking or self.app_id or self._thread)

    @staticmethod
    def _all_of(noted: Mapping[str, Any]) -> list[str]:
        """Return the application of an attempt, and those before it."""
        return [*noted.get("given_back", ()), *filter(None, [noted.get("app_id", "")])]

    def give_back(self) -> None:
        """End the application."""
        try:
            self.withdraw()
        except ClusterError:  # it is still late when it is looked at again
            return
        self.close()
        self._given_back.append(self.app_id)
        self._app, self._thread, self.app_id, self._closed = None, None, "", False
        self._forget()

    def withdraw(self) -> None:
        """End the application."""
        if not self.app_id and self._thread is not None and self._thread.is_alive():
            raise ClusterError("its application is being submitted", where=self._paths.job_id)
        if app_id := self.app_id or (self._tagged() if self._asking else ""):
            self._services.rm.kill(app_id)

    def end_sidecars(self) -> None:
        """End the TensorBoard beside the job."""
        self._board.end(self._app)

    def sidecars(self) -> dict[str, str]:
        """Return the container of the TensorBoard beside the job."""
        return self._board.containers(self._seen)

    def close(self) -> None:
        """Close the way to the master."""
        self._closed = True
        if self._app is not None:
            self._app.close()

    def _start(self) -> None:
        self._master_asked = self._master_asked or time.time()
        try:
            if not self.app_id:
                self.app_id = self._adopted()
            if not self.app_id:
                beside = self._board.worker_environment()
                environments = {
                    r.name: self._environment(r, None, beside) for r in self._spec.roles
                }
                described = describe_application(
                    self._spec, self._services.folder, self._launch,
                    job_id=self._paths.job_id, environments=environments,
                    board=self._board,
                )  # fmt: skip
                self._note_asking()
                self.app_id = self._services.driver.submit(described, self._adopted)
            if not self._instances:
                self._instances = {
                    task: f"{role.name}_{number}"
                    for role in self._spec.roles
                    for number, task in enumerate(role.tasks)
                }
                # First of all: whatever fails from here on, it is known what is to be ended.
                self._note_asked()
                priority = self._spec.options.get("priority")
                if priority is not None:
                    self._services.rm.set_priority(self.app_id, priority)
            wait_running(self._services.rm, self.app_id)
            self._master_ran = self._master_ran or time.time()
            self._app = self._services.driver.connect(self.app_id)
        except SubmarineError as error:
            self._take_gathered()
            self._failure = None if self._known else error
            self._is_over = True
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            self._failure = ClusterError(f"{type(error).__name__}: {error}")

    def _adopted(self) -> str:
        """Return the application that was asked for and is not noted; empty where there is none.

        It may still be on its way: skein's driver outlives a keeper.
        """
        if not self._asking:
            return ""
        left = float(self._asking["at"]) + _ON_ITS_WAY - time.time()
        until = time.monotonic() + min(left, _ON_ITS_WAY)
        while not self._closed:
            try:
                if (found := self._tagged()) or time.monotonic() > until:
                    return found
            except ClusterError:  # nobody knows: to ask anew could be to ask twice
                until = max(until, time.monotonic() + _LOOK)
            time.sleep(_LOOK_EVERY)
        raise ClusterError("nobody waits for it any more", where=self._paths.job_id)

    def _tagged(self) -> str:
        """Return the application that carries the job's id, but none that was given back."""
        tag = job_tag(self._paths.job_id)
        found = self._services.rm.applications(applicationTags=tag)
        return next((str(a["id"]) for a in found if a["id"] not in self._given_back), "")


# Which allocator a job has: the one that it began with, else the one for its mode.


def blind(services: Services) -> str:
    """Return why nothing of a container can be seen from here while its application lives.

    A warm application lives on after its job, and with it what only its end would show.

    Parameters
    ----------
    services
        What the keeper's jobs share, the way of their logs among it.
    """
    choice = services.logs.choice()
    return choice.why if choice.channel is Channel.AFTER else ""


def open_allocator(
    services: Services,
    paths: JobPaths,
    spec: JobSpec,
    launch: Mapping[str, Any],
    attempt: int = 1,
) -> Allocator:
    """Return a job's allocator: the one it began with, else the one for its ``--mode``.

    Where the log can only come after the application's end, the job has one of its own.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    paths
        The job's files.
    spec
        The job.
    launch
        The content of ``launch.json``.
    attempt
        How often the job has been begun, this time included.
    """
    noted = read_json(paths.root / "yarn.json")
    mode = noted["mode"] if noted else spec.options.get("mode", "auto")
    note = ""
    if not noted and (why := blind(services)):
        mode, note = "cold", f"its log comes after its end: {why}"
        with suppress(OSError):
            add_warning(paths, f"the log and the result came after the end only: {why}")
    elif mode == "auto" and spec.tensorboard:
        mode = "cold"  # skein proxies a page for as long as its application lives
    elif mode == "auto":
        one_of_several = spec.notebook or spec.parent
        mode = "warm" if one_of_several and "priority" not in spec.options else "cold"
        if mode == "warm":
            warm = SharedApplication(services, paths, spec, launch, attempt)
            if warm.has_master or master_fits(services.rm, spec.queue, MASTER_MEMORY):
                return warm
            mode = "cold"
            note = "one application for this job: the queue has no room for a warm one"
    allocator = (SharedApplication if mode == "warm" else DedicatedApplication)(
        services, paths, spec, launch, attempt
    )
    allocator.note = note
    return allocator
