"""YARN: the seam `Cluster`, over jobs' folders and the keeper that fills them."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from submarine_engine.clusters import locks
from submarine_engine.clusters.base import Gpu, GpuShare
from submarine_engine.clusters.datapaths import file_address, resolve_paths
from submarine_engine.clusters.driver import RecordedCluster
from submarine_engine.clusters.saved import Saved
from submarine_engine.clusters.saving import Asked
from submarine_engine.clusters.staging import put_on_record
from submarine_engine.clusters.yarn.ahead import wish
from submarine_engine.clusters.yarn.folder import KeeperFolder
from submarine_engine.clusters.yarn.gpus import cluster_gpus, gpu_shares
from submarine_engine.clusters.yarn.hadoop import HadoopConf, is_named, load_hadoop
from submarine_engine.clusters.yarn.launch import make_launch, send_values
from submarine_engine.clusters.yarn.links import job_links
from submarine_engine.clusters.yarn.preflight import check_spec
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.saving import save_yarn
from submarine_engine.config import load_config
from submarine_engine.errors import JobNotFoundError, SubmissionError
from submarine_engine.history import (
    JobPaths,
    make_private,
    read_json,
    write_json,
)
from submarine_engine.lifecycle import JobStatus
from submarine_engine.tensorboard.beside import start_beside

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec

_BETWEEN_KEEPERS = 2.0


class YarnCluster(RecordedCluster):
    """Jobs as containers of Hadoop YARN.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.
    conf
        The cluster's configuration; the one that `find_conf` finds unless given.

    Raises
    ------
    ConfigError
        There is no configuration.
    """

    name: ClassVar[str] = "yarn"
    log_label: ClassVar[str] = "YARN LOG"

    @classmethod
    def configured(cls) -> bool:
        """Return whether there is a Hadoop configuration to use."""
        return is_named()

    def __init__(self, home: Path | None = None, conf: HadoopConf | None = None) -> None:
        super().__init__(home)
        self.conf = conf or load_hadoop()
        self._rm = ResourceManager(self.conf)
        self._folder = KeeperFolder(self.home, self.conf)
        self._tried_at = 0.0

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it."""
        return check_spec(spec, self.conf, self._rm)

    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:
        """Put the job on record and into the keeper's hands; return its id.

        Raises
        ------
        SubmissionError
            As `check` says; a path is missing, or the disk is full. Nothing is left behind.
        ClusterError
            The ResourceManager does not answer, or no keeper can be started.
        """
        workdir = workdir.absolute()
        spec = self.check(spec)
        resolve_paths(spec, workdir, file_address)
        launch = make_launch(self.conf, spec, bundle, self.tell)

        def finish(staged: JobPaths, _: JobPaths) -> None:
            for task in spec.tasks:
                make_private(staged.task(task).root)
            large = send_values(self.conf, staged.bundle, self.tell)
            write_json(staged.root / "launch.json", {**launch, "large": large})

        paths, lock = put_on_record(self.home, "yarn", spec, bundle, workdir, finish)
        locks.drop(lock)
        try:
            self._folder.make()
            (self._folder.open / paths.job_id).touch(mode=0o600)
            self._folder.ensure_keeper()
        except OSError as error:
            with suppress(OSError):
                (self._folder.open / paths.job_id).unlink(missing_ok=True)
            shutil.rmtree(paths.root, ignore_errors=True)
            raise SubmissionError(
                f"no keeper can be started for the job: {error.strerror or error}",
                where=str(self._folder.root),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error
        if spec.tensorboard:
            start_beside(self.home, paths)
        return paths.job_id

    def get_ready(self, notebook: str) -> None:
        """Have the keeper, skein's driver and a master without GPUs started for this process.

        Raises
        ------
        SubmarineError, OSError
            It cannot be: a job would say the same.
        """
        if load_config().value("yarn_ahead"):
            wish(self, self._folder, notebook)

    def save(self, job_id: str, path: str, *, patience: float | None = None) -> Saved:
        """Bring the model of a running job to the new folder `path`, while training goes on."""
        with self.on_record(job_id) as paths:
            asked = Asked(paths, lambda: self.status(job_id), patience)
            return save_yarn(asked, path, self.conf, self._rm)

    def gpus(self) -> list[Gpu]:
        """Return the cluster's GPUs and who holds each.

        Raises
        ------
        ClusterError
            The ResourceManager does not answer.
        """
        return cluster_gpus(self._rm, self._held_here())

    def gpu_shares(self) -> list[GpuShare]:
        """Return what every node and every queue has of the GPUs; raises as `gpus` does."""
        return gpu_shares(self._rm)

    def log_url(self, job_id: str) -> str | None:
        """Return the container's log page while the job runs, the application's page after."""
        return self.links(job_id).get("log")

    def links(self, job_id: str) -> dict[str, str]:
        """Return the web pages of a job: its log's, its application's, the cluster's."""
        with self.on_record(job_id) as paths:
            noted = read_json(paths.root / "yarn.json") or {}
            return job_links(self.conf, noted, self.statuses.status(paths))

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:  # noqa: ARG002 - the keeper knows
        """See to it that a keeper lives while a job is not over; it is the keeper that tells."""
        if (self._folder.open / paths.job_id).exists() and locks.is_free(self._folder.lock):
            now = time.monotonic()
            if now - self._tried_at > _BETWEEN_KEEPERS:
                self._tried_at = now
                with suppress(OSError):
                    self._folder.ensure_keeper()
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:  # noqa: ARG002 - the folder says it
        """Wake the keeper; start one where there is none."""
        self.attend(paths, JobStatus())
        self._folder.ring()

    def _held_here(self) -> dict[str, str]:
        """Return the jobs of this home by the containers that they hold."""
        held = {}
        for job_id in self._folder.open_jobs():
            with suppress(OSError, JobNotFoundError):
                for task in self.statuses.status(JobPaths(self.home, job_id)).tasks:
                    if task.container and not task.released:
                        held[task.container] = job_id
        return held
