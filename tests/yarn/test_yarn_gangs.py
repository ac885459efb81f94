"""Gangs whose roles are of several sizes, asked for through a warm master: nothing is lost."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.yarn.masters import Master
from submarine_engine.errors import ClusterError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState, Resources, Role

from tests.hadoop import yarn_cluster
from tests.jobs import LIMIT, bundle_of, until

PATIENCE = 300.0
LARGE, SMALL = (512, 1, 1), (512, 1, 0)


def run(cluster, workdir, **gpus_of):
    """Run a job with so many GPUs in each task of each role; return the containers' numbers."""
    roles = tuple(
        Role(name=name, count=len(gpus), resources=Resources(gpus=gpus[0], memory=256, vcores=1))
        for name, gpus in gpus_of.items()
    )
    spec = JobSpec(name="gang", roles=roles, notebook="gangs.ipynb", options={"mode": "warm"})
    job_id = cluster.submit(spec, bundle_of("print('here')\n"), workdir=workdir)
    until(lambda: cluster.status(job_id).state.final, PATIENCE)
    status = cluster.status(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    noted = read_json(JobPaths(cluster.home, job_id).root / "yarn.json")
    instances = noted["instances"].items()
    return {task: int(one.rpartition("_")[2]) for task, one in instances}, noted["app_id"]


@pytest.mark.long
def test_a_gang_gets_all_that_it_asks_for_at_the_first_time(shared_home, tmp_path):
    cluster = yarn_cluster(shared_home)
    turns = Counter()  # by master: an idle one may give way to an application of another test
    for _ in range(3):  # skein numbers what a master was asked for: a number more is one lost
        numbers, master = run(cluster, tmp_path, worker=[1, 1], ps=[0])
        one = turns[master]
        assert numbers == {"worker-0": 2 * one, "worker-1": 2 * one + 1, "ps-0": one}
        turns[master] += 1


def container(number):
    return SimpleNamespace(id=f"worker-1_{number}")


class Heard:
    """A master and the ResourceManager that hears of it: at the second look, or never."""

    def __init__(self, after=2):
        self.after = after
        self.looks = 0
        self.told = []

    def set_progress(self, value):
        self.told.append(value)
        self.looks = 0

    def application(self, _):
        self.looks += 1
        if self.looks % 2:
            raise ClusterError("it is away for a moment")
        return {"progress": self.told[-1] * 100 if self.looks >= self.after else 55.0}


def test_a_smaller_container_waits_for_a_heartbeat_after_a_larger_one(monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.yarn.masters._HEARD", LIMIT)
    both = Heard(after=4)
    master = Master("key", None, app_id="application_1_1", app=both)
    master.wait_to_ask(both, LARGE, [])
    master.asked = {"worker-1_0": LARGE, "worker-1_1": LARGE}
    master.wait_to_ask(both, LARGE, [])
    assert both.told == []
    master.wait_to_ask(both, SMALL, [container(1)])
    assert both.looks == 4
    assert master.asked == {"worker-1_1": LARGE}
    master.wait_to_ask(both, SMALL, [])
    assert len(set(both.told)) == 2  # or the second would be taken for heard at once
    master.wait_to_ask(both, SMALL, [])
    assert len(both.told) == 2


def test_a_silent_manager_keeps_nobody_from_asking(monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.yarn.masters._HEARD", 0.1)
    both = Heard(after=1 << 30)
    master = Master("key", None, app_id="application_1_1", app=both, asked={"a": LARGE})
    master.wait_to_ask(both, SMALL, [])
    assert master.asked == {}


@pytest.mark.long
def test_gangs_of_many_sizes_follow_one_another(shared_home, tmp_path):
    cluster = yarn_cluster(shared_home)
    for _ in range(2):
        run(cluster, tmp_path, worker=[2, 2], ps=[0, 0, 0], evaluator=[0])
        run(cluster, tmp_path, worker=[1], ps=[0, 0, 0], evaluator=[0])
        run(cluster, tmp_path, worker=[4], ps=[0, 0, 0], evaluator=[0])
