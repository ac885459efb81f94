"""The model of a job on Kubernetes: asked for by a message, packed in its pod, and brought home."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters import saving
from submarine_engine.clusters.kubernetes.files import PodFiles
from submarine_engine.clusters.kubernetes.noted import pods_of, python_of
from submarine_engine.clusters.packed import unpack
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.clusters.kubernetes.client import Kubernetes
    from submarine_engine.clusters.saving import Note, SaveRequest


class PodHook:
    """The way to the function of a task in a pod, see `saving.Hook`.

    Parameters
    ----------
    api
        The cluster.
    asked
        Whose model is asked for.
    """

    unseen = ""

    def __init__(self, api: Kubernetes, asked: SaveRequest) -> None:
        self._api = api
        self._asked = asked
        self._pods = pods_of(asked.paths)
        self._python = python_of(asked.paths)
        self._files: dict[str, PodFiles] = {}

    def close(self) -> None:
        """Hang up."""
        for files in self._files.values():
            files.close()

    def find(self) -> str | None:
        """Return the task that has a function."""
        tasks = saving.in_order(self._asked.status())
        return next((task for task in tasks if self._note(task) is not None), None)

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have its files written there, packed, and brought here.

        Parameters
        ----------
        task
            Whose function.
        folder
            Where to, on this machine.
        until
            When patience with the function ends, on the monotonic clock.
        """
        note = saving.wait_for(self._asked, task, lambda: self._note(task), until, folder)
        wanted = {f"save.{number:04d}": size for number, size in enumerate(note.pieces)}
        try:
            unpack(self._reach(task).read, wanted, note.sha256, folder)
        except ClusterError:
            if self._asked.status().state.final:
                raise saving.ended(self._asked.paths.job_id) from None
            raise

    def _reach(self, task: str) -> PodFiles:
        if task not in self._files:
            self._files[task] = PodFiles(self._api, self._pods[task], task, self._python)
        return self._files[task]

    def _note(self, task: str) -> Note | None:
        if task not in self._pods:
            return None
        with suppress(ClusterError):  # the pod is gone, or there is no function yet
            data = self._reach(task).read(saving.NOTE, 0, saving.LARGEST_NOTE)
            return saving.read_note(data)
        return None
