"""The local cluster: jobs on this machine, without a daemon.

A job on record gets a ticket in the machine's queue (`scheduler`), then a supervisor of its own
(`launch`). This module is what front ends call; it only reads what those write.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from submarine_engine.clusters import locks, machine, saving, store
from submarine_engine.clusters.base import AnswerPipe, Gpu, Saved
from submarine_engine.clusters.driver import RecordedCluster
from submarine_engine.clusters.environment import job_environment, resolve_paths
from submarine_engine.clusters.local import launch
from submarine_engine.clusters.local.checks import NO_GPUS, check_spec, local_checks, local_path
from submarine_engine.clusters.local.gpus import Inventory, inventory
from submarine_engine.clusters.local.launch import launch_file
from submarine_engine.clusters.local.scheduler import Queue, Ticket, recover_lost
from submarine_engine.clusters.saving import Asked, FolderStorage, MessageHook
from submarine_engine.clusters.store import Journal
from submarine_engine.config import Config, load_config
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError
from submarine_engine.events import Waiting
from submarine_engine.history import JobPaths, make_private, read_json, write_aside, write_json
from submarine_engine.lifecycle import JobStatus, apply
from submarine_engine.secret_values import secret_variables

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.findings import Check
    from submarine_engine.job import JobSpec


# What a job waits for, in words, and on record while somebody looks.


_NAMED = 2


def seen_waiting(queue: Queue, job_id: str, status: JobStatus) -> JobStatus:
    """Return `status` with the job's place in the queue as it is now.

    Raises
    ------
    ClusterError
        The queue is locked.
    """
    ahead = queue.ahead(job_id)
    if ahead is None:
        return status
    return apply(status, Waiting(ahead=ahead, reason=describe(queue, job_id, ahead)))


def tell_waiting(paths: JobPaths, queue: Queue, status: JobStatus) -> bool:
    """Write the job's place in the queue where it is another than `status` says.

    Raises
    ------
    OSError
        The job's folder cannot be written.
    ClusterError
        The queue is locked.
    """
    now = seen_waiting(queue, paths.job_id, status)
    if (now.ahead, now.waiting_reason) == (status.ahead, status.waiting_reason):
        return False
    lock = locks.take(paths.lock)
    if lock is None:  # it begins right now, or another reader is at it
        return False
    try:
        record = read_json(paths.record)
        if record is None or now.ahead is None or paths.job_id not in queue:
            return False
        journal = Journal(paths, record)
        try:
            journal.append(Waiting(ahead=now.ahead, reason=now.waiting_reason))
        finally:
            journal.close()
    finally:
        locks.drop(lock)
    return True


def describe(queue: Queue, job_id: str, ahead: int) -> str:
    """Return what a job waits for.

    ``waiting behind bob-llm (4 GPUs, 2 free)`` where another job is first in the queue, since
    nobody is let past it; else ``2 of 2 GPUs in use by 'mnist' (…ab3de)``.
    """
    first = queue.first() if ahead else None
    ticket = first or queue.ticket(job_id)
    pool = ticket.pool if ticket else ()
    holders = [holder for holder in queue.holders(pool, fresh=False).values() if holder]
    if first:
        asked = f"{first.gpus} GPU{'s' if first.gpus > 1 else ''}"
        more = f", {ahead} jobs ahead" if ahead > 1 else ""
        return f"waiting behind {first.name} ({asked}, {len(pool) - len(holders)} free){more}"
    words = []
    if holders:
        names = [str(holder) for holder, _ in Counter(holders).most_common()]
        if len(names) > _NAMED:
            names[_NAMED - 1 :] = [f"{len(names) - _NAMED + 1} other jobs"]
        words.append(f"{len(holders)} of {len(pool)} GPUs in use by {' and '.join(names)}")
    return ", ".join(words) or "next in turn"


def own_checkpoints(paths: JobPaths) -> Path:
    """Return where the checkpoints of a job lie that names no ``--checkpoint_path``."""
    return paths.root / "checkpoints"


# Asking a job of the local cluster for its model.


def save_local(asked: saving.Asked, path: str) -> Saved:
    """Bring the model of a running job to a folder of this machine, see `Cluster.save`."""
    paths = asked.paths
    record = read_json(paths.record) or {}
    target = saving.FolderTarget(local_path(path, "save to").absolute())
    kept = record.get("spec", {}).get("checkpoint_path")
    place = own_checkpoints(paths)
    if kept:
        place = Path(record["workdir"]) / local_path(kept, "--checkpoint_path")
    storage = FolderStorage(place) if kept or place.is_dir() else None
    return saving.save(
        asked, target, MessageHook(asked, lambda task: paths.task(task).root), storage
    )


# What the local cluster adds to a job's folder: ``launch.json`` and the tasks' plans.


# The runtime lies beside the engine, as the wheel puts it.
RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"


def put_on_record(  # noqa: PLR0913 - what a record is made of
    home: Path,
    spec: JobSpec,
    bundle: Bundle,
    workdir: Path,
    *,
    secrets: Mapping[str, str],
    grace: float,
    pool: Sequence[str] = (),
    idle: float | None = None,
) -> tuple[JobPaths, int]:
    """Write a job's folder; as `submarine_engine.clusters.store.put_on_record`.

    Parameters
    ----------
    pool
        The GPUs of which the job may get its own.
    idle
        Seconds that a zygote for jobs like this one waits for the next; None for no zygote.

    Raises
    ------
    SubmissionError
        The disk is full, or a path of the job is not there; nothing is left behind.
    """
    sources = resolve_paths(spec, workdir, local_path)

    def finish(staged: JobPaths, paths: JobPaths) -> None:
        told = {"grace": grace, "pool": list(pool), "ahead": idle is not None}
        _write_launch(staged, paths, spec, sources, {**spec.env, **secrets}, told)
        plan = partial(
            store.task_plan,
            spec,
            job_id=paths.job_id,
            bundle=str(paths.bundle),
            entry=bundle.manifest.entry,
            workdir=str(workdir),
            home=bundle.manifest.home(),
        )
        for task in spec.tasks:
            make_private(staged.task(task).logdir)
            written = {**plan(task), "moments": True}
            if idle is not None:
                written["ahead"] = {"idle": idle}
            write_json(staged.task(task).plan, written)

    return store.put_on_record(home, "local", spec, bundle, workdir, finish, secrets=secrets)


def _write_launch(  # noqa: PLR0913, PLR0917 - what a launch is made of
    staged: JobPaths,
    paths: JobPaths,
    spec: JobSpec,
    sources: tuple[Path | None, Path | None],
    wanted: Mapping[str, str],
    told: Mapping[str, Any],
) -> None:
    task = spec.tasks[0]
    launch = {
        "python": sys.executable,
        "command": [sys.executable, "-u", str(RUNTIME), str(paths.task(task).root)],
        "task": task,
        **told,
        "environment": job_environment(
            os.environ,
            wanted,
            job_id=paths.job_id,
            task=paths.task(task),
            vcores=spec.roles[0].resources.vcores,
            input_path=sources[0],
            checkpoint_path=sources[1] or own_checkpoints(paths),
        ),
    }
    # In ASCII: a variable need not be UTF-8, and comes as surrogates then.
    write_aside(launch_file(staged), json.dumps(launch).encode())


# The local cluster: the seam `Cluster`, over files, locks and processes of this machine.


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

    name = "local"
    no_gpus = NO_GPUS
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

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield how many GPUs this machine has, and where that is known from."""
        yield from local_checks(cls().gpus(), config)

    @classmethod
    def machine_path(cls, path: str, option: str) -> Path:
        """Return a path of this machine; all are."""
        return local_path(path, option)

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what this machine cannot do, and choose the number of GPUs where it is open."""
        secret_variables(spec)
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
        secrets = secret_variables(spec)
        config = load_config({"grace": self._grace})
        pool = tuple(device.id for device in found.devices) if spec.gpus else ()
        paths, lock = put_on_record(
            self.home,
            spec,
            bundle,
            workdir.absolute(),
            secrets=secrets,
            grace=config.value("grace"),
            pool=pool,
            idle=config.value("imports_idle") if _is_shared(spec, config) else None,
        )
        if spec.gpus:
            self._enqueue(paths, Ticket(paths.job_id, spec.name, spec.gpus, pool), lock)
        else:
            launch.start(paths, {}, lock)
        if spec.tensorboard:
            from submarine_engine.tensorboard.board import attach  # noqa: PLC0415 - rare

            attach(self.home, paths)
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

    def take_question(self, job_id: str, task: str, number: int) -> AnswerPipe | None:
        """Take a question of a task to answer it; None where it is over."""
        with self.on_record(job_id) as paths:
            return AnswerPipe.take(paths.task(task).root / f"answer-{number}")

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
            return recover_lost(paths, self._queue)
        with suppress(OSError, ClusterError):
            self._queue.care()
            return tell_waiting(paths, self._queue, status)
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:
        """Take the job out of the queue, or settle it where nobody runs it; `ask` rang the bell."""
        self._queue.cancel(paths.job_id, reason)
        if locks.is_free(paths.lock):
            recover_lost(paths, self._queue)

    def _inventory(self) -> Inventory:
        return inventory(load_config().value("local_gpus"))


def _is_shared(spec: JobSpec, config: Config) -> bool:
    """Return whether a job may be forked from a process that has imported its libraries."""
    if spec.roles[0].command is not None:
        return False
    isolation = spec.options.get("isolation")
    if isolation is None:
        return spec.notebook is not None and bool(config.value("imports_ahead"))
    return bool(isolation == "shared")
