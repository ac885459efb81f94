"""The verb that opens a failed job where it failed."""

from __future__ import annotations

from submarine_engine.cli.output import OK, Output
from submarine_engine.command.parser import Command
from submarine_engine.post_mortem import open_post_mortem
from submarine_engine.records import open_job


def debug(command: Command, output: Output) -> int:
    """Walk through the frames of a failed job by pdb's commands.

    Parameters
    ----------
    command
        Names the job; may have the task, else the one that failed first.
    output
        Where programs get the frames as JSON; to people the debugger writes itself.
    """
    job = open_job(command.values["job"])
    found = open_post_mortem(job, command.values.get("task"))
    if output.json:
        output.data({"job": job.id, **found.to_json()})
        return OK
    from submarine_engine.debugger import debug as walk  # noqa: PLC0415 - JSON needs no debugger
    from submarine_engine.debugger import debugger_class  # noqa: PLC0415 - likewise

    walk(found, debugger_class()())
    return OK
