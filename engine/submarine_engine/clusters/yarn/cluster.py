"""YARN as a backend: what is asked in the user's process, and what its keeper begins.

``launch.json`` tells the keeper what it has to know of a job's submitter.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine import kerberos
from submarine_engine.bundle.modules import ran_by_path
from submarine_engine.clusters.backend import Backend
from submarine_engine.clusters.base import Gpu, GpuRoom, GpuShare, Saved
from submarine_engine.clusters.driver import launch_notes
from submarine_engine.clusters.environment import keeps_checkpoints
from submarine_engine.clusters.inside import Credentials
from submarine_engine.clusters.machine import process_stat
from submarine_engine.clusters.saving import SaveRequest
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.driver import KeeperFolder, keeper_environment
from submarine_engine.clusters.yarn.environments import (
    Environment,
    check_versions,
    local_versions,
    needed_versions,
    prepare_environment,
)
from submarine_engine.clusters.yarn.gpus import cluster_gpus, gpu_room, gpu_shares
from submarine_engine.clusters.yarn.hadoop import HadoopConf, is_named, job_links, load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.preflight import check_spec
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.saving import save_yarn
from submarine_engine.clusters.yarn.uploads import Tell, send_large
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import JobPaths, read_json, write_json
from submarine_engine.job import JobSpec
from submarine_engine.lifecycle import JobStatus
from submarine_engine.records import iter_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters import backend
    from submarine_engine.clusters.backend import KeptJob
    from submarine_engine.clusters.storage import Storage
    from submarine_engine.clusters.yarn.request import YarnRequest
    from submarine_engine.clusters.yarn.services import Services
    from submarine_engine.config import Config
    from submarine_engine.findings import Check

_LOOKED_AT = 50
_ROOM_HOLDS = 0.9  # seconds: pools ask once in one, and the ResourceManager is everybody's
_OF_SHAPE = ("environment", "node_label", "view_users")
_SENT = ("pack", ".zip", ".gz", ".tgz", ".tar")


def wish(backend: YarnBackend, folder: KeeperFolder, notebook: str) -> None:
    """Ask the keeper for what the first job of this process will need.

    Containers of an application have one shape, so it is that of the notebook's last job, else of
    the last job of any notebook, else of a job without options.

    Parameters
    ----------
    backend
        The cluster: it checks what is wished for.
    folder
        The keeper's: the wish is noted there.
    notebook
        As `JobSpec.notebook` will have it.

    Raises
    ------
    SubmarineError
        The cluster does not answer, or takes no such job.
    OSError
        No keeper can be started.
    """
    last = last_job(folder.home, notebook)
    shape = JobSpec.from_json(last[0]) if last else JobSpec()
    spec = backend.check(
        JobSpec(
            roles=shape.roles,
            queue=shape.queue,
            docker_image=shape.docker_image,
            options={k: v for k, v in shape.options.items() if k in _OF_SHAPE},
            notebook=notebook,
        )
    )
    launch = _launch(backend, spec, last[1] if last else None)
    me = process_stat(os.getpid())
    if launch is None or me is None:
        return
    folder.make()
    content = {"version": 1, "spec": spec.to_json(), "launch": launch}
    write_json(folder.wishes / f"{os.getpid()}-{me.start}.json", content)
    folder.ensure_keeper(backend.keeper_environment(os.environ))


def _launch(
    backend: YarnBackend, spec: JobSpec, last: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return what an application has to know; None where that would take packing and sending.

    An archive of the last job is there already.
    """
    if not spec.options.get("environment", "").lower().endswith(_SENT):
        return environment_launch(backend.conf, spec)
    if last is None:
        return None
    bare = {name: value for name, value in spec.options.items() if name != "environment"}
    fresh = environment_launch(backend.conf, replace(spec, options=bare))
    return {**fresh, **{key: last[key] for key in ("python", "archives", "environment", "probed")}}


