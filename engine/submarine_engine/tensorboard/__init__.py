"""TensorBoard over jobs: a process of its own, found by id, and scalars read without it."""

from submarine_engine.tensorboard.board import (
    Board,
    Selection,
    find_board,
    list_boards,
    poll_board,
    select,
    start_board,
    stop_board,
    wait_for_board,
)
from submarine_engine.tensorboard.scalar_reader import scalars

__all__ = [
    "Board",
    "Selection",
    "find_board",
    "list_boards",
    "poll_board",
    "scalars",
    "select",
    "start_board",
    "stop_board",
    "wait_for_board",
]
