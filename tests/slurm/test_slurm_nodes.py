"""Jobs over several nodes of a real Slurm: one job of Slurm's, whatever its tasks need."""

from __future__ import annotations

from submarine_engine.job import JobState, Resources, Role

SHOW = """
import os
from submarine_runtime import job
print(job.rank, job.world_size, os.environ["SLURM_JOB_ID"], os.environ["CUDA_VISIBLE_DEVICES"])
"""


def shown(place, job):
    """Return what each task has printed, by task."""
    status = job.wait(180)
    assert status.state is JobState.SUCCEEDED, status.reason
    logs = {one.task: place.paths(job).task(one.task).stdout for one in status.tasks}
    return {task: log.read_text().split() for task, log in logs.items()}


def test_a_gang_goes_over_the_nodes(place):
    job = place.submit(SHOW, **place.with_gpus(4))
    told = shown(place, job)
    assert sorted(rank for rank, *_ in told.values()) == ["0", "1", "2", "3"]
    assert len({number for _, _, number, _ in told.values()}) == 1
    status = job.status()
    hosts = {task.task: task.host for task in status.tasks}
    assert sorted(hosts.values()) == ["n1", "n1", "n2", "n2"]
    held = {(hosts[task], gpus) for task, (*_, gpus) in told.items()}
    assert len(held) == 4  # no GPU of a node is two tasks'


def test_tasks_with_other_numbers_of_gpus_begin_together_on_nodes_of_their_own(place):
    """A heterogeneous job of Slurm's; the server without GPUs runs beside those with the most."""
    one, two, none = (Resources(gpus=gpus, memory=256, vcores=1) for gpus in (1, 2, 0))
    roles = (
        Role(name="chief", resources=two),
        Role(count=2, resources=one),
        Role(name="ps", resources=none),
    )
    job = place.submit("import time; time.sleep(0.1)\n" + SHOW, roles=roles)
    status = job.wait(180)
    assert status.state is JobState.SUCCEEDED, status.reason
    gpus = {task.task: len(task.gpus) for task in status.tasks}
    assert gpus == {"chief-0": 2, "worker-0": 1, "worker-1": 1, "ps-0": 0}
    hosts = {task.task: task.host for task in status.tasks}
    assert hosts["worker-0"] == hosts["worker-1"] != hosts["chief-0"] == hosts["ps-0"]
