"""What it costs a submission that the job notes what it runs with."""

from __future__ import annotations

import os
import subprocess
import time
from itertools import count
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths
from submarine_engine.provenance import PROVENANCE

from bench.peers import own_home
from bench.table import Figure, in_turn

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "20"))
_PATIENCE = 60.0


def noting(folder: Path) -> Figure:
    """Measure submissions from a repository, with packages, git and data noted and without."""
    work = folder / "work"
    work.mkdir()
    (work / "data.csv").write_text("1,2\n" * 1000)
    said = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "bench")):
        subprocess.run(["git", "-C", work, *said, *words], check=True)
    numbers = count()

    def submitted(*, noted: bool) -> float:
        os.environ["SUBMARINE_PROVENANCE"] = str(noted).lower()
        cluster = open_cluster()
        bundle = build(Cell(number=1, source="1 + 1"), [], {})
        roles = (Role(resources=Resources(gpus=0)),)
        data = str(work / "data.csv")
        spec = JobSpec(name=f"bench-{next(numbers)}", roles=roles, input_path=data)
        begun = time.monotonic()
        job = Job(cluster, cluster.submit(spec, bundle, workdir=work))
        took = time.monotonic() - begun
        job.wait()
        note = JobPaths(folder, job.id).root / PROVENANCE
        until = time.monotonic() + _PATIENCE
        while noted and not note.exists():  # the next one has the machine to itself
            assert time.monotonic() < until, "nothing was noted"
            time.sleep(0.01)
        return took * 1000

    with own_home(folder):
        ours, plain = in_turn(ROUNDS, lambda: submitted(noted=True), lambda: submitted(noted=False))
    return Figure(
        what="submission, with what it ran with noted",
        target="<= 20 ms more",
        unit="ms",
        ours=ours,
        peers={"nothing noted": plain},
    )
