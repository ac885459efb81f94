"""Putting a job on record: its folder is written aside, whole, and renamed into place."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.journal import RESERVE, RESERVE_SIZE, Journal, summary
from submarine_engine.errors import SubmissionError
from submarine_engine.events import Moment, Submitted
from submarine_engine.history import (
    RECORD_VERSION,
    JobPaths,
    check_home,
    make_private,
    new_job_id,
    shown_user,
    write_aside,
    write_json,
)

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec

PLAN_VERSION = 1
_FRESH = 60.0


def put_on_record(  # noqa: PLR0913, PLR0917 - what a record is made of
    home: Path,
    cluster: str,
    spec: JobSpec,
    bundle: Bundle,
    workdir: Path,
    finish: Callable[[JobPaths, JobPaths], None],
) -> tuple[JobPaths, int]:
    """Write a job's folder.

    Parameters
    ----------
    cluster
        The name of the cluster that the job is for.
    finish
        Writes what that cluster needs besides: called with the folder as it is staged, and as it
        will be.

    Returns
    -------
    paths : JobPaths
        The job.
    lock : int
        The descriptor that holds its supervisor's lock: while it is open, no reader takes the job
        for lost.

    Raises
    ------
    SubmissionError
        The disk is full; nothing is left behind.
    ConfigError
        As `check_home`.
    """
    paths = JobPaths(home, new_job_id())
    staged = JobPaths(_staging(home), paths.job_id)
    with _all_or_nothing(staged, paths):
        make_private(home)
    check_home(home)
    with _all_or_nothing(staged, paths):
        make_private(paths.root.parent)
        make_private(staged.root)
        lock = locks.take(staged.lock, wait=1.0)
        if lock is None:
            raise OSError("somebody else has taken it")
        try:
            bundle.write(staged.bundle)
            _write_record(staged, cluster, spec, bundle, workdir)
            finish(staged, paths)
            write_aside(staged.root / RESERVE, bytes(RESERVE_SIZE))
            staged.root.rename(paths.root)
        except BaseException:
            locks.drop(lock)
            raise
    return paths, lock


@contextmanager
def _all_or_nothing(staged: JobPaths, paths: JobPaths) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        shutil.rmtree(staged.root, ignore_errors=True)
        if isinstance(error, (OSError, ValueError)):
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise SubmissionError(
                f"the job's folder cannot be written: {why}",
                where=str(paths.root),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error
        raise


def _write_record(
    staged: JobPaths, cluster: str, spec: JobSpec, bundle: Bundle, workdir: Path
) -> None:
    created = Moment.now()
    record = {
        "version": RECORD_VERSION,
        "id": staged.job_id,
        "cluster": cluster,
        "spec": spec.to_json(),
        "created": [created.wall, created.mono],
        "workdir": str(workdir),
        "bundle_hash": bundle.hash,
        "python": sys.executable,
        "user": shown_user() or user_name(),
        "host": machine.host(),
        "boot": machine.boot_id(),
    }
    write_json(staged.record, record)
    write_json(staged.status, summary(record))
    journal = Journal(staged, record)
    try:
        journal.append(Submitted(gpus=spec.gpus or 0, tasks=spec.tasks, at=created))
    finally:
        journal.close()


def task_plan(  # noqa: PLR0913 - as the runtime's protocol has them
    spec: JobSpec,
    task: str,
    *,
    job_id: str,
    bundle: str,
    entry: str,
    workdir: str,
    home: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return the content of ``task.json``.

    Parameters
    ----------
    bundle, workdir
        Where they lie on the machine that runs the task.
    home
        What `Manifest.home` says.
    """
    role = next(role for role in spec.roles if task in role.tasks)
    return {
        "version": PLAN_VERSION,
        "job_id": job_id,
        "task": task,
        "bundle": bundle,
        "entry": entry,
        "command": role.command,
        "args": list(role.args),
        "workdir": workdir,
        "outputs": list(spec.outputs),
        "env": dict(spec.env),
        "home": home,
        "asks": spec.asks,
    }


def sweep(home: Path) -> None:
    """Remove what submitters that were killed half-way have left.

    Raises
    ------
    OSError
        Something cannot be removed.
    """
    folder = _staging(home) / "jobs"
    if not folder.is_dir():
        return
    for left in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime < _FRESH:  # its lock may be about to be taken
                continue
        lock = left / "supervisor.lock"
        if lock.exists() and locks.is_free(lock):
            shutil.rmtree(left, ignore_errors=True)


def user_name() -> str:
    """Return the name of the user that this process runs as; the number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's nameless user
        return str(os.getuid())


def _staging(home: Path) -> Path:
    return home / "staging"
