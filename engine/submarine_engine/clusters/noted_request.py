"""A request that notes what it asks for, and what the tasks of such a job begin with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.backend import KeptJob, Request
from submarine_engine.clusters.environment import file_address, job_environment
from submarine_engine.clusters.store import task_plan
from submarine_engine.history import TaskPaths, read_json, write_json
from submarine_engine.secret_values import noted_values

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import SubmitQueue
    from submarine_engine.job import JobSpec


class NotedRequest(Request):
    """An attempt of a job, of which a note says what the cluster was asked, before it is asked.

    Parameters
    ----------
    job
        The job.
    note
        The name of the note in the job's folder.
    queue
        The jobs that have not been asked for yet.
    line
        Whom it asks, see `SubmitQueue.name`.

    Raises
    ------
    OSError
        The note cannot be read, or is spoilt. It is no reason to begin without it: the cluster
        would be asked once more for what may run already.
    """

    def __init__(self, job: KeptJob, note: str, queue: SubmitQueue, line: str) -> None:
        self._job = job
        self._id = job.paths.job_id
        self._note_path = job.paths.root / note
        noted = read_json(self._note_path) or {}
        self._note = noted if noted.get("attempt") == job.attempt else {}
        self._queue = queue
        queue.name(self._id, line)

    @property
    def begun(self) -> bool:
        """Whether the cluster may know of this attempt."""
        return bool(self._note)

    @property
    def _spec(self) -> JobSpec:
        """The job with as many workers as were asked for."""
        workers = self._note.get("workers")
        return self._job.spec if workers is None else self._job.spec.sized(workers)

    def _note_down(self, **more: object) -> None:
        self._note = {**self._note, "attempt": self._job.attempt, **more}
        write_json(self._note_path, self._note)

    def close(self) -> None:
        """Leave the line; the job may run on."""
        self._queue.leave(self._id)


def beginning(  # noqa: PLR0913 - as the runtime's protocol has them
    job: KeptJob,
    spec: JobSpec,
    folder: Path,
    *,
    bundle: str,
    workdir: str,
    runtime: Path,
    outer: Mapping[str, str],
    wanted: Mapping[str, str],
    python: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of ``task.json`` and of ``launch.json`` of a task.

    Parameters
    ----------
    job
        The job.
    spec
        It with as many workers as were asked for.
    folder
        The task's own, where it runs; its name is the task's.
    bundle, workdir, runtime
        Where these lie there: the bundle, the folder to run in, and `submarine_runtime`.
    outer, wanted
        As `job_environment` has them; the job's own variables and secrets come last.
    python
        The interpreter of the task there; ``python`` of the job's `launch` unless given.
    """
    task = folder.name
    role = next(role for role in spec.roles if task in role.tasks)
    plan = task_plan(
        spec,
        task,
        job_id=job.paths.job_id,
        bundle=bundle,
        entry=job.launch["entry"],
        workdir=workdir,
        home=job.launch["home"],
        attempt=job.attempt,
    )
    environment = job_environment(
        outer,
        {**wanted, **spec.env, **noted_values(job.paths.root)},
        job_id=job.paths.job_id,
        task=TaskPaths(folder),
        vcores=role.resources.vcores,
        input_path=_given(spec.input_path),
        checkpoint_path=_given(spec.checkpoint_path),
    )
    launch = {
        "gpus": role.resources.gpus or 0,
        "command": [
            python or job.launch["python"],
            "-u",
            str(runtime / "__main__.py"),
            str(folder),
        ],
        "environment": environment,
        "workdir": workdir,
        **{name: str(runtime / f"{name}.py") for name in ("inside", "artifacts")},
    }
    return {**plan, "results": "."}, launch


def _given(path: str | None) -> Path | str | None:
    """Return what the code has of a path: an address elsewhere reaches it unchanged."""
    here = file_address(path or "", "")
    return path if here is None and path and "://" in path else here


__all__ = ["NotedRequest", "beginning"]
