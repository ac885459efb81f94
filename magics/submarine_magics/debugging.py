"""``%submarine debug``: a failed job opened in the notebook, where it failed."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from IPython.core.display_trap import DisplayTrap
from submarine_engine.command import Command
from submarine_engine.debugger import debug, debugger_class
from submarine_engine.errors import JobFailedError, JobNotFoundError
from submarine_engine.future import Job
from submarine_engine.history import default_home
from submarine_engine.job import JobState
from submarine_engine.post_mortem import open_post_mortem, traceback_of
from submarine_engine.records import iter_jobs, open_job, record_of

from submarine_magics.reading import can_read
from submarine_magics.show import show
from submarine_magics.workbench import Workbench

_LOOKED_AT = 200
"""Jobs on record among which the notebook's last one that failed is looked for."""


def run_debug(bench: Workbench, command: Command) -> None:
    """Open a debugger over a job's frames; where nobody can be asked, show them.

    Parameters
    ----------
    bench
        The notebook's: its shell has the debugger.
    command
        Its ``job``, without one the notebook's last that failed; its ``task``, without one the task
        that failed first.

    Raises
    ------
    JobError
        The job did not fail, or none of the notebook's did.
    """
    wanted = command.values.get("job")
    job = open_job(wanted) if wanted else _last_failed(bench)
    found = open_post_mortem(job, command.values.get("task"), main=True)
    if not can_read(bench.shell):
        show("\n".join(found.lines()))
        return
    shell: Any = bench.shell
    with DisplayTrap(hook=sys.__displayhook__):  # as %debug does
        debug(found, debugger_class(shell.InteractiveTB.debugger_cls)())


def open_by_debug(error: JobFailedError, job: Job, task: str = "") -> None:
    """Let a bare ``%debug`` after the cell open the frames of its job.

    Parameters
    ----------
    error
        What the cell is about to raise.
    job
        The one that failed by it.
    task
        Whose frames; empty for the one that failed first.
    """
    error.frames_below = partial(traceback_of, job.id, task or None, error)


def _last_failed(bench: Workbench) -> Job:
    for number, summary in enumerate(iter_jobs(default_home())):
        if number == _LOOKED_AT:
            break
        spec = record_of(summary.id).get("spec", {}) if summary.state is JobState.FAILED else {}
        if spec.get("notebook") == bench.notebook:
            return open_job(summary.id)
    raise JobNotFoundError(
        "no job of this notebook has failed", fix="name one: %submarine debug JOB"
    )
