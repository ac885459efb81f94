"""A training loop inside a job is as fast as in a plain script."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.peers import own_home, plain, submit, submitit_job
from bench.table import Figure, in_turn

ROUNDS = 7
LOOP = """
import time

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier


def train(epochs):
    digits = load_digits()
    model = MLPClassifier((64,), random_state=0)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        model.partial_fit(digits.data / 16, digits.target, classes=range(10))
        print(f"Epoch {epoch}/{epochs} - loss: {model.loss_:.3f}")
    return epochs / (time.perf_counter() - start)


"""
EPOCHS = 60


def train(epochs: int) -> float:
    """Run the same loop for submitit."""
    names: dict[str, object] = {}
    exec(LOOP, names)  # noqa: S102 - the text above
    speed: float = names["train"](epochs)  # type: ignore[operator] # what LOOP defines
    return speed


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
