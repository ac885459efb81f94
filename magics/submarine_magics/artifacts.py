"""``%submarine job artifacts``: the files that a job has left, as a table or in a folder."""

from __future__ import annotations

from pathlib import Path

from submarine_engine.amounts import count, size
from submarine_engine.artifacts import Artifact, copy_artifacts, shown
from submarine_engine.command import Command
from submarine_engine.history import JobPaths, default_home
from submarine_engine.records import open_job

from submarine_magics.card.words import visible
from submarine_magics.show import Listing, answer


def list_artifacts(command: Command) -> Listing[Artifact] | None:
    """Return the artifacts of the job that `command` names, or copy them into its ``to``."""
    job = open_job(command.values["job"])
    found = job.cluster.artifacts(job.id)
    if folder := command.values.get("to"):
        target = Path(folder).expanduser()
        copy_artifacts(JobPaths(default_home(), job.id), found.files, target)
        answer(f"{count(len(found.files), 'file')} copied to {visible(target)}")
        return None
    rows = [(visible(shown(one.name)), size(one.size)) for one in found.files]
    return Listing(found.files, ("NAME", "SIZE"), rows, ("", visible(found.words)))
