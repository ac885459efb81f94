"""Putting a job on record: its folder is written aside, whole, and renamed into place."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.local import locks, machine
from submarine_engine.clusters.local.checks import resolve_paths
from submarine_engine.clusters.local.environment import job_environment
from submarine_engine.clusters.local.journal import RESERVE, RESERVE_SIZE, Journal, summary
from submarine_engine.clusters.local.launch import launch_file
from submarine_engine.errors import SubmissionError
from submarine_engine.events import Moment, Submitted
from submarine_engine.history import (
    RECORD_VERSION,
    JobPaths,
    make_private,
    new_job_id,
    write_aside,
    write_json,
)

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec

PLAN_VERSION = 1

# The runtime lies beside the engine, as the wheel puts it.
_RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"


def put_on_record(
    home: Path, spec: JobSpec, bundle: Bundle, workdir: Path, *, grace: float
) -> tuple[JobPaths, int]:
    """Write a job's folder.

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
        The disk is full, or a path of the job is not there; nothing is left behind.
    """
    sources = resolve_paths(spec, workdir)
    paths = JobPaths(home, new_job_id())
    staged = JobPaths(_staging(home), paths.job_id)
    with _all_or_nothing(staged, paths):
        make_private(paths.root.parent)
        make_private(staged.root)
        lock = locks.take(staged.lock, wait=1.0)
        if lock is None:
            raise OSError("somebody else has taken it")
        try:
            bundle.write(staged.bundle)
            _write_record(staged, paths, spec, bundle, workdir)
            _write_launch(staged, paths, spec, sources, grace)
            _write_plan(staged, paths, spec, bundle, workdir)
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
    staged: JobPaths, paths: JobPaths, spec: JobSpec, bundle: Bundle, workdir: Path
) -> None:
    created = Moment.now()
    record = {
        "version": RECORD_VERSION,
        "id": paths.job_id,
        "cluster": "local",
        "spec": spec.to_json(),
        "created": [created.wall, created.mono],
        "workdir": str(workdir),
        "bundle_hash": bundle.hash,
        "python": sys.executable,
        "user": _user(),
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


def _write_launch(
    staged: JobPaths,
    paths: JobPaths,
    spec: JobSpec,
    sources: tuple[Path | None, Path | None],
    grace: float,
) -> None:
    task = spec.tasks[0]
    launch = {
        "python": sys.executable,
        "command": [sys.executable, "-u", str(_RUNTIME), str(paths.task(task).root)],
        "task": task,
        "grace": grace,
        "environment": job_environment(
            os.environ,
            spec.env,
            job_id=paths.job_id,
            task=paths.task(task),
            vcores=spec.roles[0].resources.vcores,
            input_path=sources[0],
            checkpoint_path=sources[1],
        ),
    }
    # In ASCII: a variable need not be UTF-8, and comes as surrogates then.
    write_aside(launch_file(staged), json.dumps(launch).encode())


def _write_plan(
    staged: JobPaths, paths: JobPaths, spec: JobSpec, bundle: Bundle, workdir: Path
) -> None:
    for role in spec.roles:
        for task in role.tasks:
            plan = {
                "version": PLAN_VERSION,
                "job_id": paths.job_id,
                "task": task,
                "bundle": str(paths.bundle),
                "entry": bundle.manifest.entry,
                "command": role.command,
                "args": list(role.args),
                "workdir": str(workdir),
                "outputs": list(spec.outputs),
                "env": dict(spec.env),
            }
            make_private(staged.task(task).root)
            write_json(staged.task(task).plan, plan)


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
        lock = left / "supervisor.lock"
        if lock.exists() and locks.is_free(lock):
            shutil.rmtree(left, ignore_errors=True)


def _staging(home: Path) -> Path:
    return home / "staging"


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's nameless user
        return str(os.getuid())
