"""The verb about the files that a job has left."""

from __future__ import annotations

from pathlib import Path

from submarine_engine.amounts import count, size
from submarine_engine.artifacts import copy_artifacts, shown
from submarine_engine.cli.output import OK, Output, visible
from submarine_engine.command.parser import Command
from submarine_engine.history import JobPaths, default_home
from submarine_engine.records import open_job


def artifacts(command: Command, output: Output) -> int:
    """List a job's artifacts, or copy them into a folder.

    Parameters
    ----------
    command
        Names the job; may have ``to``, the folder that they are copied to.
    output
        Where they are listed, or it is said how many were copied.
    """
    job = open_job(command.values["job"])
    found = job.cluster.artifacts(job.id)
    if folder := command.values.get("to"):
        target = Path(folder).expanduser()
        copy_artifacts(JobPaths(default_home(), job.id), found.files, target)
        words = f"{count(len(found.files), 'file')} copied to {visible(str(target), line=True)}"
    else:
        words = found.words
    if output.json:
        output.data(
            {
                "job": job.id,
                "artifacts": [one.to_json() for one in found.files],
                "left_out": dict(found.left),
            }
        )
        return OK
    if not folder and found.files:
        rows = [(visible(shown(one.name), line=True), size(one.size)) for one in found.files]
        output.table(("name", "size"), rows)
    output.note(visible(words, line=True) if found.files else _NONE)
    return OK


def export(command: Command, output: Output) -> int:
    """Bring a job into MLflow's records.

    Parameters
    ----------
    command
        Names the job; has ``to``, and may have ``uri`` and ``experiment``, else MLflow's own and
        one named after the notebook.
    output
        Where it is said what is there now.
    """
    from submarine_engine.export import export_as_asked  # noqa: PLC0415 - seldom asked

    done = export_as_asked(command)
    if output.json:
        output.data({"job": done.job, **done.to_json()})
        return OK
    output.line(visible(done.words, line=True))
    return OK


_NONE = "no artifacts: the job's code leaves them in the folder $SUBMARINE_OUTPUT_PATH"
