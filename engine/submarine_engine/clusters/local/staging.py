"""What the local cluster adds to a job's folder: ``launch.json`` and the tasks' plans."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import staging
from submarine_engine.clusters.datapaths import resolve_paths
from submarine_engine.clusters.environment import job_environment
from submarine_engine.clusters.local.checks import local_path
from submarine_engine.clusters.local.launch import launch_file
from submarine_engine.history import JobPaths, make_private, write_aside, write_json

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec

# The runtime lies beside the engine, as the wheel puts it.
RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"


def put_on_record(  # noqa: PLR0913 - what a record is made of
    home: Path,
    spec: JobSpec,
    bundle: Bundle,
    workdir: Path,
    *,
    grace: float,
    pool: Sequence[str] = (),
    idle: float | None = None,
) -> tuple[JobPaths, int]:
    """Write a job's folder; as `submarine_engine.clusters.staging.put_on_record`.

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
        _write_launch(staged, paths, spec, sources, told)
        plan = partial(
            staging.task_plan,
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

    return staging.put_on_record(home, "local", spec, bundle, workdir, finish)


def _write_launch(
    staged: JobPaths,
    paths: JobPaths,
    spec: JobSpec,
    sources: tuple[Path | None, Path | None],
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
