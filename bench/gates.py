"""Ranks of one job that begin together, work at one pace, and end with the first that fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths

from bench import simulation
from bench.peers import own_home
from bench.table import Figure, in_turn

RANKS = 8
HUNDREDS = 512
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
PATIENCE = 120.0
STEP, STEPS = 0.1, 50
_IN = """
import time
now = time.time()
import os
open(f"{os.environ['BENCH_FOLDER']}/{os.environ['RANK']}", "w").write(repr(now))
"""
_FAIL = """
import os, time
folder, rank = os.environ["BENCH_FOLDER"], int(os.environ["RANK"])
open(f"{folder}.{rank}", "w").write(str(os.getpid()))
os.rename(f"{folder}.{rank}", f"{folder}/in-{rank}")
while len(os.listdir(folder)) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
if rank == 3:
    open(f"{folder}/failed", "w").write(str(time.monotonic()))
    raise ValueError("of rank 3")
time.sleep(3600)
"""
_WORK = f"""
import os, time
begun = time.monotonic()
for step in range({STEPS}):
    time.sleep({STEP})
    print("step", step)
ended = time.monotonic()
rank = os.environ.get("RANK", "0")
open(f"{{os.environ['BENCH_FOLDER']}}/{{rank}}", "w").write(f"{{begun}} {{ended}}")
"""


def submit(source: str, ranks: int, told: Path, *, gpus: int = 0) -> Job:
    """Submit a cell in several workers, who may write to the folder `told`."""
    told.mkdir()
    cluster = open_cluster()
    bundle = build(Cell(number=1, source=source), [], {})
    roles = (Role(count=ranks, resources=Resources(gpus=gpus)),)
    spec = JobSpec(name="bench", roles=roles, env={"BENCH_FOLDER": str(told)})
    return Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))


def gate(folder: Path) -> Figure:
    """Measure from the last hello to the last rank in its code, beside one process's first line."""
    numbers = count()

    def ours() -> float:
        told = folder / f"gate-{next(numbers)}"
        job = submit(_IN, RANKS, told)
        status = job.wait()
        assert status.state.value == "succeeded", status.reason
        paths = JobPaths(folder / "home", job.id)
        hellos = [paths.task(t.task).root / "hello.json" for t in status.tasks]
        inside = [float(path.read_text()) for path in told.iterdir()]
        return max(inside) - max(path.stat().st_mtime for path in hellos)

    def python() -> float:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
        return time.monotonic() - begun

    with own_home(folder / "home"):
        mine, plains = in_turn(ROUNDS, ours, python)
    return Figure(
        what=f"{RANKS} ranks: last hello → all in their code",
        target="≤ 0.1 s",
        unit="s",
        ours=mine,
        peers={"one start of Python": plains},
    )


def first_failure(folder: Path) -> list[Figure]:
    """Measure from the first rank's failure to the end of all others, and to all GPUs free."""
    numbers = count()
    freed: list[float] = []

    def ours() -> float:
        told = folder / f"failure-{next(numbers)}"
        job = submit(_FAIL, RANKS, told, gpus=1)
        cluster = job.cluster
        failed = float(_wait(lambda: (told / "failed").exists() and _text(told / "failed")))
        pids = [int(path.read_text()) for path in told.glob("in-*")]
        _wait(lambda: not any(map(_runs, pids)))
        ended = time.monotonic() - failed
        _wait(lambda: not any(gpu.job_id for gpu in cluster.gpus()))
        freed.append(time.monotonic() - failed)
        job.wait()
        return ended

    def processes() -> float:
        """Kill as many sleeping processes by hand."""
        command = [sys.executable, "-c", "import time; time.sleep(3600)"]
        started = [subprocess.Popen(command) for _ in range(RANKS)]
        begun = time.monotonic()
        for process in started:
            process.kill()
        for process in started:
            process.wait()
        return time.monotonic() - begun

    with own_home(folder / "home", gpus=RANKS):
        mine, plains = in_turn(ROUNDS, ours, processes)
    peers = {"a kill of as many processes": plains}
    what = f"{RANKS} ranks: one fails → "
    return [
        Figure(what=f"{what}all others gone", target="≤ 1 s", unit="s", ours=mine, peers=peers),
        Figure(what=f"{what}all GPUs free", target="≤ 2 s", unit="s", ours=freed[1:], peers=peers),
        _hundreds(folder),
    ]


def _hundreds(folder: Path) -> Figure:
    """Measure the same up to the signals, of simulated tasks."""
    home = folder / "hundreds"

    def one(tasks: int) -> float:
        place = home / str(tasks)
        with own_home(place), simulation.keeper(place) as (cluster, _):
            bundle = build(Cell(number=1, source="1"), [], {})
            spec = JobSpec(name="bench", roles=(Role(count=tasks),))
            job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
            with simulation.player(place, job.id, "1000", "5", "worker-3", "2"):
                job.wait(PATIENCE)
            root = place / "simulated" / job.id
            first: dict[str, float] = {}
            for line in (root / "signals").read_text().splitlines():
                task, _, at = line.split()
                first.setdefault(task, float(at))
            assert len(first) == tasks - 1
            return max(first.values()) - (root / "worker-3" / "exit").stat().st_mtime

    return Figure(
        what=f"{HUNDREDS} simulated tasks: one fails → all others signalled",
        target="a look apart",
        unit="s",
        ours=[one(HUNDREDS)],
        peers={f"{RANKS} simulated tasks": [one(RANKS)]},
    )


def scaling(folder: Path) -> list[Figure]:
    """Measure steps a second of 1 to 8 ranks whose step is a sleep, beside plain processes."""
    numbers = count()

    def pace(told: Path) -> float:
        times = [list(map(float, path.read_text().split())) for path in told.iterdir()]
        begun, ended = min(t[0] for t in times), max(t[1] for t in times)
        return STEPS * len(times) / (ended - begun)

    def ours(ranks: int) -> float:
        told = folder / f"scaling-{next(numbers)}"
        status = submit(_WORK, ranks, told).wait()
        assert status.state.value == "succeeded", status.reason
        return pace(told)

    def plain(ranks: int) -> float:
        """Return the ideal: so many times the pace of one process that runs alone."""
        told = folder / f"plain-{next(numbers)}"
        told.mkdir()
        environment = {**os.environ, "BENCH_FOLDER": str(told)}
        command = [sys.executable, "-c", _WORK]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return ranks * pace(told)

    figures = []
    with own_home(folder / "home"):
        for ranks in (1, 2, 4, 8):
            mine, plains = in_turn(
                max(1, ROUNDS // 2), lambda n=ranks: ours(n), lambda n=ranks: plain(n)
            )
            figures.append(
                Figure(
                    what=f"steps a second of {ranks} ranks that sleep",
                    target="≥ 0.98 of ideal",
                    unit="steps/s",
                    ours=mine,
                    peers={"ideal: one plain process, times the ranks": plains},
                )
            )
    return figures


def _text(path: Path) -> str:
    return path.read_text()


def _runs(pid: int) -> bool:
    """Return whether a process is there, and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _wait(holds: Callable[[], object]) -> str:
    limit = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > limit:
            raise RuntimeError("what is measured does not come")
        time.sleep(0.002)
    return str(found)
