"""Who may ask for a job's model, who gives it, and what is said where nobody can."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from submarine_engine.clusters import locks
from submarine_engine.clusters.saved import Saved
from submarine_engine.clusters.saving.checkpoints import Storage, copy_newest
from submarine_engine.clusters.saving.notes import NOTE
from submarine_engine.config import load_config
from submarine_engine.errors import SaveError, SubmissionError, UnsupportedError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    from submarine_engine.clusters.saving.targets import Target
    from submarine_engine.lifecycle import JobStatus

_GIVE = (
    "let the training code give a function, submarine_runtime.on_save(save), or run it with "
    "--checkpoint_path and write checkpoints there"
)


class Hook(Protocol):
    """The way to the function that a job's code has given."""

    @property
    def unseen(self) -> str:
        """Why no function can be seen from here, in words; empty where one could be."""

    def find(self) -> str | None:
        """Return the task that has one, see `in_order`; None where none is seen."""

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have the function's files written into `folder`, which is there and empty.

        Parameters
        ----------
        until
            When patience with the function ends, on the monotonic clock.

        Raises
        ------
        SaveError
            Told to who asked.
        """


def in_order(status: JobStatus) -> list[str]:
    """Return a job's tasks in the order in which they are asked: the chief's model is the job's."""
    tasks = [task.task for task in status.tasks]
    first = [task for task in ("chief-0", "master-0", "worker-0") if task in tasks]
    return [*first, *(task for task in tasks if task not in first)]


def default_name(job_name: str) -> str:
    """Return the name of a folder for a model that is saved now, where the user gives none."""
    plain = re.sub(r"[^\w.=+-]+", "-", job_name).strip("-.") or "model"
    return f"{plain[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"


def absolute(path: str, folder: Path) -> str:
    """Return a path as `Cluster.save` takes it: relative ones begin at `folder`."""
    return path if "://" in path else str(folder / Path(path).expanduser())


def can_save(paths: JobPaths, status: JobStatus) -> bool:
    """Return whether a job can be asked for its model now. Looks at a few files, at no cluster."""
    if status.state is not JobState.RUNNING:
        return False
    if any((paths.task(task.task).root / NOTE).exists() for task in status.tasks):
        return True
    record = read_json(paths.record) or {}
    return bool(record.get("spec", {}).get("checkpoint_path"))


class Asked(NamedTuple):
    """Whose model is asked for.

    Parameters
    ----------
    status
        Tells how the job stands.
    patience
        As of `Cluster.save`.
    """

    paths: JobPaths
    status: Callable[[], JobStatus]
    patience: float | None


def save(asked: Asked, target: Target, hook: Hook, storage: Storage | None) -> Saved:
    """Save a job's model, see `Cluster.save`.

    Parameters
    ----------
    storage
        The job's checkpoint path; None where it has none that can be read from here.
    """
    paths, status = asked.paths, asked.status
    limit = load_config({"save_patience": asked.patience}).value("save_patience")
    with _alone(paths), _words_for_the_disk(paths.job_id):
        found = status()
        # Of what cannot be seen before its end, nobody knows that it runs.
        if not (found.state is JobState.STARTING and hook.unseen):
            expect_running(paths.job_id, found)
        task = None if hook.unseen else hook.find()
        if task is None and storage is None:
            why = hook.unseen or "its code gives no way to the model"
            raise SaveError(why, job_id=paths.job_id, fix=_GIVE)
        try:
            folder = target.begin()
            if task is not None:
                hook.ask(task, folder, time.monotonic() + limit)
                by, source = "hook", task
            else:
                assert storage is not None  # noqa: S101 - for the type checker
                by, source = "checkpoint", copy_newest(storage, folder, paths.job_id)
            sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            target.commit()
        finally:
            target.discard()
    return Saved(path=target.name, by=by, source=source, files=len(sizes), size=sum(sizes))


def expect_running(job_id: str, status: JobStatus) -> None:
    """Refuse a job that does not run.

    Raises
    ------
    SaveError
        It waits, or is over.
    """
    if status.state is JobState.RUNNING:
        return
    if status.state.final:
        raise SaveError(
            f"the job is over ({status.state.value}): there is no model in its memory any more",
            job_id=job_id,
            fix="what it returned and its checkpoints are where they always are",
        )
    raise SaveError(
        f"the job does not run yet ({status.state.value})", job_id=job_id, fix="ask when it does"
    )


@contextmanager
def _alone(paths: JobPaths) -> Iterator[None]:
    """Let nobody else ask the same job meanwhile, from whichever process."""
    lock = locks.take(paths.root / "save.lock")
    if lock is None:
        raise SaveError(
            "another save of this job is under way", job_id=paths.job_id, fix="ask when it is done"
        )
    try:
        yield
    finally:
        locks.drop(lock)


@contextmanager
def _words_for_the_disk(job_id: str) -> Iterator[None]:
    try:
        yield
    except UnsupportedError:
        raise
    except SubmissionError as error:  # as HDFS says it
        raise SaveError(error.what, where=error.where, job_id=job_id, fix=error.fix) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise SaveError(
            f"the model cannot be written: {error.strerror or error}{where}",
            job_id=job_id,
            fix="name a new folder where you may write, on a disk with room",
        ) from error
