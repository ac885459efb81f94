"""What is known of a Slurm for a moment: its jobs, nodes and free GPUs, asked once for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.polled import WORK, Polled
from submarine_engine.clusters.slurm.client import Node, Slurm, SlurmJob, read_indices

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import SubmitQueue

_FEW = 50  # jobs: an answer about no more costs the controller little, however slow we read it
_BUSY_FOR = 1.0  # seconds for which the answer holds which nodes there are


def _soon(jobs: Sequence[SlurmJob], took: float) -> float:
    return took if len(jobs) <= _FEW else took * WORK


class SlurmState:
    """A Slurm as all jobs of a process see it.

    Parameters
    ----------
    slurm
        Who is asked.
    tasks
        The folder that the nodes see of the jobs' tasks.
    submit_queue
        The jobs that have not been asked for yet.
    """

    def __init__(self, slurm: Slurm, tasks: Path, submit_queue: SubmitQueue) -> None:
        self.slurm = slurm
        self.submit_queue = submit_queue
        self.mine = Polled(lambda: slurm.jobs(mine=True), soon=_soon)
        """The user's own jobs, as `Slurm.jobs` tells them."""
        self.all = Polled(lambda: slurm.jobs(mine=False), soon=_soon)
        """Those of all users."""
        self._nodes = Polled(slurm.nodes, holds=_BUSY_FOR, work=0)
        self._tasks = tasks

    def place(self, job_id: str, attempt: int) -> Path:
        """Return the folder that the nodes see of an attempt: one below it for each task."""
        return self._tasks / job_id / str(attempt)

    def nodes(self) -> list[Node]:
        """Return the nodes, as `Slurm.nodes`; an answer holds for a second."""
        return self._nodes.answer()

    def free(self, *, since: float = -math.inf) -> dict[str, int]:
        """Return how many GPUs each usable node has free; raises as `Slurm.jobs`.

        Parameters
        ----------
        since
            As `Polled.answer` has it.
        """
        taken = self.holders(self.all.answer(since=since))
        nodes = [node for node in self.nodes() if node.usable]
        return {
            node.name: sum((node.name, index) not in taken for index in range(node.gpus))
            for node in nodes
        }

    def holders(self, jobs: Sequence[SlurmJob]) -> dict[tuple[str, int], SlurmJob]:
        """Return the jobs that hold GPUs, by node and index.

        Parameters
        ----------
        jobs
            As `Slurm.jobs` tells them.
        """
        holders = {}
        for job in jobs:
            if job.state not in {"RUNNING", "COMPLETING", "SUSPENDED"} or not job.gres:
                continue
            for host, gres in zip(self.slurm.hosts(job.nodes), job.gres, strict=False):
                for index in read_indices(gres):
                    holders[host, index] = job
        return holders
