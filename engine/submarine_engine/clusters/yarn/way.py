"""How a job comes to its containers: by a warm master, or by an application of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.clusters.environment import thread_limits
from submarine_engine.clusters.staging import task_plan
from submarine_engine.clusters.yarn import payload, uploads
from submarine_engine.clusters.yarn.application import MASTER_MEMORY, application, shape_key
from submarine_engine.clusters.yarn.boot import URL
from submarine_engine.clusters.yarn.masters import FINAL, Master, wait_running
from submarine_engine.clusters.yarn.queues import master_fits
from submarine_engine.clusters.yarn.versions import check_versions, read_probe
from submarine_engine.errors import ClusterError, SubmarineError
from submarine_engine.history import JobPaths, read_json, write_json

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.keeper import Services
    from submarine_engine.job import JobSpec, Role

_STATES = ("WAITING", "REQUESTED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED")


class Found(NamedTuple):
    """A container that YARN gave; `began` on its wall clock."""

    id: str
    node: str
    began: float


Asked = Mapping[str, Found]


class Way(ABC):
    """How one job asks for its containers.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    """

    note = ""

    def __init__(
        self, services: Services, paths: JobPaths, spec: JobSpec, launch: Mapping[str, Any]
    ) -> None:
        self._services = services
        self._paths = paths
        self._spec = spec
        self._launch = launch
        noted = read_json(paths.root / "yarn.json") or {}
        self.app_id: str = noted.get("app_id", "")
        self._instances: dict[str, str] = noted.get("instances", {})
        self._known = {task: Found(*found) for task, found in noted.get("containers", {}).items()}
        self._seen: dict[str, skein.Container] = {}
        self._app: skein.ApplicationClient | None = None

    @property
    def ahead(self) -> int:
        """How many jobs of the same application asked before this one."""
        return 0

    @abstractmethod
    def ask(self) -> Asked | None:
        """Return the containers so far by task; None while nothing could be asked for yet.

        Raises
        ------
        ClusterError
            There is no way to any, for good.
        """

    @abstractmethod
    def withdraw(self) -> None:
        """Ask for nothing any more, and end what there is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what this job held."""

    def words(self, task: str) -> str:
        """Return what the application's master says of a container's end."""
        with suppress(Exception):
            self._look()
        container = self._seen.get(self._instances.get(task, ""))
        said = str(getattr(container, "exit_message", "") or "")
        return " ".join(said.split())[:500]

    def is_new(self, container_id: str) -> bool:
        """Return whether the ResourceManager may not show the container yet."""
        found = [c for c in self._seen.values() if c.yarn_container_id == container_id]
        return any(str(c.state) in ("WAITING", "REQUESTED") for c in found)

    def _look(self) -> Asked:
        if self._app is None:
            return {}
        for container in self._app.get_containers(states=_STATES):
            self._seen[container.id] = container
        known = dict(self._known)
        for task, instance in self._instances.items():
            seen = self._seen.get(instance)
            if seen is not None and seen.yarn_container_id and task not in known:
                began = seen.start_time.timestamp() if seen.start_time else 0.0
                known[task] = Found(seen.yarn_container_id, seen.yarn_node_http_address, began)
        if known != self._known:
            self._known = known
            self._note_down()
        return known

    def _note_down(self) -> None:
        write_json(
            self._paths.root / "yarn.json",
            {"version": 1, "mode": type(self).__name__.lower(), "app_id": self.app_id,
             "instances": self._instances, "containers": self._known},
        )  # fmt: skip

    def _environment(self, role: Role, task: str | None) -> dict[str, str]:
        """Return what brings a task (None: each task of a role) its payload."""
        plan = {
            **task_plan(
                self._spec, task or role.tasks[0], job_id=self._paths.job_id, bundle="",
                entry=self._launch["entry"], workdir="",
            ),
            "workdir": None, "results": ".", "env": {}, "gpus": role.resources.gpus or 0,
            "environment": job_variables(self._paths.job_id, self._spec, role, task),
        }  # fmt: skip
        archive = payload.pack(self._paths, plan)
        logs = self._services.logs.variables(self._paths.job_id)
        hdfs = (
            self._services.hdfs if self._spec.env or len(archive) > payload.INLINE_LIMIT else None
        )
        if hdfs is not None:
            url = hdfs.url_for_container(uploads.upload_once(hdfs, archive, ".tar.gz"))
            return {URL: url, **logs}
        if len(archive) > payload.INLINE_MOST:
            raise ClusterError(
                f"the job's bundle has {len(archive):,} bytes, and there is no HDFS to bring it by",
                where=self._paths.job_id,
                fix="capture less, or let WebHDFS be reached (submarine doctor --cluster yarn)",
            )
        return {**payload.chunks(archive), **logs}


class Warm(Way):
    """Through the notebook's own master: ready, and without a GPU between jobs."""

    _master: Master | None = None

    @property
    def ahead(self) -> int:
        """How many jobs of the same master wait before this one."""
        mine = set(self._instances.values())
        return sum(
            str(c.state) in ("WAITING", "REQUESTED") and key not in mine
            for key, c in self._seen.items()
        )

    def ask(self) -> Asked | None:
        """Ask the master, as soon as it runs."""
        if self._app is None:
            if self._master is None:
                self._master = self._take()
            if not self._master.ready.wait(0.02):
                self.app_id = self._master.app_id
                return None
            if self._master.failure is not None:
                self._services.masters.drop(self._master)
                if self._known:
                    return self._known
                raise self._master.failure
            self._check_probe(self._master)
            self._app, self.app_id = self._master.app, self._master.app_id
        try:
            if not self._instances:
                self._add()
            return self._look() or None
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            if not self._known:
                self._begin_anew()
            return self._known or None

    def withdraw(self) -> None:
        """End the job's own containers."""
        if self._app is not None:
            for instance in self._instances.values():
                with suppress(Exception):
                    self._app.kill_container(instance)

    def close(self) -> None:
        """Give the master back."""
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
                self._app, self.app_id, self._instances = None, "", {}
                self._note_down()

    def _take(self) -> Master:
        session = self._services.session(self._launch)
        key = f"{session}:{shape_key(self._spec, self._launch['environment'])}"

        def make() -> skein.ApplicationSpec:
            return application(
                self._spec, self._services.folder, self._launch, job_id=None, environments={}
            )

        probed = bool(self._launch["probed"])
        return self._services.masters.take(key, session, make, probed=probed)

    def _check_probe(self, master: Master) -> None:
        """Refuse, before a GPU is asked for, what the interpreter there cannot run."""
        if master.probe is None or self._known:
            return
        found = read_probe(master.probe, self._launch["python"])
        needed = self._launch["needed"]
        check_versions(self._launch["here"], found["python"], needed=needed, found=found)

    def _add(self) -> None:
        assert self._app is not None  # noqa: S101 - `ask` has it
        for role in self._spec.roles:
            for task in role.tasks:
                added = self._app.add_container(role.name, self._environment(role, task))
                self._instances[task] = added.id
        self._note_down()


