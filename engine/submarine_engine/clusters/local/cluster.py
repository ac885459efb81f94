"""The local cluster: the seam `Cluster`, over files, locks and processes of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from submarine_engine.asking import Line
from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.driver import RecordedCluster
from submarine_engine.clusters.local import launch
from submarine_engine.clusters.local.checks import check_spec
from submarine_engine.clusters.local.gpus import Inventory, inventory
from submarine_engine.clusters.local.queuefile import Ticket
from submarine_engine.clusters.local.saving import save_local
from submarine_engine.clusters.local.settle import settle
from submarine_engine.clusters.local.staging import put_on_record
from submarine_engine.clusters.local.tickets import Queue
from submarine_engine.clusters.local.waiting import tell_waiting
from submarine_engine.clusters.saved import Saved
from submarine_engine.clusters.saving import Asked
from submarine_engine.config import Config, load_config
from submarine_engine.errors import (
    ClusterError,
    SubmarineError,
    SubmissionError,
)
from submarine_engine.history import JobPaths
from submarine_engine.lifecycle import JobStatus

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec


class LocalCluster(RecordedCluster):
    """Jobs on this machine, one queue for all notebooks of the user, no daemon.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.
    grace
        Seconds between SIGTERM and SIGKILL for jobs submitted here; None takes the configured.
    log_page
        Gives the web address of a job's log by its id, where a front end serves one.
    """

    name: ClassVar[str] = "local"
    asks: ClassVar[bool] = True

    def __init__(
        self,
        home: Path | None = None,
        *,
        grace: float | None = None,
        log_page: Callable[[str], str | None] | None = None,
    ) -> None:
        super().__init__(home)
        self._grace = grace
        self._log_page = log_page
        self._queue = Queue(self.home)

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what this machine cannot do, and choose the number of GPUs where it is open."""
        return check_spec(spec, self._inventory())

    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:
        """Put the job on record and in the queue; return its id.

        Raises
        ------
        SubmissionError
            As `check` says; or a path is missing, or the disk is full. Nothing is left behind.
        ClusterError
            The queue is locked by a process that is stopped.
        """
        found = self._inventory()
        spec = check_spec(spec, found)
        config = load_config({"grace": self._grace})
        pool = tuple(device.id for device in found.devices) if spec.gpus else ()
        paths, lock = put_on_record(
            self.home,
            spec,
            bundle,
            workdir.absolute(),
            grace=config.value("grace"),
            pool=pool,
            idle=config.value("imports_idle") if _is_shared(spec, config) else None,
        )
        if spec.gpus:
            self._enqueue(paths, Ticket(paths.job_id, spec.name, spec.gpus, pool), lock)
        else:
            launch.start(paths, {}, lock)
        if spec.tensorboard:
            from submarine_engine.tensorboard.beside import start_beside  # noqa: PLC0415 - rare

            start_beside(self.home, paths)
        return paths.job_id

    def _enqueue(self, paths: JobPaths, ticket: Ticket, lock: int) -> None:
        try:
            self._queue.add(ticket)
        except BaseException as error:
            shutil.rmtree(paths.root, ignore_errors=True)
            if isinstance(error, OSError):
                raise SubmissionError(
                    f"the queue cannot be written: {error.strerror or error}",
                    where=str(self.home),
                    fix="make room there, or let SUBMARINE_HOME name a folder with room",
                ) from error
            raise
        finally:
            locks.drop(lock)
        try:
            if self._queue.grant():
                tell_waiting(paths, self._queue, JobStatus())
        except (OSError, ClusterError):  # it is in the queue: whoever looks next sees to it
            return
        except KeyboardInterrupt:
            with suppress(SubmarineError):
                self.cancel(paths.job_id, "interrupted while it was submitted")
            raise

    def save(self, job_id: str, path: str, *, patience: float | None = None) -> Saved:
        """Bring the model of a running job to the new folder `path`, while training goes on."""
        with self.on_record(job_id) as paths:
            return save_local(Asked(paths, lambda: self.status(job_id), patience), path)

    def take_question(self, job_id: str, task: str, number: int) -> Line | None:
        """Take a question of a task to answer it; None where it is over."""
        with self.on_record(job_id) as paths:
            return Line.take(paths.task(task).root / f"answer-{number}")

    def room(self) -> int:
        """Return what the disk of the jobs' folders has room for, with some left for logs."""
        folder = self.home
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return shutil.disk_usage(folder).free * 9 // 10

    def gpus(self) -> list[Gpu]:
        """Return this machine's GPUs and who holds each; `Gpu.memory` in mebibytes.

        Raises
        ------
        ConfigError
            ``SUBMARINE_LOCAL_GPUS`` is no number.
        """
        devices = self._inventory().devices
        holders = self._queue.holders([device.id for device in devices])
        return [
            Gpu(
                id=device.id,
                name=device.name,
                host=machine.host(),
                memory=device.memory and device.memory >> 20,
                job_id=(holder := holders[device.id]) and (holder.job_id or None),
            )
            for device in devices
        ]

    def log_url(self, job_id: str) -> str | None:
        """Return the web address of the job's log; None where no front end serves one."""
        return self._log_page(job_id) if self._log_page else None

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:
        """Settle a job that lost its supervisor; let one in the queue go on, and tell its place."""
        if not locks.is_free(paths.lock):
            return False
        if paths.job_id not in self._queue:
            return settle(paths, self._queue)
        with suppress(OSError, ClusterError):
            self._queue.care()
            return tell_waiting(paths, self._queue, status)
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:
        """Take the job out of the queue, or settle it where nobody runs it; `ask` rang the bell."""
        self._queue.cancel(paths.job_id, reason)
        if locks.is_free(paths.lock):
            settle(paths, self._queue)

    def _inventory(self) -> Inventory:
        return inventory(load_config().value("local_gpus"))


def _is_shared(spec: JobSpec, config: Config) -> bool:
    """Return whether a job may be forked from a process that has imported its libraries."""
    if spec.roles[0].command is not None:
        return False
    if spec.isolation is None:
        return spec.notebook is not None and bool(config.value("imports_ahead"))
    return spec.isolation == "shared"
