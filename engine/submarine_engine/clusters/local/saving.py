"""Asking a job of the local cluster for its model: a line in its task's named pipe."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters import saving
from submarine_engine.clusters.local.checks import local_path
from submarine_engine.clusters.saved import Saved
from submarine_engine.clusters.saving import notes
from submarine_engine.clusters.saving.checkpoints import FolderStorage
from submarine_engine.clusters.saving.notes import Note
from submarine_engine.errors import SaveError
from submarine_engine.history import JobPaths, read_json

if TYPE_CHECKING:
    from submarine_engine.lifecycle import JobStatus

_PIPE = "save"
_LONGEST = 4096  # bytes that a pipe takes whole (PIPE_BUF)
_LOOK = 0.02


def save_local(asked: saving.Asked, path: str) -> Saved:
    """Bring the model of a running job to a folder of this machine, see `Cluster.save`."""
    paths = asked.paths
    record = read_json(paths.record) or {}
    target = saving.FolderTarget(local_path(path, "save to").absolute())
    kept = record.get("spec", {}).get("checkpoint_path")
    storage = None
    if kept:
        storage = FolderStorage(Path(record["workdir"]) / local_path(kept, "--checkpoint_path"))
    return saving.save(asked, target, _Pipe(paths, asked.status), storage)


class _Pipe:
    """The way to the function of a task on this machine."""

    unseen = ""

    def __init__(self, paths: JobPaths, status: Callable[[], JobStatus]) -> None:
        self._paths = paths
        self._status = status

    def find(self) -> str | None:
        """Return the task that has a function."""
        tasks = saving.in_order(self._status())
        return next((task for task in tasks if self._note(task) is not None), None)

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have its files written."""
        job_id, name = self._paths.job_id, secrets.token_hex(8)
        before = self._note(task)
        if before and before.state == "saving":
            raise notes.busy(before, job_id)
        self._ring(task, {"id": name, "folder": str(folder)})
        while (note := self._note(task)) is None or note.id != name or note.state == "saving":
            if self._status().state.final and self._note(task) == note:
                raise notes.ended(job_id)
            if time.monotonic() > until:
                heard = note is not None and note.id == name
                raise notes.hangs(job_id) if heard else notes.unheard(job_id)
            time.sleep(_LOOK)
        if note.state == "failed":
            raise notes.failed(note, job_id, self._paths.task(task).root)

    def _ring(self, task: str, asked: dict[str, str]) -> None:
        line = json.dumps(asked, ensure_ascii=False).encode() + b"\n"
        if len(line) > _LONGEST:
            raise SaveError(
                "the path is too long", job_id=self._paths.job_id, fix="name a shorter one"
            )
        try:
            pipe = os.open(
                self._paths.task(task).root / _PIPE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as error:  # nobody listens: the process that gave the function is gone
            raise SaveError(
                "the process that gave a function to on_save is gone",
                job_id=self._paths.job_id,
                fix="give it in the task's own process",
            ) from error
        try:
            os.write(pipe, line)
        finally:
            os.close(pipe)

    def _note(self, task: str) -> Note | None:
        try:
            return notes.read_note((self._paths.task(task).root / notes.NOTE).read_bytes())
        except FileNotFoundError:
            return None
