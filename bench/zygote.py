"""From the request to the first line of a job that imports much: forked, and as a fresh process."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.local import zygotes

from bench.peers import first_line, in_the_frameworks, own_home
from bench.table import Figure, in_turn

ROUNDS = 7
SAY = 'print("first line", flush=True)\n'
IMPORTS = f"import sklearn.datasets, sklearn.ensemble, sklearn.neural_network\n{SAY}"
TORCH = f"import torch\n{SAY}"
STEP = f"""
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(3, 4)).sum().backward()
optimizer.step()
{SAY}
"""
_PATIENCE = 300


def first_lines(folder: Path) -> Figure:
    """Measure from the request to the first line, which comes after the imports."""
    mine, theirs = _in_turn(folder, IMPORTS, IMPORTS)
    return _figure("request → first line, scikit-learn imported", "≤ 0.3 s", mine, theirs)


def torch_first_lines(folder: Path) -> Figure:
    """Measure the same of torch, in the environment of `make pytest-frameworks`."""
    mine, theirs = _both(folder, "TORCH")
    return _figure("request → first line, torch imported", "≤ 0.3 s", mine, theirs)


def torch_steps(folder: Path) -> Figure:
    """Measure up to the line after the first step of an optimizer, which imports much by itself."""
    mine, theirs = _both(folder, "STEP")
    return _figure("request → first step of an optimizer, torch", "≤ 0.5 s", mine, theirs)


def _figure(what: str, target: str, mine: list[float], theirs: list[float]) -> Figure:
    peers = {"a fresh process": theirs}
    return Figure(what=what, target=target, unit="s", ours=mine, peers=peers)


def _both(folder: Path, name: str) -> list[list[float]]:
    values = in_the_frameworks("bench.zygote", folder, name)
    for kind, found in zip(("forked", "fresh"), values, strict=True):
        low, *_, high = sorted(found)
        print(f"{name.lower()}, {kind}: {low:.3f} to {high:.3f} s", file=sys.stderr)
    return values


def _in_turn(folder: Path, before: str, source: str) -> list[list[float]]:
    """Run jobs forked and fresh, once a job has told what is to be imported ahead."""

    def forked() -> float:
        return _first_line(source, "shared")

    def fresh() -> float:
        return _first_line(source, "fresh")

    with own_home(folder / "home") as home:
        _first_line(before, "shared")
        limit = time.monotonic() + _PATIENCE
        while not (ready := list(home.glob("hosts/*/zygotes/*/socket"))):
            if time.monotonic() > limit:
                raise RuntimeError(f"nothing was imported ahead: see {home}/hosts")
            time.sleep(0.05)
        values = in_turn(ROUNDS, forked, fresh)
        for socket in ready:
            zygotes.end(socket.parent)
    return values


def _first_line(source: str, isolation: str) -> float:
    cluster = open_cluster()
    bundle = build(Cell(number=1, source=source), [], {})
    roles = (Role(resources=Resources(gpus=0)),)
    spec = JobSpec(name="bench", roles=roles, options={"isolation": isolation})
    start = time.monotonic()
    job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
    seen = first_line(job)
    job.wait()
    return seen - start


if __name__ == "__main__":
    # What was trained before imports more than what only imports torch.
    source = {"TORCH": TORCH, "STEP": STEP}[sys.argv[2]]
    print(json.dumps(_in_turn(Path(sys.argv[1]), STEP, source)))