def last_job(home: Path, notebook: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the spec and ``launch.json`` of the job that the next one will most likely be like.

    Parameters
    ----------
    home
        Where all jobs are kept.
    notebook
        Whose last job is meant; another's is taken where it has had none lately.
    """
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

    Parameters
    ----------
    conf
        Hadoop's configuration.
    spec
        The job, checked.
    bundle
        What it runs.
    tell
        Called with a sentence where a step takes long.

    Raises
    ------
    SubmissionError
        There is no such environment, HDFS refuses it, or its Python is another one.
    """
    _expect_place_for_checkpoints(conf, spec, bundle)
    environment = _prepare(conf, spec, tell)
    launch = _of_environment(environment)
    needed = needed_versions(bundle.manifest.values)
    if not environment.probed:
        here, there = launch["here"], environment.versions
        check_versions(here, there.get("python", here), needed=needed, found=there)
    for note in environment.notes:
        warnings.warn(note, stacklevel=2)
    return {**launch, "needed": needed, "beside": ran_by_path(bundle.files)}


def _expect_place_for_checkpoints(conf: HadoopConf, spec: JobSpec, bundle: Bundle) -> None:
    """Refuse code that keeps checkpoints where they would be lost with its container.

    Raises
    ------
    SubmissionError
        There is no HDFS for them, and no folder is named.
    """
    if spec.checkpoint_path is not None or not keeps_checkpoints(bundle.script):
        return
    hdfs = open_hdfs(conf)
    if hdfs is None:
        raise SubmissionError(
            "the code keeps checkpoints, and this cluster has no HDFS that answers",
            where="--checkpoint_path",
            fix="name a folder that all nodes see: --checkpoint_path file:///shared/run",
        )
    hdfs.close()


def send_values(conf: HadoopConf, bundle: Path, tell: Tell) -> dict[str, str]:
    """Bring what is large in a job's bundle to HDFS, once for all jobs that have the same.

    Without HDFS all of a bundle has to travel with the request, and the keeper says where that is
    too much.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    bundle
        Its folder, written.
    tell
        Called with a sentence whenever there is something to say of a long step.

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
    """Return what an application of such jobs has to know, before there is one; raises likewise.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    spec
        One of such jobs, checked.
    """
    environment = _prepare(conf, spec, lambda _text: None)
    return {**launch_notes(spec), **_of_environment(environment)}


def _of_environment(environment: Environment) -> dict[str, Any]:
    return {
        "python": environment.python,
        "archives": dict(environment.archives),
        "environment": environment.key,
        "probed": environment.probed and environment.kind != "image",
        "here": local_versions(())["python"],
    }


def _prepare(conf: HadoopConf, spec: JobSpec, tell: Tell) -> Environment:
    python = load_config().value("yarn_python") or sys.executable
    wanted = spec.options.get("environment")
    hdfs = None if wanted in _ON_THE_NODES else open_hdfs(conf)
    with closing(hdfs) if hdfs is not None else nullcontext():
        image = spec.docker_image
        return prepare_environment(wanted, conf, hdfs, python=python, image=image, tell=tell)


# YARN as a backend.


class YarnBackend(Backend):
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
    title = "YARN"
    log_label = "YARN LOG"
    frames_within = 5.0  # the process beside a task looks for messages twice a second

    @classmethod
    def configured(cls) -> bool:
        """Return whether there is a Hadoop configuration to use."""
        return is_named()

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield what stands on the way to the cluster, from the configuration to the queues."""
        from submarine_engine.clusters.yarn.doctor import yarn_checks  # noqa: PLC0415 - rare

        yield from yarn_checks(os.environ, home=Path(config.value("home")))

    @classmethod
    def event_schemes(cls) -> tuple[str, ...]:
        """Return that HDFS has addresses."""
        return "hdfs", "webhdfs"

    @classmethod
    def open_storage(cls, address: str) -> tuple[Storage, str]:
        """Return the user's HDFS, and the path that an address is there."""
        from submarine_engine.clusters.yarn.storage import HdfsFiles  # noqa: PLC0415 - rare

        return HdfsFiles.open(address, load_hadoop())

    @classmethod
    def let_read_events(cls, places: Sequence[str]) -> None:
        """Let fsspec in this process read the user's HDFS: ``hdfs://…``, ``webhdfs://…``."""
        if all(place.startswith("webhdfs:") for place in places):
            return  # the address says all
        import fsspec  # noqa: PLC0415 - of a TensorBoard's process alone

        from submarine_engine.clusters.yarn.job_hdfs import Hdfs  # noqa: PLC0415 - likewise

        conf = load_hadoop()
        hdfs = open_hdfs(conf)
        if hdfs is None:
            raise ClusterError(
                f"{places[0]} cannot be read: HDFS does not answer",
                where="tensorboard",
                fix="see `submarine doctor --cluster yarn`",
            )
        with closing(hdfs):
            told = hdfs.container_environment()
        # As jobs on YARN have it by plugin and environment.
        fsspec.register_implementation("hdfs", Hdfs, clobber=True)
        for name, options in told.items():
            named = {**json.loads(options), "session_verify": conf.ca or True}
            fsspec.config.conf[name.removeprefix("FSSPEC_").lower()] = named

    def __init__(self, home: Path, conf: HadoopConf | None = None) -> None:
        super().__init__(home)
        self.conf = conf or load_hadoop()
        self._rm = ResourceManager(self.conf)
        self._services: Services | None = None
        self._room: tuple[float, JobSpec | None, GpuRoom] = (0.0, None, GpuRoom(0))

    @property
    def key(self) -> str:
        """What tells one Hadoop configuration from another."""
        return self.conf.fingerprint

    @property
    def credentials(self) -> Credentials:
        """The certificate of this user's applications, as skein makes it."""
        skein = self.folder().skein
        return Credentials(skein / "skein.crt", skein / "skein.pem")

    def folder(self, key: str | None = None) -> KeeperFolder:
        """Return how the keeper of this configuration is reached."""
        if key:  # the files may be new meanwhile
            self.conf.fingerprint = key
        return KeeperFolder(self.home, self.conf)

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it."""
        if self.conf.kerberos:  # nothing is begun that nobody may ask for
            kerberos.use(self.conf.environment)
            kerberos.read_ticket()
            kerberos.check_files()
        return check_spec(spec, self.conf, self._rm)

    def prepare(
        self, spec: JobSpec, bundle: Bundle, tell: Callable[[str], object]
    ) -> dict[str, Any]:
        """Make the job's environment ready."""
        return make_launch(self.conf, spec, bundle, tell)

    def deliver(self, bundle: Path, tell: Callable[[str], object]) -> dict[str, Any]:
        """Bring what is large in a bundle to HDFS."""
        return {"large": send_values(self.conf, bundle, tell)}

    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:
        """Return the cluster's GPUs as the ResourceManager accounts them."""
        return cluster_gpus(self._rm, held)

    def gpu_shares(self) -> list[GpuShare]:
        """Return what every node and every queue has of the GPUs."""
        return gpu_shares(self._rm)

    def gpu_room(self, spec: JobSpec, held: Mapping[str, str]) -> GpuRoom:  # noqa: ARG002 - the manager knows
        """Return how many GPUs jobs like this one could have now, as the scheduler says.

        It is everybody's, so an answer holds for a second.
        """
        asked_at, of, room = self._room
        if of != spec or time.monotonic() - asked_at > _ROOM_HOLDS:
            room = gpu_room(self._rm, spec)
            self._room = time.monotonic(), spec, room
        return room

    def links(self, paths: JobPaths, status: JobStatus) -> dict[str, str]:
        """Return the web pages of a job: its log's, its application's, the cluster's.

        The log's is the container's page while the job runs, the application's after.
        """
        return job_links(self.conf, read_json(paths.root / "yarn.json") or {}, status)

    def save(self, asked: SaveRequest, path: str) -> Saved:
        """Bring the model of a running job to a folder, or to HDFS."""
        return save_yarn(asked, path, self.conf, self._rm)

    def own_checkpoints(self, paths: JobPaths) -> str | None:
        """Return the job's own folder of checkpoints in HDFS; None where there is no HDFS."""
        hdfs = open_hdfs(self.conf)
        if hdfs is None:
            return None
        with closing(hdfs):
            return hdfs.uri(uploads.checkpoint_folder(hdfs, paths.job_id))

    def get_ready(self, folder: backend.KeeperFolder, notebook: str) -> None:
        """Have the keeper, skein's driver and a master without GPUs started for this process."""
        if load_config().value("yarn_ahead") and isinstance(folder, KeeperFolder):
            wish(self, folder, notebook)

    def keeper_environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a keeper, and so of skein's driver."""
        return keeper_environment(outer, KeeperFolder(self.home, self.conf))

    @property
    def services(self) -> Services:
        """What the keeper's jobs share, from `begin` on."""
        assert self._services is not None  # noqa: S101 - the keeper has begun
        return self._services

    def begin(self, folder: backend.KeeperFolder, stop: threading.Event) -> None:  # noqa: ARG002 - it is ours
        """Open the ways to the cluster; see to warm masters."""
        # Of keepers alone: they take long to import, and a notebook needs none of them.
        from submarine_engine.clusters.yarn import ahead, masters  # noqa: PLC0415
        from submarine_engine.clusters.yarn.services import Services  # noqa: PLC0415

        config = load_config()
        self.idle, self.lease = config.value("yarn_idle"), config.value("yarn_lease")
        logs, queue = config.value("yarn_logs"), self.submit_queue
        services = Services(self.home, self.conf, idle=self.idle, logs=logs, submit_queue=queue)
        self._services = services
        for work, given in (
            (masters.yield_capacity, (services.masters, services.rm, stop)),
            (masters.keep_app_timeouts, (services.masters, services.rm, self.idle, stop)),
            (ahead.clean_up, (services,)),
        ):
            threading.Thread(target=work, args=given, daemon=True).start()

    def tend(self) -> bool:
        """End masters that nobody needs, and begin with what notebooks wish for."""
        from submarine_engine.clusters.yarn.ahead import heed_wishes  # noqa: PLC0415 - as above

        heed_wishes(self.services)
        # A PATH or a Java that was mended meanwhile reaches only a keeper that begins anew.
        self.idle = 0.0 if self.services.driver.cannot_start else load_config().value("yarn_idle")
        return self.services.masters.tend() > 0

    def request(self, job: KeptJob) -> YarnRequest:
        """Return what asks for a job: by a warm master, or by an application of its own."""
        from submarine_engine.clusters.yarn.request import YarnRequest  # noqa: PLC0415 - as above

        return YarnRequest(self.services, job)

    def give_up(self, paths: JobPaths) -> None:
        """End the job's own application."""
        noted = read_json(paths.root / "yarn.json") or {}
        if noted.get("mode") == "cold" and noted.get("app_id"):
            self.services.rm.kill(noted["app_id"])

    def end(self) -> None:
        """End the warm masters and skein's driver."""
        self.services.masters.close()
        self.services.driver.close()
