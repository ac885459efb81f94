"""The work itself, as submitit's processes load it: a module that imports nothing else of ours."""

from __future__ import annotations

from typing import Any

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


def say_first_line() -> None:
    """Do the work of the first figure."""
    print("first line", flush=True)


def train(epochs: int) -> float:
    """Run the training loop; return epochs a second."""
    names: dict[str, Any] = {}
    exec(LOOP, names)  # noqa: S102 - the text above
    speed: float = names["train"](epochs)
    return speed
