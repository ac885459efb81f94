"""The same work, three ways: as a job of ours, as submitit's, and as plain ``python script.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine import Cell, Job, JobSpec, LogChunk, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster

if TYPE_CHECKING:
    import submitit

FIRST_LINE = 'print("first line", flush=True)\n'


@contextmanager
def own_home(folder: Path, gpus: int = 0) -> Iterator[Path]:
    """Keep jobs in `folder` while measuring, on a machine with `gpus` declared GPUs."""
    before = dict(os.environ)
    os.environ.update(SUBMARINE_HOME=str(folder), SUBMARINE_LOCAL_GPUS=str(gpus))
    try:
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)


def submit(
    source: str, *, gpus: int = 0, name: str = "bench", workers: int = 1, cluster: str = "local"
) -> Job:
    """Submit the source as a cell would be."""
    seam = open_cluster(cluster)
    bundle = build(Cell(number=1, source=source), [], {})
    spec = JobSpec(name=name, roles=(Role(count=workers, resources=Resources(gpus=gpus)),))
    return Job(seam, seam.submit(spec, bundle, workdir=Path.cwd()))


def first_line(job: Job) -> float:
    """Return when the job's first line was seen, on the monotonic clock."""
    for item, _ in job.stream():
        if isinstance(item, LogChunk):
            return time.monotonic()
    raise RuntimeError(f"job {job.id} wrote nothing: {job.status().reason}")


def submitit_job(folder: Path, function: Any, *args: Any) -> submitit.Job[Any]:  # noqa: ANN401
    """Submit the function to submitit's local executor."""
    import submitit  # noqa: PLC0415 - the frameworks' environment has none

    executor = submitit.LocalExecutor(folder=folder)
    executor.update_parameters(timeout_min=10)
    return executor.submit(function, *args)


def plain(script: Path, source: str, **options: Any) -> subprocess.Popen[str]:  # noqa: ANN401
    """Start ``python -u script.py``."""
    script.write_text(source)
    return subprocess.Popen([sys.executable, "-u", str(script)], text=True, **options)


def in_the_frameworks(module: str, folder: Path, name: str) -> list[list[float]]:
    """Run a module where the frameworks are installed; return the lists that it prints last.

    Raises
    ------
    RuntimeError
        That environment is not made.
    """
    python = Path(f"{sys.prefix}-frameworks", "bin", "python")
    if not python.exists():
        raise RuntimeError(f"there is no {python}: make {python.parents[1]}/.frameworks")
    command = [python, "-m", module, folder, name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    values: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return values
