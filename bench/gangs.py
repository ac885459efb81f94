"""Several ranks of one job beside torchrun's: how soon they run, how fast, and again after a kill.

Both run the same program on the same cores, in the environment of `make pytest-frameworks`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.local import zygotes

from bench.peers import in_the_frameworks, own_home
from bench.table import Figure, in_turn

RANKS = 4
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
STEPS = int(os.environ.get("BENCH_STEPS", "2000"))
PATIENCE = 300.0
RECOVERY = 240.0
STEPS_BEFORE = 300
PROGRAM = """
import os, time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, folder = dist.get_rank(), os.environ["BENCH_FOLDER"]


def note(name):
    with open(f"{folder}/{name}-{rank}", "a") as file:
        file.write(f"{time.monotonic()} {os.getpid()}\\n")


def step():
    dist.all_reduce(gradient)
    gradient.div_(dist.get_world_size())


note("in")
gradient = torch.ones(100_000)
steps = int(os.environ["BENCH_STEPS"])
begun = time.monotonic()
for _ in range(steps):
    step()
if steps > 0 and rank == 0:
    with open(f"{folder}/rate", "w") as file:
        file.write(str(steps / (time.monotonic() - begun)))
while steps < 0:
    step()
    note("step")
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
"""
"""Takes no step, so many, or (-1) steps until it is killed, each of which it notes."""


# The two ways to run it. Each is given what is to be waited for while it runs.


@contextmanager
def ours(folder: Path, steps: int, retries: int = 0) -> Iterator[Callable[[], None]]:
    """Run the program as the cell of a job of several workers; give what kills one of them."""
    with _job(folder, steps, retries, "fresh") as lose:
        yield lose


@contextmanager
def forked(folder: Path, steps: int, retries: int = 0) -> Iterator[Callable[[], None]]:
    """Run it as a cell of a notebook whose imports are done ahead."""
    with _job(folder, steps, retries, "shared") as lose:
        yield lose


@contextmanager
def _job(folder: Path, steps: int, retries: int, isolation: str) -> Iterator[Callable[[], None]]:
    # No part of the job's environment: a job with another one is not forked.
    told = {"BENCH_FOLDER": str(folder), "BENCH_STEPS": str(steps)}
    source = f"import os\n\nos.environ.update({told})\n{PROGRAM}"
    more: dict[str, Any] = {"retries": retries} if retries else {}
    bundle = build(Cell(number=1, source=source), [], {})
    roles = (Role(count=RANKS, resources=Resources(gpus=0)),)
    spec = JobSpec(name="bench", roles=roles, options={"isolation": isolation}, **more)
    cluster = open_cluster()
    job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
    try:
        yield lambda: os.kill(_of(folder, 2), signal.SIGKILL)
        if steps >= 0:
            status = job.wait()
            assert status.state.value == "succeeded", status.reason
    finally:
        if not job.done():
            job.kill()
            job.wait()


@contextmanager
def torchrun(folder: Path, steps: int, retries: int = 0) -> Iterator[Callable[[], None]]:
    """Run it by torchrun, one for all ranks."""
    words = ["--standalone", "--nproc-per-node", str(RANKS), "--max-restarts", str(retries)]
    with _agents(folder, steps, [words]):
        yield lambda: os.kill(_of(folder, 2), signal.SIGKILL)


@contextmanager
def torchruns(folder: Path, steps: int, retries: int = 0) -> Iterator[Callable[[], None]]:
    """Run it by a torchrun for each rank, as on so many nodes, with its defaults."""
    port = 29_000 + os.getpid() % 1000
    words = ["--nnodes", f"1:{RANKS}", "--nproc-per-node", "1", "--max-restarts", str(retries)]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf"]
    agents = [[*words, f"is_host={int(not number)}"] for number in range(RANKS)]
    with _agents(folder, steps, agents) as host:

        def lose() -> None:
            """Kill an agent and its rank; not the one by which the others meet."""
            for rank in range(1, RANKS):
                pid = _of(folder, rank)
                agent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if agent != host:
                    os.kill(agent, signal.SIGKILL)
                    os.kill(pid, signal.SIGKILL)
                    return

        yield lose


@contextmanager
def _agents(folder: Path, steps: int, agents: list[list[str]]) -> Iterator[int]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "BENCH_FOLDER": str(folder), "BENCH_STEPS": str(steps)}
    # By default (torch 2.15) new ranks find addresses of the former ones in the agent's store, and
    # gloo tries those: so torchrun never comes back. With a store a round it does.
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    command = [str(Path(sys.executable).with_name("torchrun"))]
    log = (folder / "torchrun.log").open("w")
    started = [
        subprocess.Popen(
            [*command, *words, str(program)],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        for words in agents
    ]
    try:
        yield started[0].pid
        if steps >= 0:
            for process in started:
                code = process.wait(PATIENCE)
                assert code == 0, (folder / "torchrun.log").read_text()[-2000:]
    finally:
        log.close()
        ranks = [pid for process in started for pid in _children(process.pid)]
        for process in started:
            process.kill()
            process.wait()
        for pid in {*ranks, *(pid for _, pid in noted(folder, "in"))}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in found.split()]
    return []


# What the ranks have noted.


def noted(folder: Path, name: str) -> list[tuple[float, int]]:
    """Return when ranks noted something, and as which process."""
    found = []
    for path in folder.glob(f"{name}-*"):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                moment, pid = line.split()
                found.append((float(moment), int(pid)))
    return sorted(found)


def _of(folder: Path, rank: int) -> int:
    """Return the first process of a rank."""
    return int((folder / f"in-{rank}").read_text().split()[1])


def until(holds: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it is
    """Wait until something holds; return it."""
    limit = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > limit:
            raise RuntimeError("what the ranks should note did not come")
        time.sleep(0.01)
    return found


def _launch(way: Any, folder: Path) -> float:  # noqa: ANN401 - one of the above
    begun = time.monotonic()
    with way(folder, 0):
        there = until(lambda: len(found := noted(folder, "in")) == RANKS and found)
    return float(there[-1][0]) - begun


def _launch_again(way: Any, folder: Path) -> float:  # noqa: ANN401
    """Launch what has run before, as a notebook's cell does most of the time."""
    home = Path(os.environ["SUBMARINE_HOME"])
    if way is forked and not list(home.glob(SOCKETS)):
        before = folder / "before"
        before.mkdir()
        with way(before, 0):
            pass
        until(lambda: list(home.glob(SOCKETS)))
    return _launch(way, folder)


