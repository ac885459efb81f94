"""From the request to the first line of a job that imports much: forked, and as a fresh process."""

from __future__ import annotations

import time
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.local import zygotes

from bench.peers import first_line, own_home
from bench.table import Figure, in_turn

ROUNDS = 7
IMPORTS = (
    "import sklearn.datasets, sklearn.ensemble, sklearn.neural_network\n"
    'print("first line", flush=True)\n'
)
_PATIENCE = 120


def first_lines(folder: Path) -> Figure:
    """Measure from the request to the first line, which comes after the imports."""

    def forked() -> float:
        return _first_line("shared")

    def fresh() -> float:
        return _first_line("fresh")

    with own_home(folder / "home") as home:
        _first_line("shared")
        limit = time.monotonic() + _PATIENCE
        while not (ready := list(home.glob("hosts/*/zygotes/*/socket"))):
            if time.monotonic() > limit:
                raise RuntimeError(f"nothing was imported ahead: see {home}/hosts")
            time.sleep(0.05)
        mine, theirs = in_turn(ROUNDS, forked, fresh)
        for socket in ready:
            zygotes.end(socket.parent)
    return Figure(
        what="request → first line, scikit-learn imported",
        target="≤ 0.3 s",
        unit="s",
        ours=mine,
        peers={"a fresh process": theirs},
    )


def _first_line(isolation: str) -> float:
    cluster = open_cluster()
    bundle = build(Cell(number=1, source=IMPORTS), [], {})
    roles = (Role(resources=Resources(gpus=0)),)
    spec = JobSpec(name="bench", roles=roles, isolation=isolation)
    start = time.monotonic()
    job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
    seen = first_line(job)
    job.wait()
    return seen - start
