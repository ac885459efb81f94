"""TensorBoard over jobs: a process of its own, found by id, and scalars read without it."""

from submarine_engine.tensorboard.board import boards, find_board, poll, start, stop, wait
from submarine_engine.tensorboard.record import Board
from submarine_engine.tensorboard.scalars import scalars
from submarine_engine.tensorboard.wanted import Wanted, wanted

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
