"""Start, change and stop what is served: the front's job and its record, from any process."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from submarine_engine.api import prepare_call
from submarine_engine.bundle import BuildOptions, Bundle
from submarine_engine.bundle.model import pieces_of
from submarine_engine.clusters import locks, open_cluster
from submarine_engine.clusters.choice import cluster_for, room_of
from submarine_engine.config import load_config
from submarine_engine.errors import (
    CommandError,
    JobError,
    JobFailedError,
    JobNotFoundError,
    SubmarineError,
)
from submarine_engine.future import Job
from submarine_engine.history import check_home, default_home, make_private
from submarine_engine.job import JobSpec, JobState
from submarine_engine.records import children_of, open_job
from submarine_engine.serving.model import check_installed, open_model, packed, takes, unpack
from submarine_engine.serving.record import (
    FrontState,
    ServingRecord,
    check_name,
    find_serving,
    iter_servings,
    servings_of,
)
from submarine_engine.serving.replica import ALONE, LOOPBACK, SERVERS, run_replica

LOCAL = "local"
"""Where fronts run: on the machine of whoever asks."""

_TAKEN_OVER = 100
"""How often a front whose process is killed is begun again."""
_BEGUN_AGAIN = 100
"""The same of a replica, before the front asks for another one."""
_LOOK = 0.1  # seconds: a model takes some to load, and a person waits for it
_MOST_REPLICAS = 1000
_OF_JOBS = ("gpus", "memory", "cpus", "queue", "docker_image", "env", "secret")
"""Options of jobs that a replica has."""
_OF_REPLICAS = ("server", *_OF_JOBS)


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served under a name, as it stands.

    Parameters
    ----------
    record
        What is asked for.
    told
        What its front tells.
    state
        ``starting``, ``ready``, ``updating``, ``failing``, or how the front's job ended.
    """

    record: ServingRecord
    told: FrontState
    state: str

    @property
    def name(self) -> str:
        """What people call it."""
        return self.record.name

    @property
    def job(self) -> Job:
        """The front's job."""
        return open_job(self.record.job)

    @property
    def words(self) -> str:
        """How it stands, in a line."""
        ready = f"{self.told.ready} of {self.record.replicas} ready"
        model = self.record.models.get(str(self.told.serves or self.record.wanted), "")
        held_up = f"; {self.told.held_up}" if self.told.held_up else ""
        return f"{self.name}: {self.state}, {ready}, version {self.told.serves} ({model}){held_up}"

    def row(self) -> tuple[str, ...]:
        """Return it as lists show it."""
        return (
            self.name,
            self.state,
            f"{self.told.ready}/{self.record.replicas}",
            str(self.told.serves or "-"),
            self.record.address,
            self.record.job,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "state": self.state,
            "ready": self.told.ready,
            "replicas": self.record.replicas,
            "version": self.told.serves,
            "model": self.record.models.get(str(self.told.serves), ""),
            "address": self.record.address,
            "cluster": self.record.cluster,
            "job": self.record.job,
            "jobs": [one.job for one in self.told.replicas],
            "requests": self.told.requests,
            "failures": self.told.failures,
        }


def stand(record: ServingRecord) -> Serving:
    """Return what is served as it stands now.

    Parameters
    ----------
    record
        What is asked for.
    """
    try:
        state = open_job(record.job).status().state if record.job else _state_before(record)
    except SubmarineError:
        state = JobState.LOST
    told = record.told()  # after it: what a front tells last is there once it is over
    if state.final:
        return Serving(record, replace(told, replicas=()), state.value)
    if told.job != record.job or not told.serves:
        return Serving(record, told, "starting")
    if told.serves != record.wanted:
        return Serving(record, told, "updating")
    return Serving(record, told, "ready" if told.ready else "failing")


def _state_before(record: ServingRecord) -> JobState:
    """Return the state of what no front has had yet: lost, where nobody is about to begin one."""
    asking = not locks.is_free(_starting(record.folder))
    return JobState.QUEUED if asking else JobState.LOST


