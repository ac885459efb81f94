"""The TensorBoard beside a job on YARN: a container of its application, shown on its pages.

The role holds no GPU and is no part of the job: it is asked for once the others run, and ends with
them. skein keeps an application's tracking URL for its own page; what it proxies lies below that,
with a link on it.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import skein
from submarine_runtime.container import EVENTS
from submarine_runtime.sealing import seal

from submarine_engine.clusters.yarn import job_hdfs, tensorboard_main
from submarine_engine.clusters.yarn.hadoop import web_address
from submarine_engine.clusters.yarn.log_transport import Channel
from submarine_engine.errors import ClusterError, SubmarineError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hdfs import Hdfs
    from submarine_engine.clusters.yarn.services import Services
    from submarine_engine.job import JobSpec

TENSORBOARD_ROLE = "tensorboard"
MEMORY = 1024
"""Mebibytes of its container."""

_EVENTS = ".submarine/events"
_TARGET = re.compile(r"http://[A-Za-z0-9.-]{1,253}:[0-9]{1,5}/[A-Za-z0-9_-]{32}")
_LARGEST = 4096
_EVERY = 1.0  # seconds: it takes some to begin, and each look is a question to the master
_SCRIPT = """\
umask 027
L="${LOG_DIRS%%%%,*}"
exec >>"$L/stdout" 2>>"$L/stderr"
cat > submarine_hdfs.py <<'END_OF_HDFS'
%s
END_OF_HDFS
cat > board.py <<'END_OF_BOARD'
%s
END_OF_BOARD
exec "$SUBMARINE_PYTHON" board.py "$L"
"""


class TensorBoardService:
    """The TensorBoard beside one job; where there is no HDFS, or none is asked for, nothing.

    Parameters
    ----------
    services
        What the keeper's jobs share.
    job_id
        The job's id.
    spec
        The job.
    """

    def __init__(self, services: Services, job_id: str, spec: JobSpec) -> None:
        self._services = services
        self._job_id = job_id
        self._spec = spec
        self._looked_at = 0.0
        self.address = ""
        """Its page, once there is one."""

    def worker_environment(self) -> dict[str, str]:
        """Return what lets tasks bring their events to where it reads them."""
        hdfs = self._hdfs()
        if hdfs is None:
            return {}
        folder = self._folder(hdfs)
        hdfs.make_folder(folder)
        return {EVENTS: hdfs.url_for_container(folder)}

    def service(
        self, files: Mapping[str, skein.File], environment: Mapping[str, str]
    ) -> dict[str, skein.Service]:
        """Return its service by name; none where there is none.

        Parameters
        ----------
        files, environment
            As of the job's own containers.
        """
        hdfs = self._hdfs()
        if hdfs is None:
            return {}
        text = _SCRIPT % (inspect.getsource(job_hdfs), inspect.getsource(tensorboard_main))
        address = f"{hdfs.url.rstrip('/')}{self._folder(hdfs)}"
        own = {tensorboard_main.LOGDIR: address, tensorboard_main.TASKS: ",".join(self._spec.tasks)}
        access = json.dumps(hdfs.container_environment()).encode()
        sealed = seal(access, self._services.key)  # it may hold a token
        own[tensorboard_main.ACCESS] = base64.b64encode(sealed).decode()
        own[tensorboard_main.JOB] = self._job_id
        own["CUDA_VISIBLE_DEVICES"] = ""
        return {
            TENSORBOARD_ROLE: skein.Service(
                instances=1,
                resources=skein.Resources(memory=f"{MEMORY} MiB", vcores=1),
                depends=[role.name for role in self._spec.roles],
                env={**environment, **own},
                files=dict(files),
                script=text,
                allow_failures=True,
                node_label=self._spec.options.get("node_label", ""),
            )
        }

    def step(self, app: skein.ApplicationClient, seen: Mapping[str, skein.Container]) -> bool:
        """Show it on the application's pages as soon as it listens; whether it just was.

        Parameters
        ----------
        app
            The way to the application's master.
        seen
            The application's containers, as its master has told of them last, by skein's id.
        """
        if self.address or not self._spec.tensorboard:
            return False
        if time.monotonic() - self._looked_at < _EVERY:
            return False
        self._looked_at = time.monotonic()
        for container in _of_board(seen):
            with suppress(Exception):  # its node, or the master: both may be silent a while
                self.address = self._show(app, container)
        return bool(self.address)

    def containers(self, seen: Mapping[str, skein.Container]) -> dict[str, str]:
        """Return the id of its container as YARN has it, by its role; of none that has ended.

        Parameters
        ----------
        seen
            The application's containers, as its master has told of them last.
        """
        running = [one for one in _of_board(seen) if str(one.state) == "RUNNING"]
        return {str(one.service_name): str(one.yarn_container_id) for one in running}

    def end(self, app: skein.ApplicationClient | None) -> None:
        """End it, and so the application, with the job; its events are home.

        Parameters
        ----------
        app
            The way to the application's master; None where there is none.
        """
        if not self._spec.tensorboard:
            return
        if app is not None:
            with suppress(Exception):  # it may have ended by itself, with an error of gRPC's
                app.shutdown("SUCCEEDED")
        with suppress(SubmarineError):
            if (hdfs := self._hdfs()) is not None:
                hdfs.remove(self._folder(hdfs))

    def _show(self, app: skein.ApplicationClient, container: skein.Container) -> str:
        there = container.yarn_container_id, container.yarn_node_http_address
        with closing(self._services.logs.source(self._job_id, *there)) as source:
            if tensorboard_main.TOLD not in source.sizes():
                return ""
            told: dict[str, Any] = json.loads(source.read(tensorboard_main.TOLD, 0, _LARGEST))
        target = str(told["target"])
        if not _TARGET.fullmatch(target):
            return ""
        page = app.ui.get_pages().get(TENSORBOARD_ROLE)
        if page is None:
            page = app.ui.add_page(TENSORBOARD_ROLE, target, "TensorBoard")
        return web_address(f"{page.address.rstrip('/')}/") or ""

    def _hdfs(self) -> Hdfs | None:
        if not self._spec.tensorboard:
            return None
        if self._services.logs.choice().channel is not Channel.NODES:
            return None  # nobody could see where it listens
        try:
            return self._services.hdfs
        except ClusterError:
            return None

    def _folder(self, hdfs: Hdfs) -> str:
        return f"{hdfs.home}/{_EVENTS}/{self._job_id}"


def _of_board(seen: Mapping[str, skein.Container]) -> list[skein.Container]:
    """Return what TensorBoard was given, where YARN has given it something."""
    mine = [one for one in seen.values() if one.service_name == TENSORBOARD_ROLE]
    return [one for one in mine if one.yarn_container_id]
