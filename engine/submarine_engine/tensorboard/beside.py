"""The TensorBoard that a job asks for by ``--tensorboard``, started when it is submitted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters.warned import add_warning
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, shown_user
from submarine_engine.tensorboard.board import start
from submarine_engine.tensorboard.wanted import Wanted


def start_beside(home: Path, paths: JobPaths) -> None:
    """Start a TensorBoard over one job; what goes wrong becomes a warning of the job, no more."""
    try:
        start(home, Wanted((paths.job_id,), user=shown_user()))
    except (SubmarineError, OSError) as error:
        with suppress(OSError):
            add_warning(paths, f"no TensorBoard beside the job: {error}")