def _starting(folder: Path) -> Path:
    """Return the lock that is held while the front of that folder is asked for."""
    return folder.with_name(f".{folder.name}.lock")


def servings() -> list[Serving]:
    """Return what is on record, by name."""
    return [stand(record) for record in iter_servings(default_home())]


def start(
    model: str | AbstractContextManager[Path], options: Mapping[str, Any], said: str = ""
) -> ServingRecord:
    """Begin to serve a model; whether it is ready `wait` says.

    Parameters
    ----------
    model
        A path, ``job:NAME``, or what gives a folder in MLflow's format.
    options
        ``name``, ``replicas``, ``port``, ``server``, ``cluster``, and those of jobs that a replica
        has: ``gpus``, ``memory``, ``cpus``, ``queue``, ``docker_image``, ``env``, ``secret``.
    said
        What the model is called in lists; the path unless given.

    Raises
    ------
    CommandError
        The model is none, the name or the port is taken, or an option is not possible.
    UnsupportedError
        What serves is not installed here.
    SubmissionError, ClusterError
        The cluster refuses a replica.
    """
    name = options.get("name") or ""
    if not name:
        raise CommandError("what is served needs a name", where="serve start", fix="--name digits")
    check_name(name)
    check_installed()
    replicas = _replicas(options.get("replicas", 1))
    home = default_home()
    check_home(home)
    servings = make_private(servings_of(home))
    _refuse_taken(servings / name)
    port = _port(options.get("port"))
    named = str(load_config({"cluster": options.get("cluster")}).value("cluster"))
    cluster, spec, bundle, like = _prepared(model, name, named, options)
    with locks.held(_starting(servings / name)):
        _refuse_taken(servings / name, by_job=True)
        with suppress(JobNotFoundError):  # what a front has left would end by itself, but later
            _cancel_replicas(ServingRecord.read(servings / name))
        shutil.rmtree(servings / name, ignore_errors=True)
        record = ServingRecord(
            folder=make_private(servings / name),
            cluster=cluster,
            port=port,
            workdir=str(Path.cwd()),
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
            replicas=replicas,
            models={"1": said or str(model)},
            servers={"1": options.get("server") or ""},
            takes=like,
        )
        record.put(1, spec, bundle)
        record.write()
        return _begin_front(record)


def _begin_front(record: ServingRecord) -> ServingRecord:
    from submarine_engine.serving.front import run_front  # noqa: PLC0415 - loads tornado

    made = prepare_call(
        run_front,
        (record.name,),
        {"gpus": 0, "retries": _TAKEN_OVER, "name": record.name},
        cells=[],
        namespace={},
        build=BuildOptions(),
        cluster=LOCAL,
    )
    spec = replace(made.spec, quicklinks=((record.name, f"{record.address}/"),))
    job = open_cluster(LOCAL).submit(spec, made.bundle, workdir=Path.cwd())
    return record.with_job(job)


def _prepared(
    model: str | AbstractContextManager[Path],
    name: str,
    cluster: str,
    options: Mapping[str, Any],
) -> tuple[str, JobSpec, Bundle, dict[str, Any]]:
    """Return where replicas run and what, checked by the cluster, and what the model takes."""
    server = options.get("server") or ""
    if server not in ("", *SERVERS):
        raise CommandError(
            f"there is no server {server!r}", where="--server", fix="write mlserver or mlflow"
        )
    limit = room_of(cluster) or int(load_config().value("capture_limit"))
    with open_model(model, Path.cwd()) if isinstance(model, str) else model as folder:
        data, like = packed(folder), takes(folder)
    keywords = {key: options[key] for key in _OF_JOBS if options.get(key) is not None}
    keywords.setdefault("gpus", 0)
    if "env" in keywords:
        keywords["env"] = dict(keywords["env"])
    made = prepare_call(
        run_replica,
        (data, name, server, ALONE),
        {**keywords, "name": name, "retries": _BEGUN_AGAIN},
        cells=[],
        namespace={},
        build=BuildOptions(limit=limit),
        cluster=cluster,
    )
    where, spec = cluster_for(cluster, made.spec)
    return where.name, where.check(spec), made.bundle, like


