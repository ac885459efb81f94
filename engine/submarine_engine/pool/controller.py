"""The job that runs a pool: on the machine of whoever asked, without a GPU, as any other job.

It is supervised, listed, cancelled and attached as such; where it is killed, its next attempt takes
the pool over. Its log tells what happens.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime import progress

from submarine_engine.bundle import Bundle
from submarine_engine.clusters import locks, open_cluster
from submarine_engine.errors import JobError, JobFailedError
from submarine_engine.history import default_home
from submarine_engine.job import JobSpec
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.pool.pool import GivenUpError, Pool, Workers, with_parent

if TYPE_CHECKING:
    from submarine_engine.pool.calls import Source

_PATIENCE = 3.0  # seconds: the attempt before this one may not be quite gone


def control(pool: str) -> Any:  # noqa: ANN401 - what its source has for a result
    """Run the pool of that id to its end, and return what its source gives as a result.

    Parameters
    ----------
    pool
        The name of its folder.

    Raises
    ------
    JobError
        Another controller runs it.
    JobFailedError
        No worker can begin, or every call fails.
    """
    folder = PoolFolder.of(default_home(), pool)
    plan = folder.read()
    lock = locks.take(folder.lock, wait=_PATIENCE)
    if lock is None:
        raise JobError(
            "another job runs this pool already",
            where=str(folder.root),
            fix="wait for that one, or cancel it first: submarine job list",
        )
    try:
        _see_again(plan["visible"])
        if own := os.environ.get("SUBMARINE_JOB_ID"):
            folder.note_job(own)  # `job retry` made another one
            folder.hand_on_marks(own)
        source = source_of(folder, plan)
        runner = Pool(
            folder,
            workers_of(folder, plan),
            retries=plan.get("retries", 0),
            give_up=plan.get("give_up"),
            say=say,
        )
        try:
            runner.run(source)
        except OSError as error:
            raise JobError(
                f"the pool's folder cannot be written: {error.strerror or error}",
                where=str(folder.root),
                fix=f"make room there, then go on: submarine job retry {own or ''}".rstrip(),
            ) from error
        except GivenUpError as error:
            # Where our own code stood is no news: the log is for whoever asked.
            raise _FinalError(error.what, where=error.where, fix=error.fix) from None
        result = getattr(source, "result", None)
        return result() if result is not None else None
    finally:
        locks.drop(lock)


class _FinalError(JobFailedError):
    """The end of a pool that cannot go on; people read it as a `JobFailedError`."""

    submarine_final = True
    """Its job is not begun again: that would come to the same."""


_FinalError.__qualname__ = JobFailedError.__qualname__
_FinalError.__module__ = JobFailedError.__module__


def source_of(folder: PoolFolder, plan: dict[str, Any]) -> Source:
    """Return where a pool's calls come from: the class that its plan names, given its folder."""
    module, _, name = plan["source"].partition(":")
    source: Source = getattr(import_module(module), name)(folder)
    return source


def workers_of(folder: PoolFolder, plan: dict[str, Any]) -> Workers:
    """Return what the workers of the pool in `folder` are, as its `plan` says."""
    return Workers(
        cluster=open_cluster(plan["cluster"]),
        spec=with_parent(JobSpec.from_json(plan["spec"]), os.environ.get("SUBMARINE_JOB_ID")),
        bundle=Bundle.read(folder.bundle),
        workdir=Path(plan["workdir"]),
        most=plan.get("most", 1),
        least=plan.get("least", 1),
    )


def say(line: str) -> None:
    """Write a line to the job's log, which is what a controller is asked for."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def tell_progress(done: int, given: int, failed: int, workers: int = 0, gpus: int = 0) -> None:
    """Tell how far the calls are, and what runs them now, on the job's card.

    Parameters
    ----------
    done
        How many calls have ended.
    given
        How many there are.
    failed
        How many have failed.
    workers
        How many workers run.
    gpus
        How many GPUs they hold.
    """
    said = f"{done:,} of {given:,} calls"
    if failed:
        said += f", {failed:,} failed"
    for number, what in ((workers, "worker"), (gpus, "GPU")):
        if number:
            said += f", {number:,} {what}{'s' * (number != 1)}"
    progress(done / given if given else 0.0, said)


def _see_again(visible: str | None) -> None:
    """Let the workers see the GPUs that whoever asked sees: a job without any sees none."""
    if visible is None:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
