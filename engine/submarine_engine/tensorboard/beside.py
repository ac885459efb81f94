"""The TensorBoard that a job asks for by ``--tensorboard``, started when it is submitted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters.warned import add_warning
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, shown_user
from submarine_engine.tensorboard.board import start
from submarine_engine.tensorboard.record import Files
from submarine_engine.tensorboard.wanted import Wanted


def start_beside(home: Path, paths: JobPaths) -> None:
    """Start a TensorBoard over one job; what goes wrong becomes a warning of the job, no more."""
    try:
        start(home, Wanted((paths.job_id,), user=shown_user()))
    except (SubmarineError, OSError) as error:
        with suppress(OSError):
            add_warning(paths, f"no TensorBoard beside the job: {error}")


def address_beside(home: Path, job_id: str) -> str | None:
    """Return where on this machine a TensorBoard over just that job listens; None where none does.

    Asks nobody: it is called often.
    """
    with suppress(SubmarineError, OSError):
        board = Files(home, Wanted((job_id,), user=shown_user()).id).live()
        return board.address if board else None
    return None
