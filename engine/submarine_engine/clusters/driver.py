"""Jobs as folders: what is the same on every cluster that keeps its jobs on record.

The front ends' calls are answered from a job's folder alone; the cluster itself is only told that
somebody looked (`RecordedCluster.attend`), or that a job shall end (`RecordedCluster.ring`). What
is a cluster's own is its `Backend`; a `KeptCluster` has jobs that a keeper sees through by it.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle.model import Bundle
from submarine_engine.clusters import locks, stacks, store
from submarine_engine.clusters.backend import KeptJob
from submarine_engine.clusters.base import Batch, Cluster, Cursor, Gpu, GpuRoom, GpuShare, Saved
from submarine_engine.clusters.environment import (
    refuse_rendezvous,
    refuse_reserved,
    resolve_paths,
)
from submarine_engine.clusters.machine import reap, this_session
from submarine_engine.clusters.reader import read_batch
from submarine_engine.clusters.saving import SaveRequest
from submarine_engine.clusters.store import StatusCache, read_warnings
from submarine_engine.config import load_config
from submarine_engine.declared import check_options
from submarine_engine.errors import JobError, JobNotFoundError, SubmissionError
from submarine_engine.history import SPOILT, JobPaths, check_home, default_home, read_json
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import JobStatus
from submarine_engine.provenance import begin
from submarine_engine.secret_values import secret_variables

if TYPE_CHECKING:
    from submarine_runtime.channel import Channel

    from submarine_engine.artifacts import JobArtifacts
    from submarine_engine.clusters.backend import Backend
    from submarine_engine.errors import ConfigError
    from submarine_engine.metrics import JobMetrics
    from submarine_engine.stacks import Stacks
    from submarine_engine.waterfall import Startup


class RecordedCluster(Cluster):
    """A cluster whose jobs are folders under one home.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or default_home()
        self.statuses = StatusCache()

    @abstractmethod
    def attend(self, paths: JobPaths, status: JobStatus) -> bool:
        """Make sure that a driver runs for a job that is not over and has no new events.

        Called at each look, so it asks nobody far away.

        Parameters
        ----------
        paths
            The job's files.
        status
            The job as its events tell.

        Returns
        -------
        bool
            Whether there may be new events now.

        Raises
        ------
        OSError
            The job's folder cannot be read or written.
        """

    @abstractmethod
    def ring(self, paths: JobPaths, reason: str) -> None:
        """Wake the job's driver, so that it reads ``cancel.json``; return at once.

        Parameters
        ----------
        paths
            The job's files.
        reason
            Why it shall end.
        """

    def read(self, job_id: str, cursor: Cursor, *, limit: int = 1 << 20) -> Batch:
        """Return at once what is new after `cursor`: at most `limit` bytes of logs.

        Parameters
        ----------
        job_id
            The job's id.
        cursor
            Where the batch before this one ended.
        limit
            In bytes.

        Raises
        ------
        JobNotFoundError
            There is no such job, or its folder was deleted.
        JobError
            `cursor` is no place in this job's stream.
        """
        with self.on_record(job_id) as paths:
            status = self.statuses.status(paths)
            batch = read_batch(paths, status.logged, cursor, limit)
            if not batch.items and not batch.ended and self.attend(paths, status):
                batch = read_batch(paths, status.logged, cursor, limit)
            return batch

    def status(self, job_id: str) -> JobStatus:
        """Return the job as it stands; raises as `read` does."""
        with self.on_record(job_id) as paths:
            status = self.statuses.status(paths)
            if not status.state.final and self.attend(paths, status):
                status = self.statuses.status(paths)
            return status

    def cancel(self, job_id: str, reason: str = "") -> None:
        """Ask the job to end: SIGTERM, grace, SIGKILL. Returns at once; no-op when it is over."""
        self._ask_to_end(job_id, reason, kill=False)

    def kill(self, job_id: str) -> None:
        """End the job's processes at once (SIGKILL)."""
        self._ask_to_end(job_id, "killed", kill=True)

    def results(self, job_id: str, task: str | None = None) -> Path:
        """Return the folder of a task; of the one of rank 0 unless one is named."""
        with self.on_record(job_id) as paths:
            first = self.statuses.status(paths).ranked[0].task
            return paths.task(task or first).root

    def warnings(self, job_id: str) -> list[str]:
        """Return what went wrong beside the job itself, as far as it is known now."""
        return read_warnings(JobPaths(self.home, job_id))

    def _ask_to_end(self, job_id: str, reason: str, *, kill: bool) -> None:
        with self.on_record(job_id) as paths:
            if self.statuses.status(paths).state.final:
                return
            # First on record: who takes the job over sees it there, whatever became of the ring.
            store.request_cancel(paths, reason, kill=kill)
            self.ring(paths, reason)

    @contextmanager
    def on_record(self, job_id: str) -> Iterator[JobPaths]:
        """Give a job's files, in a home that is ours; turn what goes wrong into our words.

        Parameters
        ----------
        job_id
            The job's id.

        Raises
        ------
        JobNotFoundError
            There is no such job, or its folder was deleted.
        JobError
            The folder cannot be used.
        ConfigError
            As `check_home`.
        """
        check_home(self.home)
        paths = JobPaths(self.home, job_id)
        reap()
        try:
            yield paths
        except OSError as error:
            if not paths.root.exists():
                raise JobNotFoundError(
                    f"the job is not on record: there is no folder {paths.root} (deleted?)",
                    job_id=job_id,
                    fix="see `submarine job list`",
                ) from error
            raise JobError(
                f"the job's folder cannot be used: {error}",
                job_id=job_id,
                fix=f"see whether {paths.root} is yours and its disk has room",
            ) from error


