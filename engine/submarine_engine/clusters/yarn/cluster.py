"""The YARN cluster as front ends call it: over jobs' folders, and the keeper that fills them.

``launch.json`` tells the keeper what it has to know of a job's submitter.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle.modules import ran_by_path
from submarine_engine.clusters import locks
from submarine_engine.clusters.base import Gpu, GpuShare, Saved
from submarine_engine.clusters.driver import RecordedCluster
from submarine_engine.clusters.environment import file_address, resolve_paths
from submarine_engine.clusters.machine import process_stat
from submarine_engine.clusters.saving import Asked
from submarine_engine.clusters.store import put_on_record
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.environments import (
    Environment,
    check_versions,
    local_versions,
    needed_versions,
    prepare_environment,
)
from submarine_engine.clusters.yarn.gpus import cluster_gpus, gpu_shares
from submarine_engine.clusters.yarn.hadoop import HadoopConf, is_named, job_links, load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.preflight import check_spec
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.saving import save_yarn
from submarine_engine.clusters.yarn.uploads import Tell, send_large
from submarine_engine.config import load_config
from submarine_engine.errors import JobNotFoundError, SubmissionError
from submarine_engine.history import JobPaths, make_private, read_json, write_json
from submarine_engine.job import JobSpec
from submarine_engine.lifecycle import JobStatus
from submarine_engine.records import iter_jobs
from submarine_engine.tensorboard.board import attach

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle

_LOOKED_AT = 50
_SENT = ("pack", ".zip", ".gz", ".tgz", ".tar")


def wish(cluster: YarnCluster, folder: KeeperFolder, notebook: str) -> None:
    """Ask the keeper for what the first job of this process will need.

    Containers of an application have one shape, so it is that of the notebook's last job, else of
    the last job of any notebook, else of a job without options.

    Raises
    ------
    SubmarineError
        The cluster does not answer, or takes no such job.
    OSError
        No keeper can be started.
    """
    last = last_job(folder.home, notebook)
    shape = JobSpec.from_json(last[0]) if last else JobSpec()
    spec = cluster.check(
        JobSpec(
            roles=shape.roles,
            queue=shape.queue,
            docker_image=shape.docker_image,
            environment=shape.environment,
            node_label=shape.node_label,
            notebook=notebook,
        )
    )
    launch = _launch(cluster, spec, last[1] if last else None)
    me = process_stat(os.getpid())
    if launch is None or me is None:
        return
    folder.make()
    content = {"version": 1, "spec": spec.to_json(), "launch": launch}
    write_json(folder.wishes / f"{os.getpid()}-{me.start}.json", content)
    folder.ensure_keeper()


def _launch(
    cluster: YarnCluster, spec: JobSpec, last: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return what an application has to know; None where that would take packing and sending.

    An archive of the last job is there already.
    """
    if not (spec.environment or "").lower().endswith(_SENT):
        return environment_launch(cluster.conf, spec)
    if last is None:
        return None
    fresh = environment_launch(cluster.conf, replace(spec, environment=None))
    return {**fresh, **{key: last[key] for key in ("python", "archives", "environment", "probed")}}


def last_job(home: Path, notebook: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the spec and ``launch.json`` of the job that the next one will most likely be like."""
    found = list(_warm_jobs(home))
    mine = (one for one in found if one[0].get("notebook") == notebook)
    return next(mine, next(iter(found), None))


def _warm_jobs(home: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the last jobs that notebooks have had on YARN by warm masters, the newest first."""
    for summary in islice(iter_jobs(home), _LOOKED_AT):
        if summary.cluster != "yarn":
            continue
        root = JobPaths(home, summary.id).root
        noted, record = read_json(root / "yarn.json"), read_json(root / "record.json")
        launch = read_json(root / "launch.json")
        if noted and record and launch and noted.get("mode") == "warm":
            yield record["spec"], launch


# What a keeper has to know of a job's submitter: ``launch.json``.


_ON_THE_NODES = (None, "same")


def make_launch(conf: HadoopConf, spec: JobSpec, bundle: Bundle, tell: Tell) -> dict[str, Any]:
    """Make a job's environment ready, and return the content of ``launch.json``.

    What people should know of the environment comes as a warning; what takes long is told.

    Raises
    ------
    SubmissionError
        There is no such environment, HDFS refuses it, or its Python is another one.
    """
    environment = _prepare(conf, spec, tell)
    launch = _common(spec, environment)
    needed = needed_versions(bundle.manifest.values)
    if not environment.probed:
        here, there = launch["here"], environment.versions
        check_versions(here, there.get("python", here), needed=needed, found=there)
    for note in environment.notes:
        warnings.warn(note, stacklevel=2)
    entry, home = bundle.manifest.entry, bundle.manifest.home()
    beside = ran_by_path(bundle.files)
    return {**launch, "needed": needed, "entry": entry, "home": home, "beside": beside}


def send_values(conf: HadoopConf, bundle: Path, tell: Tell) -> dict[str, str]:
    """Bring what is large in a job's bundle to HDFS, once for all jobs that have the same.

    Without HDFS all of a bundle has to travel with the request, and the keeper says where that is
    too much.

    Parameters
    ----------
    bundle
        Its folder, written.

    Returns
    -------
    dict
        The SHA-256 of each such file, by its path in the bundle.

    Raises
    ------
    SubmissionError
        HDFS refuses.
    """
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    large = [path for path in files if path.stat().st_size >= uploads.LARGE]
    hdfs = open_hdfs(conf) if large else None
    if hdfs is None:
        return {}
    with closing(hdfs):
        return send_large(hdfs, bundle, large, tell)


def environment_launch(conf: HadoopConf, spec: JobSpec) -> dict[str, Any]:
    """Return what an application of such jobs has to know, before there is one; raises likewise."""
    return _common(spec, _prepare(conf, spec, lambda _text: None))


def _common(spec: JobSpec, environment: Environment) -> dict[str, Any]:
    me = process_stat(os.getpid())
    return {
        "version": 1,
        "python": environment.python,
        "archives": dict(environment.archives),
        "environment": environment.key,
        "probed": environment.probed and environment.kind != "image",
        "here": local_versions(())["python"],
        "grace": load_config().value("grace"),
        "session": [os.getpid(), me.start] if spec.notebook and me else None,
    }


def _prepare(conf: HadoopConf, spec: JobSpec, tell: Tell) -> Environment:
    python = load_config().value("yarn_python") or sys.executable
    hdfs = None if spec.environment in _ON_THE_NODES else open_hdfs(conf)
    with closing(hdfs) if hdfs is not None else nullcontext():
        image = spec.docker_image
        return prepare_environment(
            spec.environment, conf, hdfs, python=python, image=image, tell=tell
        )


# YARN: the seam `Cluster`, over jobs' folders and the keeper that fills them.


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

    name = "yarn"
    log_label = "YARN LOG"

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
            attach(self.home, paths)
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
