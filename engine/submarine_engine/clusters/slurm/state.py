"""What is known of a Slurm for a moment: its jobs, nodes and free GPUs, asked once for all."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters.polled import WORK, Polled
from submarine_engine.clusters.slurm.client import (
    GpuLimits,
    Node,
    Slurm,
    SlurmJob,
    read_indices,
)
from submarine_engine.clusters.slurm.sbatch import partition_of
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import SubmitQueue
    from submarine_engine.job import JobSpec

_FEW = 50  # jobs: an answer about no more costs the controller little, however slow we read it
_SITE_HOLDS = 600.0  # seconds: administrators change them, seldom
_LIMITED = {"QOSMaxGRESPerUser": "of_user", "QOSGrpGRES": "of_all"}
_ROOM = frozenset({"Resources", "Priority", "None"})  # "None": Slurm has not looked at it yet
_BUSY_FOR = 1.0  # seconds for which the answer holds which nodes there are


class Told:
    """What ``squeue`` has said, by what jobs look for in it: each would go through all of it.

    Parameters
    ----------
    jobs
        As `Slurm.jobs` tells them.
    """

    def __init__(self, jobs: Sequence[SlurmJob]) -> None:
        self.jobs = jobs
        self.waiting = [job for job in jobs if job.state == "PENDING"]
        """Those that have no nodes yet."""
        self._named = defaultdict[str, list[SlurmJob]](list)
        for job in jobs:
            self._named[job.name].append(job)
        places = defaultdict[str, dict[int, tuple[int, int]]](dict)  # of leaders, by partition
        for job in self.waiting:
            of_leaders, place = places[job.partition], (-job.priority, job.leader)
            of_leaders[job.leader] = min(place, of_leaders.get(job.leader, place))
        self._places = {name: sorted(found.values()) for name, found in places.items()}

    def wanted(self, partition: str | None) -> bool:
        """Return whether a job waits for what is free: others, as one that is held, do not.

        Parameters
        ----------
        partition
            Where; None for anywhere.
        """
        return any(
            job.reason in _ROOM and partition in (None, *job.partition.split(","))
            for job in self.waiting
        )

    def named(self, name: str) -> list[SlurmJob]:
        """Return the jobs of a name."""
        return self._named.get(name, [])

    def before(self, job: SlurmJob) -> int:
        """Return how many jobs of its partition Slurm would begin earlier than `job`."""
        return bisect_left(self._places.get(job.partition, []), (-job.priority, job.leader))


def _soon(told: Told, took: float) -> float:
    return took if len(told.jobs) <= _FEW else took * WORK


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
        self.mine = Polled(lambda: Told(slurm.jobs(mine=True)), soon=_soon)
        """The user's own jobs, as `Slurm.jobs` tells them."""
        self.all = Polled(lambda: Told(slurm.jobs(mine=False)), soon=_soon)
        """Those of all users."""
        self._nodes = Polled(slurm.nodes, holds=_BUSY_FOR, work=0)
        self._partitions = Polled(slurm.partitions, holds=_SITE_HOLDS, work=0)
        self._limits = Polled(self._ask_for_limits, holds=_SITE_HOLDS, work=0)
        self._tasks = tasks
        self._reckoning = threading.Lock()
        self._free: tuple[Told, list[Node], dict[str, int]] | None = None  # of which answers

    def place(self, job_id: str, attempt: int) -> Path:
        """Return the folder that nodes see of `attempt` of `job_id`: one below it for each task."""
        return self._tasks / job_id / str(attempt)

    def nodes(self) -> list[Node]:
        """Return the nodes, as `Slurm.nodes`; an answer holds for a second."""
        return self._nodes.answer()

    def partition(self, spec: JobSpec) -> str | None:
        """Return the partition of a job; None where it names none, and Slurm has none for such.

        Parameters
        ----------
        spec
            The job.
        """
        if (named := partition_of(spec)) is not None:
            return named
        return next((one.name for one in self._partitions.answer() if one.is_default), None)

    def free(self, partition: str | None = None, *, since: float = -math.inf) -> dict[str, int]:
        """Return how many GPUs each usable node has free; raises as `Slurm.jobs`.

        Parameters
        ----------
        partition
            Whose nodes; those of all unless given.
        since
            As `Polled.answer` has it.
        """
        told, nodes = self.all.answer(since=since), self.nodes()
        with self._reckoning:  # all jobs that wait want to know it: one of them reckons
            known = self._free
            if known is None or known[0] is not told or known[1] is not nodes:
                taken = self.holders(told.jobs)
                free = {
                    node.name: sum((node.name, index) not in taken for index in range(node.gpus))
                    for node in nodes
                    if node.usable
                }
                known = self._free = told, nodes, free
        _, nodes, free = known
        names = (node.name for node in nodes if partition in (None, *node.partitions))
        return {name: free[name] for name in names if name in free}

    def gpu_limit(self, job: SlurmJob) -> int | None:
        """Return the number of GPUs for which a job waits; None where it is another reason.

        Slurm's reason does not tell it: it is asked for once for all jobs.

        Parameters
        ----------
        job
            As Slurm tells of it.
        """
        if job.reason not in _LIMITED:
            return None
        of_qos, of_partition = self._limits.answer()
        names = {job.qos, of_partition.get(job.partition, "")}
        limits = {getattr(of_qos.get(name, GpuLimits()), _LIMITED[job.reason]) for name in names}
        limits.discard(None)
        # Which of two would hold, the site's flags say.
        return limits.pop() if len(limits) == 1 else None

    def _ask_for_limits(self) -> tuple[dict[str, GpuLimits], dict[str, str]]:
        limits = self.slurm.gpu_limits()
        try:
            return limits, {one.name: one.qos for one in self._partitions.answer()}
        except ClusterError:
            return {}, {}

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
