"""Several ranks on YARN, from the request to their code, beside containers of skein that meet.

TonY and tf-yarn are no peers here: tf-yarn needs tensorflow-io with the TensorFlow that this is
built for, and TonY a build of its own. Both submit by a command that starts a JVM, ask for a
container a task, and let the tasks tell each other where they are: that alone is what skein's
command does here, with files for the telling. It is the least that they take.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import skein
from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster

from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

RANKS = 4
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PATIENCE = 180.0
_IN = """
import time
now = time.monotonic()
import os
tick = os.sysconf("SC_CLK_TCK")
began = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / tick
aside = f"{os.environ['BENCH_FOLDER']}.{os.environ['RANK']}"
open(aside, "w").write(f"{now} {began}")
os.rename(aside, f"{os.environ['BENCH_FOLDER']}/{os.environ['RANK']}")
"""
"""Notes when it runs, and when its process began: both by the clock since the machine's start."""

_MEET = """
import os, sys, time
folder, ranks = sys.argv[1], int(sys.argv[2])
open(f"{folder}/at-{os.environ['SKEIN_CONTAINER_ID']}", "w").write(os.uname().nodename)
while len([name for name in os.listdir(folder) if name.startswith("at-")]) < ranks:
    time.sleep(0.02)
now = time.monotonic()
aside = f"{folder}.{os.environ['SKEIN_CONTAINER_ID']}"
open(aside, "w").write(f"{now} {now}")
os.rename(aside, f"{folder}/in-{os.environ['SKEIN_CONTAINER_ID']}")
"""


def _inside(told: Path, prefix: str) -> list[tuple[float, float]]:
    """Wait for what all ranks have noted; return it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        paths = [path for path in told.iterdir() if path.name.startswith(prefix)]
        if len(paths) == RANKS:
            found = [path.read_text().split() for path in paths]
            return [(float(now), float(began)) for now, began in found]
        time.sleep(0.005)
    raise RuntimeError(f"the ranks have noted nothing in {told}")


def gang(folder: Path) -> list[Figure]:
    """Measure request → all ranks in their code, and last process begun → all in their code."""
    numbers = count()
    gates: list[float] = []
    program = folder / "meet.py"
    program.write_text(_MEET)

    def told() -> Path:
        made = folder / f"told-{next(numbers)}"
        made.mkdir()
        return made

    def ours() -> float:
        place = told()
        bundle = build(Cell(number=1, source=_IN), [], {})
        roles = (Role(count=RANKS, resources=Resources(gpus=0, memory=512)),)
        spec = JobSpec(
            name="bench",
            roles=roles,
            notebook="bench.ipynb",
            options={"mode": "warm"},
            env={"BENCH_FOLDER": str(place)},
        )
        cluster = open_cluster("yarn")
        begun = time.monotonic()
        job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
        found = _inside(place, "")
        job.wait()
        last = max(now for now, _ in found)
        gates.append(last - max(began for _, began in found))
        return last - begun

    def theirs() -> float:
        place = told()
        service = skein.Service(
            instances=RANKS,
            resources=skein.Resources(memory="512 MiB", vcores=1),
            script=f"exec {sys.executable} {program} {place} {RANKS}",
        )
        spec = folder / f"{place.name}.yaml"
        spec.write_text(skein.ApplicationSpec(name="meet", services={"w": service}).to_yaml())
        words = [sys.executable, "-m", "skein.cli", "application", "submit", str(spec)]
        begun = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return max(now for now, _ in _inside(place, "in-")) - begun

    with on_yarn(folder):
        mine, skeins = in_turn(ROUNDS, ours, theirs)
    return [
        Figure(
            what=f"YARN: {RANKS} ranks, request → all in their code",
            target="≤ 0.3 of TonY or tf-yarn",
            unit="s",
            ours=mine,
            peers={"skein's command, containers that meet by files": skeins},
        ),
        Figure(
            what="last process begun → all in their code",
            target="≤ heartbeat + 0.5 s",
            unit="s",
            ours=gates[1:],
            peers={"a heartbeat (0.2 s) and 0.5 s": [0.7] * len(gates[1:])},
        ),
    ]
