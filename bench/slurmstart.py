"""Jobs on Slurm beside srun and submitit, and how often the controller is asked for them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine import Job, JobState
from submarine_engine.installer.slurm import SlurmCluster
from submarine_engine.testing.jobs import end_processes_of

from bench.latency import RETURN_NOW, seen_in
from bench.peers import FIRST_LINE, first_line, own_home, submit
from bench.table import Figure, in_turn
from bench.work import say_first_line

if TYPE_CHECKING:
    import submitit

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
QUEUED = int(os.environ.get("BENCH_QUEUED", "1000"))
WINDOW = 60.0
"""Seconds over which the questions to the controller are counted."""

PATIENCE = 900.0
HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.05)\n"
SRUN = ["srun", "--quiet", "--ntasks=1", "--cpus-per-task=1", "--gpus-per-task=1"]
ASKED = re.compile(r"^\s*REQUEST_(?!PING|NODE_REG|COMPLETE|STEP)\w+\s.*count:(\d+)", re.MULTILINE)
"""What users ask of the controller, as it counts that itself, without what its nodes tell it."""


@contextmanager
def on_slurm(folder: Path, gpus: int = 1) -> Iterator[None]:
    """Let jobs go to a Slurm of their own, of one node."""
    cluster = SlurmCluster(folder / "own")
    cluster.up(nodes=1, gpus=gpus)
    try:
        with own_home(folder / "home") as home:
            os.environ.update(cluster.environment())
            try:
                yield
            finally:
                shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper waits for more jobs
                end_processes_of(home, patience=30)
    finally:
        cluster.down()


def submitits(folder: Path, function: Any, *args: Any) -> submitit.Job[Any]:  # noqa: ANN401
    """Submit the function by submitit's executor for Slurm."""
    import submitit  # noqa: PLC0415 - the frameworks' environment has none

    executor = submitit.SlurmExecutor(folder=folder)
    executor.update_parameters(time=10, cpus_per_task=1, gpus_per_task=1, ntasks_per_node=1)
    return executor.submit(function, *args)


def first(folder: Path) -> Figure:
    """Measure from the request to the first line."""

    def ours() -> float:
        start = time.monotonic()
        job = submit(FIRST_LINE, gpus=1, cluster="slurm")
        seen = first_line(job)
        job.wait()
        return seen - start

    def srun() -> float:
        script = folder / "plain.py"
        script.write_text(FIRST_LINE)
        words = [*SRUN, "--unbuffered", sys.executable, "-u", str(script)]
        start = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            process.stdout.readline()
            return time.monotonic() - start

    def theirs() -> float:
        start = time.monotonic()
        job = submitits(folder / "submitit", say_first_line)
        seen = seen_in(job.paths.stdout, "first line")
        job.result()
        return seen - start

    def sbatch() -> float:
        script, log = folder / "plain.py", folder / "plain.log"
        script.write_text(FIRST_LINE)
        log.unlink(missing_ok=True)
        wrapped = shlex.join([*SRUN, "--unbuffered", sys.executable, "-u", str(script)])
        words = ["sbatch", "--quiet", *SRUN[2:], f"--output={log}", f"--wrap={wrapped}"]
        start = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return seen_in(log, "first line") - start

    with on_slurm(folder):
        mine, batches, sruns, others = in_turn(ROUNDS, ours, sbatch, srun, theirs)
    return Figure(
        what="Slurm: request → first line",
        target="≤ 1.1 of srun, ≤ 1.0 of submitit",
        unit="s",
        ours=mine,
        peers={"srun": sruns, "sbatch of an srun": batches, "submitit": others},
    )


def results(folder: Path) -> Figure:
    """Measure from the function's return to its value in the hand of who waits for it."""

    def ours() -> float:
        returned = submit(RETURN_NOW, gpus=1, cluster="slurm").result()
        return time.monotonic() - returned

    def theirs() -> float:
        returned = submitits(folder / "submitit", time.monotonic).result()
        return time.monotonic() - returned

    with on_slurm(folder):
        mine, others = in_turn(ROUNDS, ours, theirs)
    return Figure(
        what="Slurm: return → result",
        target="≤ 0.2 s",
        unit="s",
        ours=mine,
        peers={"submitit": others},
    )


def release(folder: Path) -> Figure:
    """Measure from the return until Slurm counts no GPU of its node as used."""

    def until_free() -> float:
        words = ["squeue", "--noheader", "--states=RUNNING,COMPLETING"]
        while subprocess.run(words, check=True, capture_output=True).stdout.strip():
            time.sleep(0.005)
        return time.monotonic()

    def ours() -> float:
        job = submit(RETURN_NOW, gpus=1, cluster="slurm")
        while job.status().state is JobState.QUEUED:
            time.sleep(0.002)
        free = until_free()
        returned: float = job.result()
        return free - returned

    def srun() -> float:
        source = "import time\nprint(time.monotonic())\n"
        script = folder / "plain.py"
        script.write_text(source)
        words = [*SRUN, "--unbuffered", sys.executable, "-u", str(script)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            returned = float(process.stdout.readline())
            return until_free() - returned

    with on_slurm(folder):
        mine, sruns = in_turn(ROUNDS, ours, srun)
    return Figure(
        what="Slurm: return → GPU free as Slurm counts it",
        target="≤ 0.3 s",
        unit="s",
        ours=mine,
        peers={"srun": sruns},
    )


def calls(folder: Path) -> Figure:
    """Count what the controller is asked in a minute, by one queued job and by very many."""
    with on_slurm(folder):
        gate = folder / "gate"
        holder = submit(HOLD.format(str(gate)), gpus=1, cluster="slurm")
        while holder.status().state is not JobState.RUNNING:
            time.sleep(0.05)
        jobs = [submit("1", gpus=1, cluster="slurm")]
        alone = asked_in_a_minute(jobs)
        with ThreadPoolExecutor(4) as pool:
            jobs += pool.map(lambda _: submit("1", gpus=1, cluster="slurm"), range(QUEUED - 1))
        many = asked_in_a_minute(jobs)
        subprocess.run(["scancel", f"--user={os.getuid()}"], check=True)
    return Figure(
        what=f"Slurm: questions to the controller in a minute, {QUEUED:,} queued jobs",
        target="no more than of one",
        unit="",
        ours=[many],
        peers={"one queued job": [alone]},
    )


def asked_in_a_minute(jobs: list[Job]) -> float:
    """Return what the controller was asked in a minute, once Slurm has all of the jobs."""
    limit = time.monotonic() + PATIENCE
    words = ["squeue", "--noheader", "--states=PENDING", "--format=%i"]
    while len(subprocess.run(words, check=True, capture_output=True).stdout.split()) < len(jobs):
        if time.monotonic() > limit:
            raise RuntimeError(f"Slurm has not all of {len(jobs)} jobs within {PATIENCE:g} s")
        time.sleep(1.0)
    before = asked()
    time.sleep(WINDOW)
    return asked() - before


def asked() -> float:
    """Return how many questions the controller has counted since it began."""
    told = subprocess.run(["sdiag"], check=True, capture_output=True, text=True).stdout
    kinds = told.partition("by message type")[2].partition("by user")[0]
    return float(sum(map(int, ASKED.findall(kinds))))
