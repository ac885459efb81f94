"""Into a running job: from the request to the exit code, the first time and after that."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster

from bench.peers import own_home
from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

ROUNDS = 7
ON_YARN = 3
TRUE = ["true"]
WAITS = "import time\nprint('begun', flush=True)\ntime.sleep(3600)\n"


def begun(cluster: str) -> Job:
    """Submit a job that waits; return it once it has printed."""
    seam = open_cluster(cluster)
    bundle = build(Cell(number=1, source=WAITS), [], {})
    job = Job(seam, seam.submit(JobSpec(name="waits", roles=(Role(),)), bundle, workdir=Path.cwd()))
    next(item for item, _ in job.stream() if getattr(item, "data", b""))
    return job


def plainly() -> float:
    """Run the program right here."""
    start = time.monotonic()
    subprocess.run(TRUE, check=True)
    return time.monotonic() - start


def timed(job: Job) -> float:
    """Run the program inside a job."""
    start = time.monotonic()
    assert job.exec(TRUE).returncode == 0
    return time.monotonic() - start


def rounds(cluster: str, count: int, target: str) -> list[Figure]:
    """Measure the first time of fresh jobs, and the times after it of one."""

    def first() -> float:
        job = begun(cluster)
        try:
            return timed(job)
        finally:
            job.kill()
            job.wait()

    fresh, plains = in_turn(count, first, plainly)
    job = begun(cluster)
    try:
        again, plain_again = in_turn(count, lambda: timed(job), plainly)
    finally:
        job.kill()
        job.wait()
    words: Callable[[str], str] = f"exec inside a job, {cluster}, {{}}".format
    return [
        Figure(what=words("first"), target=target, unit="s", ours=fresh, peers={"here": plains}),
        Figure(
            what=words("then"), target=target, unit="s", ours=again, peers={"here": plain_again}
        ),
    ]


def local(folder: Path) -> list[Figure]:
    """Measure on this machine."""
    with own_home(folder / "home"):
        return rounds("local", ROUNDS, "≤ 0.2 s")


def yarn(folder: Path) -> list[Figure]:
    """Measure on YARN; the first time waits for a look of the process beside the task."""
    with on_yarn(folder):
        return rounds("yarn", ON_YARN, "≤ 1 s")
