"""TensorBoard over jobs: a process of its own, found by id, and scalars read without it."""

from submarine_engine.tensorboard.board import (
    Board,
    Wanted,
    boards,
    find_board,
    poll,
    start,
    stop,
    wait,
    wanted,
)
from submarine_engine.tensorboard.scalar_reader import scalars

__all__ = [
    "Board",
    "Wanted",
    "boards",
    "find_board",
    "poll",
    "scalars",
    "start",
    "stop",
    "wait",
    "wanted",
]
