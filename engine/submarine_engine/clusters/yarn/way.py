"""How a job comes to its containers: by a warm master, or by an application of its own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.container import DIGEST, LARGE, URL
from submarine_runtime.displays import INLINE

from submarine_engine.clusters.datapaths import file_address
from submarine_engine.clusters.environment import thread_limits
from submarine_engine.clusters.staging import task_plan
from submarine_engine.clusters.yarn import payload, uploads
from submarine_engine.clusters.yarn.board import BoardBeside
from submarine_engine.clusters.yarn.gang import GANG, Gang
from submarine_engine.errors import ClusterError
from submarine_engine.history import JobPaths, read_json, write_json

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.keeper import Services
    from submarine_engine.job import JobSpec, Role

_ENDED = ("SUCCEEDED", "FAILED", "KILLED")
_LOOK_EVERY = 0.25  # seconds, once all containers are there: how they end is seen elsewhere first
_STATES = ("WAITING", "REQUESTED", "RUNNING", *_ENDED)


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
    ends_with_job = False
    """Whether the application is over as soon as the job is."""

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
        self.gang = Gang(services.rm, spec)
        self._looked_at = 0.0
        self._board = BoardBeside(services, paths.job_id, spec)
        self._board.address = noted.get("board", "")

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
    def give_back(self) -> None:
        """End what came of a gang, and forget it."""

    @abstractmethod
    def withdraw(self) -> None:
        """Ask for nothing any more, and end what there is."""

    def end_beside(self) -> None:  # noqa: B027 - of applications that are the job's own
        """End what runs beside the job's own containers, which are all over."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what this job held."""

    def _enough(self) -> Asked | None:
        """Return the containers so far where the job begins with them, a gang with all; or None."""
        known = self._known
        return None if self.gang.is_one and len(known) < self.gang.size else known or None

    def _look_for_all(self) -> Asked | None:
        """Look at what the master says; a gang whose rest does not come is given back."""
        if self.gang.is_late(len(self._look())):
            self.give_back()
        return self._enough()

    def _forget(self) -> None:
        self._instances, self._known = {}, {}
        self._note_down()

    def words(self, task: str) -> str:
        """Return what the application's master says of a container's end."""
        with suppress(Exception):
            self._looked_at = 0.0
            self._look()
        container = self._seen.get(self._instances.get(task, ""))
        said = str(getattr(container, "exit_message", "") or "")
        return " ".join(said.split())[:500]

    def is_new(self, container_id: str) -> bool:
        """Return whether the ResourceManager may not show the container yet."""
        found = [c for c in self._seen.values() if c.yarn_container_id == container_id]
        return any(str(c.state) in ("WAITING", "REQUESTED") for c in found)

    def is_over(self, task: str) -> bool:
        """Return whether the application's master was told that the task's container has ended."""
        seen = self._seen.get(self._instances.get(task, ""))
        return seen is not None and str(seen.state) in _ENDED

    def _look(self) -> Asked:
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
                known[task] = Found(seen.yarn_container_id, seen.yarn_node_http_address, began)
        if known != self._known:
            self._known = known
            self._note_down()
        return known

    def _note_down(self) -> None:
        write_json(
            self._paths.root / "yarn.json",
            {"version": 1, "mode": type(self).__name__.lower(), "app_id": self.app_id,
             "instances": self._instances, "containers": self._known,
             "board": self._board.address},
        )  # fmt: skip

    def _environment(self, role: Role, task: str | None) -> dict[str, str]:
        """Return what brings a task (None: each task of a role) its payload."""
        plan = {
            **task_plan(
                self._spec, task or role.tasks[0], job_id=self._paths.job_id, bundle="",
                entry=self._launch["entry"], workdir="", home=self._launch.get("home"),
            ),
            "workdir": None, "results": ".", "env": {}, "anew": bool(self._spec.env),
            "beside": self._launch.get("beside", []),
            "environment": {
                **self._data_access(),
                **job_variables(self._paths.job_id, self._spec, role, task),
            },
        }  # fmt: skip
        large: Mapping[str, str] = self._launch.get("large", {})
        archive = payload.pack(self._paths, plan, large)
        own = {
            payload.PYTHON: self._launch["here"],
            **self._services.logs.variables(self._paths.job_id),
        }
        hdfs = (
            self._services.hdfs if self._spec.env or len(archive) > payload.INLINE_LIMIT else None
        )
        if self.gang.is_one:
            own[GANG] = "1"
        if large:
            if (there := self._services.hdfs) is None:
                raise ClusterError(
                    "HDFS, where the job's values are, does not answer",
                    where=self._paths.job_id,
                    fix="see `submarine doctor --cluster yarn`",
                )
            address = uploads.cache_path(there, DIGEST, uploads.LARGE_SUFFIX)
            own[LARGE] = there.url_for_container(address)
        if hdfs is not None:
            url = hdfs.url_for_container(uploads.upload_once(hdfs, archive, ".z"))
            return {URL: url, **own}
        if len(archive) > payload.INLINE_MOST:
            raise ClusterError(
                f"the job's bundle has {len(archive):,} bytes, and there is no HDFS to bring it by",
                where=self._paths.job_id,
                fix="capture less, or let WebHDFS be reached (submarine doctor --cluster yarn)",
            )
        return {**payload.chunks(archive), **own}

    def _data_access(self) -> dict[str, str]:
        """Return what lets the job's own code read HDFS; nothing where that does not answer."""
        with suppress(ClusterError):
            hdfs = self._services.hdfs
            return hdfs.container_environment() if hdfs is not None else {}
        return {}


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