# Jobs on a cluster that is a backend, whoever hosts what drives them.


class DrivenCluster(RecordedCluster):
    """A cluster whose jobs a `JobRun` drives by a backend.

    Parameters
    ----------
    backend
        What is this cluster's own.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend.home)
        self.backend = backend
        self.name = backend.name
        self.log_label = backend.log_label
        self.no_gpus = backend.no_gpus
        self.tasks_here = backend.tasks_here

    @abstractmethod
    def hand_on(self, paths: JobPaths, spec: JobSpec, lock: int) -> None:
        """Give a job to whoever sees it through.

        Parameters
        ----------
        paths, spec
            The job, which is on record.
        lock
            The descriptor of its supervisor's lock, to be closed here.

        Raises
        ------
        SubmissionError, ClusterError
            That cannot be done; nothing of the job is left.
        """

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it."""
        secret_variables(spec)
        return self._check(spec)

    def _check(self, spec: JobSpec) -> JobSpec:
        spec = spec.each_rank_a_task()
        refuse_rendezvous(spec)
        check_options(spec, self.name)
        refuse_reserved(dict.fromkeys(spec.secrets, ""), "--secret")
        return self.backend.check(spec)

    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:
        """Put the job on record and into the hands of who sees it through; return its id.

        Parameters
        ----------
        spec
            The job.
        bundle
            What it runs.
        workdir
            Where its relative paths begin.

        Raises
        ------
        SubmissionError
            As `check` says; a path is missing, or the disk is full. Nothing is left behind.
        ClusterError
            The cluster does not answer.
        """
        return self._submit(spec, bundle, workdir.absolute())

    def retry(self, job_id: str, *, notebook: bool = False) -> str:
        """Run a job that is over and did not succeed once more, as a new one; return its id."""
        with self.on_record(job_id) as paths:
            record = _record_to_retry(paths, self.status(job_id))
            try:
                bundle = Bundle.read(paths.bundle)
            except SPOILT as error:
                raise JobError(
                    f"its script cannot be read: {error}",
                    job_id=job_id,
                    fix="run the cell or the command again",
                ) from error
            made, here = bundle.manifest.python, platform.python_version()
            if made.split(".")[:2] != here.split(".")[:2]:
                raise JobError(
                    f"its values were written by Python {made}, and this is {here}",
                    job_id=job_id,
                    fix="run it again from the environment that it was made in",
                )
            spec = JobSpec.from_json(record["spec"])
            kept = spec.checkpoint_path or self.backend.own_checkpoints(paths)
            # Nobody waits at the new one's cell, and from a terminal no notebook at all.
            asker = spec.notebook if notebook else None
            spec = replace(spec, checkpoint_path=kept, asks=False, notebook=asker, chosen=None)
            return self._submit(spec, bundle, Path(record["workdir"]), paths)

    def rerun(self, job_id: str, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:
        """Submit what an earlier job ran, or another cluster's; return the new one's id.

        Parameters
        ----------
        job_id
            The earlier job's id.
        spec
            The job as it is to run now.
        bundle
            What it runs.
        workdir
            Where its relative paths begin.
        """
        with self.on_record(job_id) as paths:
            return self._submit(spec, bundle, workdir, paths, rerun=True)

    def _submit(
        self,
        spec: JobSpec,
        bundle: Bundle,
        workdir: Path,
        former: JobPaths | None = None,
        *,
        rerun: bool = False,
    ) -> str:
        secrets = secret_variables(spec)
        spec = self._check(spec)
        if spec.idle is None:
            spec = replace(spec, idle=load_config().value("idle"))
        resolve_paths(spec, workdir, self.backend.machine_path)
        launch = {
            **launch_notes(spec),
            "keeper": self.backend.key,
            "entry": bundle.manifest.entry,
            "home": bundle.manifest.home(),
            **self.backend.prepare(spec, bundle, self.tell),
        }

        def finish(staged: JobPaths, paths: JobPaths) -> None:
            job = KeptJob(paths, spec, launch, read_json(staged.record) or {})
            self.backend.stage(staged, job, secrets, self.tell)

        paths, lock = store.put_on_record(
            self.home,
            self.name,
            spec,
            bundle,
            workdir,
            finish,
            secrets=secrets,
            former=former,
            rerun=rerun,
        )
        self.hand_on(paths, spec, lock)
        if not spec.parent and load_config().value("provenance"):
            data = spec.input_path and self.backend.machine_path(spec.input_path, "--input_path")
            begin(paths, workdir, workdir / data if data else None)
        if spec.tensorboard:
            from submarine_engine.tensorboard.board import attach  # noqa: PLC0415 - rare

            attach(self.home, paths)
        return paths.job_id

    def save(self, job_id: str, path: str, *, patience: float | None = None) -> Saved:
        """Bring the model of a running job to the new folder `path`, while training goes on.

        Parameters
        ----------
        job_id
            The job's id.
        path
            A folder or an address.
        patience
            As `Cluster.save` has it.
        """
        with self.on_record(job_id) as paths:
            return self.backend.save(
                SaveRequest(paths, lambda: self.status(job_id), patience), path
            )

    def stacks(self, job_id: str) -> Stacks:
        """Return where the tasks of a running job stand; asks the job's driver."""
        # imported late: few jobs are asked, and it reads bundles
        from submarine_engine.stacks import read_stacks  # noqa: PLC0415

        with self.on_record(job_id) as paths:
            told = stacks.ask(paths, lambda: self.status(job_id))
            tasks = [task.task for task in self.status(job_id).tasks]
            return read_stacks(told, paths.root, tasks)

    def begin_inside(
        self, job_id: str, asked: Mapping[str, Any], task: str | None = None
    ) -> tuple[str, Channel]:
        """Begin something inside a running task; asks the job's driver where none has before.

        Parameters
        ----------
        job_id
            The job's id.
        asked
            As `Cluster.begin_inside` has it.
        task
            Which task; that of rank 0 unless given.
        """
        from submarine_engine.clusters import inside  # noqa: PLC0415 - few jobs are gone into

        with self.on_record(job_id) as paths:
            return inside.begin(
                paths,
                task,
                asked,
                lambda: self.status(job_id),
                lambda: store.ring_bell(paths),
                self.backend.credentials,
                lambda name: self.backend.reach_inside(paths, name),
            )

    def metrics(self, job_id: str) -> JobMetrics:
        """Return what a job's tasks have used and reported, by its folder."""
        from submarine_engine.metrics import read_job  # noqa: PLC0415 - few jobs are asked

        with self.on_record(job_id) as paths:
            return read_job(paths, [task.task for task in self.status(job_id).tasks])

    def startup(self, job_id: str) -> Startup | None:
        """Return where the time of a job's start went, by its folder."""
        from submarine_engine.waterfall import read_startup  # noqa: PLC0415 - few jobs are asked

        with self.on_record(job_id) as paths:
            spec = (read_json(paths.record) or {}).get("spec", {})
            # A pool's worker: it starts for the pool, and runs call after call.
            return None if spec.get("parent") else read_startup(paths, self.status(job_id))

    def artifacts(self, job_id: str) -> JobArtifacts:
        """Return the files that a job's tasks have left, by its folder."""
        from submarine_engine.artifacts import read_artifacts  # noqa: PLC0415 - as above

        with self.on_record(job_id) as paths:
            return read_artifacts(paths, [task.task for task in self.status(job_id).tasks])

    def gpus(self) -> list[Gpu]:
        """Return the cluster's GPUs and who holds each.

        Raises
        ------
        ClusterError
            It does not answer.
        """
        return self.backend.gpus(self.held())

    def held(self) -> dict[str, str]:
        """Return the jobs of this home by the containers that they hold, as a backend needs it."""
        return {}

    def gpu_shares(self) -> list[GpuShare]:
        """Return what each part of the cluster has of the GPUs; raises as `gpus` does."""
        return self.backend.gpu_shares()

    def gpu_room(self, spec: JobSpec) -> GpuRoom:
        """Return how many GPUs jobs like this one could have now; raises as `gpus` does."""
        return self.backend.gpu_room(spec, self.held())

    def own_checkpoints(self, name: str) -> str | None:
        """Return where jobs can keep what others of that name go on from; None for nowhere."""
        return self.backend.own_checkpoints(JobPaths(self.home, name))

    def log_url(self, job_id: str) -> str | None:
        """Return the web address of the job's log; None where the cluster has no such page."""
        return self.links(job_id).get("log")

    def links(self, job_id: str) -> dict[str, str]:
        """Return the web pages of a job."""
        with self.on_record(job_id) as paths:
            return self.backend.links(paths, self.statuses.status(paths))


def _record_to_retry(paths: JobPaths, status: JobStatus) -> dict[str, Any]:
    """Return the record of a job that can be run again.

    Raises
    ------
    JobError
        It is not over, has succeeded, or is gone.
    """
    job_id = paths.job_id
    if not status.state.final:
        raise JobError(
            "it is not over yet", job_id=job_id, fix=f"end it first: submarine job cancel {job_id}"
        )
    if status.state is JobState.SUCCEEDED:
        raise JobError(
            "it has succeeded: there is nothing to go on with",
            job_id=job_id,
            fix="run its cell or its command again for another result",
        )
    record = read_json(paths.record)
    if record is None:
        raise JobError("its record is gone", job_id=job_id, fix="run its cell or command again")
    return record


# Jobs that a keeper sees through.


_BETWEEN_KEEPERS = 2.0  # seconds: one that cannot begin must not be started by each look at a list


class KeptCluster(DrivenCluster):
    """A cluster whose jobs a keeper sees through; see `DrivenCluster`.

    Parameters
    ----------
    backend
        What is the cluster's own.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._folder = backend.folder()
        self._tried_at = 0.0

    def hand_on(self, paths: JobPaths, spec: JobSpec, lock: int) -> None:  # noqa: ARG002 - on record
        """Put the job into the keeper's hands, and start one where there is none."""
        try:
            self._folder.hand(paths.job_id)
            self._folder.ensure_keeper(self.backend.keeper_environment(os.environ))
        except OSError as error:
            self._folder.close(paths.job_id)
            shutil.rmtree(paths.root, ignore_errors=True)
            raise SubmissionError(
                f"no keeper can be started for the job: {error.strerror or error}",
                where=str(self._folder.root),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error
        finally:
            locks.drop(lock)

    def get_ready(self, notebook: str) -> None:
        """Begin with what the first job of this process will wait for."""
        self.backend.get_ready(self._folder, notebook)

    def held(self) -> dict[str, str]:
        """Return the jobs of this home by the containers that they hold."""
        held = {}
        for job_id in self._folder.open_jobs():
            with suppress(OSError, JobNotFoundError):
                for task in self.statuses.status(JobPaths(self.home, job_id)).tasks:
                    if task.container and not task.released:
                        held[task.container] = job_id
        return held

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:  # noqa: ARG002 - the keeper knows
        """See to it that a keeper lives while a job is not over; it is the keeper that tells."""
        there = self._folder.is_open(paths.job_id) or self._folder.adopt(paths)
        if there and not self._folder.lives():
            now = time.monotonic()
            if now - self._tried_at > _BETWEEN_KEEPERS:
                self._tried_at = now
                with suppress(OSError):
                    self._folder.ensure_keeper(self.backend.keeper_environment(os.environ))
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:  # noqa: ARG002 - the folder says it
        """Wake the keeper; start one where there is none."""
        self.attend(paths, JobStatus())
        self._folder.ring()


def launch_notes(spec: JobSpec) -> dict[str, Any]:
    """Return what a keeper has to know of whoever submits the job of `spec`, on any cluster."""
    config = load_config()
    return {
        "version": 1,
        "grace": config.value("grace"),
        "grow_after": config.value("grow_after"),
        "session": this_session() if spec.notebook else None,
    }


# Jobs that are over, of a cluster that cannot be used here any more: their folders tell all.


class PastCluster(RecordedCluster):
    """What is left of a cluster: the jobs on record.

    Parameters
    ----------
    name
        As the records have it.
    why
        Why the cluster itself cannot be opened; raised for whatever needs it.
    home
        Where jobs are kept, see `default_home`.
    """

    def __init__(self, name: str, why: ConfigError, home: Path | None = None) -> None:
        super().__init__(home)
        self.name = name
        self._why = why

    def attend(self, paths: JobPaths, status: JobStatus) -> bool:  # noqa: ARG002 - as told
        """Return that nothing new will come."""
        return False

    def ring(self, paths: JobPaths, reason: str) -> None:
        """Do nothing: the job is over."""

    def check(self, spec: JobSpec) -> JobSpec:  # noqa: ARG002 - of those that are there
        """Refuse any job."""
        raise self._why

    def submit(self, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:  # noqa: ARG002 - likewise
        """Refuse any job."""
        raise self._why

    def retry(self, job_id: str, *, notebook: bool = False) -> str:  # noqa: ARG002 - likewise
        """Refuse: it cannot run."""
        raise self._why

    def rerun(self, job_id: str, spec: JobSpec, bundle: Bundle, *, workdir: Path) -> str:  # noqa: ARG002 - likewise
        """Refuse: it cannot run here."""
        raise self._why

    def gpus(self) -> list[Gpu]:
        """Refuse: nobody knows them."""
        raise self._why

    def log_url(self, job_id: str) -> str | None:  # noqa: ARG002 - of those that are there
        """Return None: its pages are not to be found."""
        return None
