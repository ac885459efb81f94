"""A job that fails: when its GPU is free, beside one that keeps nothing, and how soon one looks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths
from submarine_engine.post_mortem import open_post_mortem
from submarine_engine.records import open_job
from submarine_runtime.post_mortem import Shown

from bench.peers import own_home
from bench.table import Figure, in_turn

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_FAIL = """
import time
import numpy as np
def step(batch):
    names = {str(number): number for number in range(100_000)}
    raise ValueError(time.time())
def train():
    large = np.zeros((1_250_000_000,))
    blocks = [np.random.default_rng(seed).normal(size=1_000_000) for seed in range(10)]
    b0, b1, b2, b3, b4, b5, b6, b7, *rest = blocks
    step(b0)
train()
"""
"""64 MB of arrays in its frames, 10 GB in one that nobody has written to, and a long dict."""


_PEERS = """
import os, socket, time
import numpy as np
from submarine_runtime import job
def step(batch):
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if job.rank == 0:
        with socket.create_server(place):
            time.sleep(600)
    while True:
        try:
            socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise ValueError(time.time())
step(np.ones(1_000_000))
"""
"""Of two tasks one fails, and the other one waits."""


def freed(folder: Path) -> list[Figure]:
    """Measure from the raise to the GPU's release, and from the question to a frame's value."""
    numbers = count()
    looked: list[float] = []
    sizes: list[int] = []
    pdbs: list[float] = []

    def fail(kept: str, script: str = _FAIL, tasks: int = 1) -> Job:
        cluster = open_cluster()
        bundle = build(Cell(number=1, source=script), [], {})
        roles = (Role(count=tasks, resources=Resources(gpus=1)),)
        spec = JobSpec(name=f"bench-{next(numbers)}", roles=roles, post_mortem=kept)
        job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
        status = job.wait()
        assert status.reason.startswith("ValueError"), status.reason
        return job

    def until_free(job: Job) -> float:
        ends = [task.released.wall for task in job.status().tasks if task.released]
        raised = float(job.status().reason.partition(": ")[2])
        return max(ends) - raised

    def ours() -> float:
        job = fail("on")
        begun = time.monotonic()
        found = open_post_mortem(open_job(job.id))
        traceback = found.traceback(own=True)
        assert traceback is not None
        frame = traceback
        while frame.tb_next is not None:
            frame = frame.tb_next
        batch = frame.tb_frame.f_locals["batch"]
        # On a busy machine there is no time for all: the GPU is given back.
        assert isinstance(batch, Shown) or len(batch) == 1_000_000
        looked.append(time.monotonic() - begun)
        begun = time.monotonic()
        program = "import pdb, numpy; numpy.ones(1_000_000)"
        subprocess.run([sys.executable, "-c", program], check=True)
        pdbs.append(time.monotonic() - begun)
        kept = JobPaths(folder / "home", job.id).task("worker-0").results
        sizes.append((kept / "post-mortem.values").stat().st_size)
        return until_free(job)

    def nothing() -> float:
        return until_free(fail("off"))

    def both() -> float:
        job = fail("on", _PEERS, 2)
        for task in ("worker-0", "worker-1"):
            assert open_post_mortem(job, task).values
        return until_free(job)

    def neither() -> float:
        return until_free(fail("off", _PEERS, 2))

    with own_home(folder / "home", gpus=2):
        mine, plain = in_turn(ROUNDS, ours, nothing)
        of_both, of_neither = in_turn(ROUNDS, both, neither)
    return [
        Figure(
            what="a raise with 10 GB in its frames → its GPU is free",
            target="≤ 0.25 s",
            unit="s",
            ours=mine,
            peers={"the same with --post_mortem off": plain},
        ),
        Figure(
            what="what that job keeps of its frames",
            target="",
            unit="MB",
            ours=[size / 1e6 for size in sizes],
            peers={"the most that it may": [67.1 for _ in sizes]},
        ),
        Figure(
            what="one of two tasks raises → the GPUs of both are free",
            target="",
            unit="s",
            ours=of_both,
            peers={"the same with --post_mortem off": of_neither},
        ),
        Figure(
            what="a failed job → a frame's array of 8 MB in the hand",
            target="≤ 0.5 s",
            unit="s",
            ours=looked,
            peers={"a new Python that makes one": pdbs},
        ),
    ]