def update(
    name: str,
    model: str | AbstractContextManager[Path] | None,
    options: Mapping[str, Any],
    said: str = "",
) -> ServingRecord:
    """Have another model served under a name, or the same one by other replicas.

    No request is lost: the new replicas are ready before any goes to them, and the old ones answer
    what they have been asked.

    Parameters
    ----------
    name
        As people gave it.
    model
        As `start` has it; None for the same one: ``replicas`` alone leaves those that there are.
    options
        ``replicas``, and the other options of the model's new replicas; as it was for those that
        are not given.
    said
        As `start` has it.

    Raises
    ------
    JobNotFoundError
        Nothing is served under the name.
    JobError
        It is served no more.
    CommandError, UnsupportedError, SubmissionError, ClusterError
        As `start`.
    """
    record = find_serving(default_home(), name)
    now = stand(record)
    if now.state in {state.value for state in JobState if state.final}:
        raise JobError(
            f"{record.name} is served no more ({now.state})",
            job_id=record.job,
            fix="serve it anew: submarine serve start",
        )
    given = options.get("replicas")
    replicas = {} if given is None else {"replicas": _replicas(given)}
    others = {key: options[key] for key in _OF_REPLICAS if options.get(key) is not None}
    if model is None and not others:
        if not replicas:
            raise CommandError(
                "there is nothing to change",
                where="serve update",
                fix="name a model, --replicas, or another option of its replicas",
            )
        return record.change(**replicas)
    last = _last_that_loads(record)
    former, bundle = record.what(last)
    asked = {"server": record.servers.get(str(last), ""), **_options_of(former), **others}
    if model is None:
        model, said = _model_of(bundle), record.models[str(last)]
    _, spec, bundle, like = _prepared(model, record.name, record.cluster, asked)
    with locks.held(record.folder / "update.lock"):
        version = max(map(int, ServingRecord.read(record.folder).models)) + 1
        record.put(version, spec, bundle)
        told = said or str(model)
        record = record.change(
            **replicas,
            wanted=version,
            takes=like,
            models=lambda there: {**there.models, str(version): told},
            servers=lambda there: {**there.servers, str(version): asked["server"]},
        )
    for old in set(range(1, version - _KEPT)) - {record.told().serves}:
        record.forget(old)
    return record


def _last_that_loads(record: ServingRecord) -> int:
    """Return the version that is wanted; the one that is served where that could not be loaded."""
    told = record.told()
    return told.serves if told.failed == record.wanted and told.serves else record.wanted


@contextmanager
def _model_of(bundle: Bundle) -> Iterator[Path]:
    """Give the folder of the model that a replica serves: it may be gone where it came from."""
    (value,) = bundle.manifest.loads
    data = b"".join(pieces_of(bundle.files[value.path]))
    with tempfile.TemporaryDirectory(prefix="submarine-model-") as folder:
        unpack(pickle.loads(data), Path(folder))  # noqa: S301 - our own
        yield Path(folder)


_KEPT = 3
"""Versions before the newest whose model is kept, besides the one that is served."""


def _options_of(spec: JobSpec) -> dict[str, Any]:
    """Return the options that a replica was asked for with."""
    (role,) = spec.roles
    asked = role.resources
    return {
        "gpus": asked.gpus,
        "memory": asked.memory,
        "cpus": asked.vcores,
        "queue": spec.queue,
        "docker_image": spec.docker_image,
        "env": dict(spec.env) or None,
        "secret": spec.secrets or None,
    }


