"""What a command line asks of TensorBoards, the same in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submarine_engine.errors import CommandError
from submarine_engine.tensorboard.board import boards, stop
from submarine_engine.tensorboard.record import Board
from submarine_engine.tensorboard.wanted import Wanted, wanted


def asked(home: Path, values: Mapping[str, Any]) -> Wanted:
    """Return what the values of ``tensorboard`` want to see; raises as `wanted`."""
    return wanted(
        home,
        values.get("jobs", ()),
        everything="all" in values,
        folders=[str(folder) for folder in values.get("logdir", ())],
    )


def stop_asked(home: Path, values: Mapping[str, Any]) -> list[Board]:
    """End the TensorBoards that the values of ``tensorboard --stop`` name; return those.

    Words may be jobs, whose TensorBoard is ended, or ids as ``--list`` shows them.

    Raises
    ------
    CommandError, JobNotFoundError
        A word names neither; or what it names is not open.
    """
    if "list" in values:
        raise CommandError("--list and --stop contradict each other", fix="leave one out")
    running = {board.id: board for board in boards(home)}
    words = list(values.get("jobs", ()))
    picked = [running[word] for word in words if word in running]
    rest = {**values, "jobs": [word for word in words if word not in running]}
    if rest["jobs"] or "all" in values or "logdir" in values:
        board_id = asked(home, rest).id
        if board_id not in running:
            raise CommandError(
                "no such TensorBoard is open", fix="see `submarine tensorboard --list`"
            )
        picked.append(running[board_id])
    elif not words:
        picked = list(running.values())
    for board in picked:
        stop(home, board.id)
    return picked
