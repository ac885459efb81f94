"""What a job's tasks use now, in a terminal: a table that goes on, or said once."""

from __future__ import annotations

import io
import math
import time
from typing import TYPE_CHECKING, Any

from submarine_engine.cli.output import INTERRUPTED, OK, Output, clipped, visible
from submarine_engine.metrics import HEADINGS, last_of, reported_lines, usage_rows
from submarine_engine.records import job_name, open_job

if TYPE_CHECKING:
    from submarine_engine.command.parser import Command
    from submarine_engine.future import Job
    from submarine_engine.metrics import JobMetrics, Row

_EVERY = 1.0  # seconds: tasks measure once in one, so sooner there is nothing new to show
_NOTHING = "nothing is known of it yet: tasks are first looked at a second after their begin"


def top(command: Command, output: Output) -> int:
    """Show on `output` what the tasks of the job that `command` names use."""
    job = open_job(command.values["job"])
    if output.json:
        output.data({"job": job.id, **as_json(job.cluster.metrics(job.id))})
        return OK
    if not (output.live and output.out.isatty()):
        for line in _lines(job, output):
            output.line(line)
        return OK
    height = 0
    try:
        while True:
            over = job.done()
            shown = [clipped(line) for line in _lines(job, output)]
            up = f"\x1b[{height}F" if height else ""
            output.out.write(f"{up}\x1b[J" + "".join(f"{line}\n" for line in shown))
            output.out.flush()
            height = len(shown)
            if over:
                return OK
            time.sleep(_EVERY)
    except KeyboardInterrupt:
        return INTERRUPTED


def _lines(job: Job, output: Output) -> list[str]:
    status = job.status()
    head = f"{job_name(job.id)}  {job.id}  {status.state.value}"
    found = job.cluster.metrics(job.id)
    text = io.StringIO()
    drawn = Output(out=text, err=output.err)
    if found.used:
        drawn.table(HEADINGS, usage_rows(found.used))
    else:
        drawn.line(_NOTHING)
    return [
        visible(head),
        *text.getvalue().splitlines(),
        *map(visible, reported_lines(found.reported)),
    ]


def as_json(found: JobMetrics) -> dict[str, Any]:
    """Return the last of what tasks have used and reported, for programs.

    Parameters
    ----------
    found
        Of one job.
    """
    return {
        "tasks": [{"task": task, **_last(rows)} for task, rows in found.used.items()],
        "reported": [{"task": task, **_last(rows)} for task, rows in found.reported.items()],
    }


def _last(rows: list[Row]) -> dict[str, Any]:
    # JSON has no word for what is no number.
    numbers = {name: n if math.isfinite(n) else str(n) for name, n in last_of(rows).items()}
    return {"at": rows[-1].at, **numbers}