def wait(record: ServingRecord, tell: Callable[[str], object] = lambda _: None) -> Serving:
    """Wait until what is wanted is served; return how it stands.

    Parameters
    ----------
    record
        What is asked for, as `start` and `update` return it.
    tell
        Is told how it stands, where that changes.

    Raises
    ------
    JobFailedError
        The model does not load, or its server does not begin: with the traceback of its job.
    JobError
        The front is over.
    """
    last = ""
    while True:
        there = ServingRecord.read(record.folder)
        now = stand(there)
        if now.told.failed == record.wanted:
            _raise_of(now.told)
        if now.state in {state.value for state in JobState if state.final}:
            raise JobError(
                f"{record.name} is served no more: its front is {now.state}",
                job_id=record.job,
                fix=f"its log says more: submarine job logs {record.job}",
            )
        if now.told.serves == record.wanted and now.told.ready >= record.replicas:
            return now
        if there.wanted != record.wanted:
            raise JobError(
                "another model was put in its place before it was served",
                job_id=record.job,
                fix="see which: submarine serve list",
            )
        if now.words != last:
            last = now.words
            tell(last)
        time.sleep(_LOOK)


def _raise_of(told: FrontState) -> None:
    """Raise how the job of the replica that failed has ended, with its own traceback."""
    open_job(told.failed_job).result(timeout=0)
    raise JobFailedError(told.reason, job_id=told.failed_job)


def stop(name: str) -> bool:
    """Serve no more under a name; return whether it was served.

    Parameters
    ----------
    name
        As people gave it.

    Raises
    ------
    JobNotFoundError
        Nothing is on record.
    """
    folder = find_serving(default_home(), name).folder
    asked = False
    with locks.held(_starting(folder)):  # a start that is under way has its front noted by then
        record = find_serving(default_home(), name)
        for job_id in record.jobs:
            with suppress(JobNotFoundError):
                asked = open_job(job_id).cancel("it is served no more") or asked
        asked = _cancel_replicas(record) or asked
    _forget_once_over(record)
    return asked


def _cancel_replicas(record: ServingRecord) -> bool:
    asked = False
    for parent in record.jobs:
        for job_id in children_of(default_home(), parent):
            with suppress(JobNotFoundError):
                asked = open_job(job_id).cancel("it is served no more") or asked
    return asked


_ENDS_WITHIN = 30.0
"""Seconds: the grace of an end and more; where it takes longer the next start does it."""


def _forget_once_over(record: ServingRecord) -> None:
    """Remove the record once its front is over; else the next `start` does."""
    until = time.monotonic() + _ENDS_WITHIN
    while record.job and time.monotonic() < until:
        with suppress(SubmarineError):
            if open_job(record.job).done():
                _cancel_replicas(record)  # also one that was asked for as the front ended
                break
        time.sleep(_LOOK)
    else:
        return
    with locks.held(_starting(record.folder)), suppress(JobNotFoundError):
        # Unless it was started anew since.
        if ServingRecord.read(record.folder).jobs == record.jobs:
            shutil.rmtree(record.folder, ignore_errors=True)


def _refuse_taken(folder: Path, *, by_job: bool = False) -> None:
    """Refuse a name that is taken; by a job alone where nobody else can be about to begin one."""
    with suppress(JobNotFoundError):
        record = ServingRecord.read(folder)
        if by_job and not record.job:
            return
        now = stand(record)
        if now.state not in {state.value for state in JobState if state.final}:
            raise CommandError(
                f"something is served under the name {folder.name} already",
                where="--name",
                fix=f"give it another model: submarine serve update {folder.name} PATH; or stop it "
                f"first: submarine serve stop {folder.name}",
            )


def _port(asked: int | None) -> int:
    """Return the port that the front is to have; where it is taken later on, the front says so.

    Raises
    ------
    CommandError
        It is taken, or is none.
    """
    if asked is not None and not 0 < asked < 1 << 16:
        raise CommandError(
            f"{asked} is no port", where="--port", fix="1024 to 65535, or leave it out"
        )
    try:
        with socket.create_server((LOOPBACK, asked or 0)) as free:
            return int(free.getsockname()[1])
    except OSError as error:
        raise CommandError(
            f"port {asked} of this machine cannot be had: {error.strerror}",
            where="--port",
            fix="name another one, or leave it out for any that is free",
        ) from error


def _replicas(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_REPLICAS:
        raise CommandError(
            f"{value!r} replicas are not possible", where="--replicas", fix="ask for 1 or more"
        )
    return value
