"""What is known of a Slurm for a moment: its jobs, nodes and free GPUs, asked once for all."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.slurm.client import Node, Slurm, SlurmJob, read_indices

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import SubmitQueue

_LOOKS_EVERY = 0.5  # seconds
_WORK = 20  # times what an answer took: the controller works for us a twentieth of its time at most
_FEW = 50  # jobs: an answer about no more costs the controller little, however slow we read it
_BUSY_FOR = 1.0  # seconds for which the answer holds which nodes there are


class JobTable:
    """The user's jobs as Slurm tells of them: one question for all that ask at a time.

    Parameters
    ----------
    slurm
        Who is asked.
    mine
        As `Slurm.jobs` has it.
    """

    def __init__(self, slurm: Slurm, *, mine: bool) -> None:
        self._slurm = slurm
        self._mine = mine
        self._lock = threading.Lock()
        self._asked_at = -math.inf
        self._took = 0.0
        self._jobs: list[SlurmJob] = []

    def jobs(self, *, since: float = -math.inf, hurry: bool = False) -> list[SlurmJob]:
        """Return them.

        Parameters
        ----------
        since
            Seconds of the monotonic clock; an answer to a question from before is none.
        hurry
            Whether it is worth a question now: GPUs are about to be free.

        Raises
        ------
        ClusterError
            Slurm does not answer.
        """
        with self._lock:
            pause = self._took * _WORK
            soon = self._took if len(self._jobs) <= _FEW else pause
            age = time.monotonic() - self._asked_at
            if self._asked_at < since or age > (soon if hurry else max(pause, _LOOKS_EVERY)):
                began = time.monotonic()
                self._jobs = self._slurm.jobs(mine=self._mine)
                self._asked_at, self._took = began, time.monotonic() - began
            return self._jobs


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
        self.mine = JobTable(slurm, mine=True)
        self.all = JobTable(slurm, mine=False)
        self._tasks = tasks
        self._lock = threading.Lock()
        self._nodes: tuple[float, list[Node]] = (-math.inf, [])

    def place(self, job_id: str, attempt: int) -> Path:
        """Return the folder that the nodes see of an attempt: one below it for each task."""
        return self._tasks / job_id / str(attempt)

    def nodes(self) -> list[Node]:
        """Return the nodes, as `Slurm.nodes`; an answer holds for a second."""
        with self._lock:  # all jobs that wait look at once: one of them asks
            asked_at, nodes = self._nodes
            if time.monotonic() - asked_at > _BUSY_FOR:
                nodes = self.slurm.nodes()
                self._nodes = time.monotonic(), nodes
            return nodes

    def free(self, *, since: float = -math.inf) -> dict[str, int]:
        """Return how many GPUs each usable node has free; raises as `Slurm.jobs`.

        Parameters
        ----------
        since
            As `JobTable.jobs` has it.
        """
        taken = self.holders(self.all.jobs(since=since))
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