def _rate(way: Any, folder: Path) -> float:  # noqa: ANN401
    with way(folder, STEPS):
        until((folder / "rate").exists)
    return float((folder / "rate").read_text())


RETRIES = {forked: 1, torchrun: 20, torchruns: 20}
"""How often each may begin anew: ranks of torchrun may meet an attempt before, and fail."""


def _recovery(way: Any, folder: Path) -> float:  # noqa: ANN401
    """Kill a rank that is not the first; return the seconds to a new process's first step.

    `RECOVERY` where none came by then.
    """
    with way(folder, -1, retries=RETRIES[way]) as lose:
        until(lambda: len(noted(folder, "step")) >= STEPS_BEFORE * RANKS)
        before = {pid for _, pid in noted(folder, "step")}
        killed = time.monotonic()
        lose()
        limit = killed + RECOVERY
        while time.monotonic() < limit:
            if again := [at for at, pid in noted(folder, "step") if pid not in before]:
                return again[0] - killed
            time.sleep(0.02)
    return RECOVERY


# In the frameworks' environment.


SOCKETS = "hosts/*/zygotes/*/socket"
MEASURES = {
    "launch": (_launch, (ours, torchrun), ROUNDS),
    "launch-again": (_launch_again, (forked, torchrun), max(1, ROUNDS // 2)),
    "rate": (_rate, (ours, torchrun), ROUNDS),
    "recovery": (_recovery, (forked, torchrun), max(1, ROUNDS // 2)),
    "recovery-node": (_recovery, (forked, torchruns), 1),
}


def _measure(folder: Path, name: str) -> list[list[float]]:
    measure, ways, rounds = MEASURES[name]
    count = 0

    def once(way: Any) -> Callable[[], float]:  # noqa: ANN401
        def run() -> float:
            nonlocal count
            count += 1
            place = folder / f"{name}-{count}"
            place.mkdir()
            return measure(way, place)

        return run

    with own_home(folder / "home") as home:
        try:
            return in_turn(rounds, *map(once, ways))
        finally:
            for socket in home.glob(SOCKETS):
                zygotes.end(socket.parent)


def launch(folder: Path) -> list[Figure]:
    """Measure launch, step rate and recovery of 4 ranks beside torchrun."""
    figures = []
    for name, what, target, unit, peer in (
        ("launch", "4 ranks: request → all in their code", "side by side", "s", "torchrun"),
        (
            "launch-again",
            "4 ranks of a cell that ran before: request → all in their code",
            "side by side",
            "s",
            "torchrun",
        ),
        ("rate", "4 ranks: all_reduce by gloo", "≥ 0.99 of torchrun", "steps/s", "torchrun"),
        (
            "recovery",
            "4 ranks: kill -9 of one → next finished step",
            "side by side",
            "s",
            "torchrun, all on one node, --max-restarts 20",
        ),
        (
            "recovery-node",
            "4 ranks: node of one lost → next finished step",
            "≤ 0.1 of torchrun's defaults",
            "s",
            "torchrun, a node each, --nnodes 1:4",
        ),
    ):
        place = folder / name
        place.mkdir()
        mine, theirs = in_the_frameworks("bench.gangs", place, name)
        figures.append(Figure(what=what, target=target, unit=unit, ours=mine, peers={peer: theirs}))
    return figures


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), sys.argv[2])))
