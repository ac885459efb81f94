"""A training loop inside a job is as fast as in a plain script."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.peers import own_home, plain, submit, submitit_job
from bench.table import Figure, in_turn
from bench.work import LOOP, train

ROUNDS = 5
EPOCHS = 60


def loops(folder: Path) -> Figure:
    """Measure epochs a second."""

    def ours() -> float:
        speed: float = submit(f"{LOOP}train({EPOCHS})\n").result()
        return speed

    def theirs() -> float:
        speed: float = submitit_job(folder / "submitit", train, EPOCHS).result()
        return speed

    def python() -> float:
        source = f"{LOOP}print(train({EPOCHS}))\n"
        with plain(folder / "plain.py", source, stdout=subprocess.PIPE) as process:
            return float(process.communicate()[0].split()[-1])

    with own_home(folder / "home"):
        mine, submitits, plains = in_turn(ROUNDS, ours, theirs, python)
    return Figure(
        what="training loop",
        target="≥ 0.99 of plain",
        unit="epochs/s",
        ours=mine,
        peers={"plain python": plains, "submitit": submitits},
    )