class Cold(Way):
    """By an application of the job's own, which ends with it."""

    _thread: threading.Thread | None = None
    _failure: SubmarineError | None = None
    _is_over = False

    def ask(self) -> Asked | None:
        """Ask the application's master, as soon as it runs."""
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            return self._known
        if self._app is None:
            if self._thread is None:
                self._thread = threading.Thread(target=self._start, daemon=True)
                self._thread.start()
            self._thread.join(0.02)
            return None
        try:
            return self._look() or None
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            return self._known or None

    def withdraw(self) -> None:
        """End the application."""
        if self.app_id:
            with suppress(ClusterError):
                self._services.rm.kill(self.app_id)

    def close(self) -> None:
        """Close the way to the master."""
        if self._app is not None:
            self._app.close()

    def _start(self) -> None:
        try:
            if not self.app_id:
                environments = {r.name: self._environment(r, None) for r in self._spec.roles}
                described = application(
                    self._spec, self._services.folder, self._launch,
                    job_id=self._paths.job_id, environments=environments,
                )  # fmt: skip
                self.app_id = self._services.driver.submit(described)
                if self._spec.priority is not None:
                    self._services.rm.set_priority(self.app_id, self._spec.priority)
                self._instances = {
                    task: f"{role.name}_{number}"
                    for role in self._spec.roles
                    for number, task in enumerate(role.tasks)
                }
                self._note_down()
            wait_running(self._services.rm, self.app_id)
            self._app = self._services.driver.connect(self.app_id)
        except SubmarineError as error:
            self._failure = None if self._known else error
            self._is_over = True
        except Exception as error:  # noqa: BLE001 - the job must not wait for ever
            self._failure = ClusterError(f"{type(error).__name__}: {error}")


def open_way(services: Services, paths: JobPaths, spec: JobSpec, launch: Mapping[str, Any]) -> Way:
    """Return the way of a job: the one it is on already, else as its mode says."""
    noted = read_json(paths.root / "yarn.json")
    mode = noted["mode"] if noted else spec.mode
    note = ""
    if mode == "auto":
        mode = "warm" if spec.notebook and spec.priority is None else "cold"
        if mode == "warm" and not master_fits(services.rm, spec.queue, MASTER_MEMORY):
            mode, note = (
                "cold",
                "one application for this job: the queue has no room for a warm one",
            )
    way = (Warm if mode == "warm" else Cold)(services, paths, spec, launch)
    way.note = note
    return way


def raise_unless_silent(app_id: str, error: Exception) -> None:
    """Pass over a master that is silent: whether it is gone, the ResourceManager knows.

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
    """Return a task's environment besides the container's own."""
    found = {"PYTHONUNBUFFERED": "1", "SUBMARINE_JOB_ID": job_id, "MPLBACKEND": "Agg"}
    if role.resources.vcores:
        found.update(thread_limits(role.resources.vcores))
    found.update(spec.env)
    if task is not None:
        found["SUBMARINE_TASK"] = task
    for name, path in (("INPUT", spec.input_path), ("CHECKPOINT", spec.checkpoint_path)):
        if path is not None:
            found[f"SUBMARINE_{name}_PATH"] = path
    return found
