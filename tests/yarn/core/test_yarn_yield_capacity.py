"""Warm masters that nobody uses end as soon as others wait for the room that they hold."""

import json
import threading
from pathlib import Path

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import masters
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hadoop_json import GPU, MEMORY, VCORES
from submarine_engine.clusters.yarn.masters import FINAL, held_back
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.scheduler import read_scheduler
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.jobs import bundle_of, follow, spec_of, until

QUEUE = "small"
PATIENCE = 200.0


@pytest.fixture
def rm(on_yarn, monkeypatch, tmp_path):
    """Give the ResourceManager; what a keeper of the test's left there is killed afterwards."""
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "3600")
    rm = ResourceManager(load_hadoop())
    yield rm
    for noted in tmp_path.glob("home/yarn/*/masters.json"):
        for master in json.loads(noted.read_text())["masters"]:
            rm.kill(master["app_id"])
            until(lambda app_id=master["app_id"]: rm.application(app_id)["state"] in FINAL)


# The queue is theirs alone: `test_yarn_gpus.py` needs it, too, and is of that group.
@pytest.mark.long
@pytest.mark.xdist_group("the cluster")
def test_idle_masters_make_room(rm, tmp_path):
    cluster = open_cluster("yarn")

    def run(number, mode):  # a master of its own for each amount of memory
        spec = spec_of(memory=256 + number, queue=QUEUE, notebook="a.ipynb", mode=mode)
        job_id = cluster.submit(spec, bundle_of("print('ran')"), workdir=Path())
        story = follow(cluster, job_id, patience=PATIENCE)
        assert (story.state, story.out) == (JobState.SUCCEEDED, "ran\n")
        return read_json(JobPaths(tmp_path / "home", job_id).root / "yarn.json")["app_id"]

    def is_full():
        queue = read_scheduler(rm.get("/ws/v1/cluster/scheduler")).find(QUEUE)
        each = {MEMORY: MASTER_MEMORY, VCORES: 1}
        return any(queue.am_used[name] + each[name] > queue.am_limit[name] for name in each)

    started = [run(0, "warm")]
    while not is_full():
        started.append(run(len(started), "warm"))
    assert len(set(started)) == len(started)
    run(0, "cold")
    states = [rm.application(one)["state"] for one in started]
    assert "FINISHED" in states
    assert "RUNNING" in states  # it made as much room as was wanted


@pytest.mark.long
@pytest.mark.xdist_group("the cluster")
def test_an_idle_master_ends_for_a_container_that_lacks_its_memory(rm, tmp_path):
    cluster = open_cluster("yarn")

    def submit(memory, mode):
        spec = spec_of(memory=memory, queue=QUEUE, notebook="a.ipynb", mode=mode)
        job_id = cluster.submit(spec, bundle_of("print('ran')"), workdir=Path())
        story = follow(cluster, job_id, patience=PATIENCE)
        assert story.state is JobState.SUCCEEDED
        return read_json(JobPaths(tmp_path / "home", job_id).root / "yarn.json")["app_id"]

    master = submit(256, "warm")
    [most] = [
        q.most for q in read_scheduler(rm.get("/ws/v1/cluster/scheduler")).leaves if q.name == QUEUE
    ]
    submit(most[MEMORY] - MASTER_MEMORY - 128, "cold")  # with its own master, and no other one
    assert rm.application(master)["state"] == "FINISHED"


class Manager:
    """A stand-in for the ResourceManager's REST pages of queues and nodes."""

    def __init__(self, waiting, used, free):
        self.waiting, self.used, self.free = waiting, used, free

    def get(self, path):
        def clean_line(amounts):
            listed = [{"name": name, "value": value} for name, value in amounts.items()]
            return {
                "memory": amounts.get(MEMORY, 0),
                "vCores": amounts.get(VCORES, 0),
                "resourceInformations": {"resourceInformation": listed},
            }

        if path.endswith("/nodes"):
            node = {"id": "n", "nodeHostName": "n", "state": "RUNNING"}
            whole = {"totalResource": clean_line(self.free), "usedResource": clean_line({})}
            return {"nodes": {"node": [{**node, **whole}]}}
        here = {
            "partitionName": "",
            "used": clean_line(self.used),
            "pending": clean_line(self.waiting),
        }
        most = {"partitionName": "", "effectiveMaxResource": clean_line(MOST)}
        leaf = {
            "queueName": "a",
            "resources": {"resourceUsagesByPartition": [here]},
            "capacities": {"queueCapacitiesByPartition": [most]},
        }
        info = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": [leaf]}}
        return {"scheduler": {"schedulerInfo": info}}


MOST = {MEMORY: 8192, VCORES: 8, GPU: 2}
PLENTY = {MEMORY: 99_999, VCORES: 99, GPU: 9}


@pytest.mark.parametrize(
    ("waiting", "used", "free", "held"),
    [
        ({}, MOST, PLENTY, set()),
        ({MEMORY: 2048, VCORES: 1, GPU: 1}, {MEMORY: 6400}, PLENTY, {"a"}),
        ({MEMORY: 2048, VCORES: 1}, {MEMORY: 6400}, PLENTY, {"a"}),
        ({MEMORY: 256, VCORES: 2}, {VCORES: 7}, PLENTY, {"a"}),
        ({MEMORY: 1024, VCORES: 1}, {MEMORY: 6400}, PLENTY, set()),  # it has room
        ({MEMORY: 2048, VCORES: 1, GPU: 1}, {MEMORY: 6400, GPU: 2}, PLENTY, set()),
        ({MEMORY: 2048, GPU: 1}, {MEMORY: 6400}, {**PLENTY, GPU: 0}, set()),
        ({MEMORY: 400_000, VCORES: 99}, {MEMORY: 6400}, PLENTY, set()),  # they would not do
        ({MEMORY: 2048, VCORES: 1}, {}, {MEMORY: 1900, VCORES: 4}, {"a"}),  # the node is full
        ({MEMORY: 5000, VCORES: 1}, {}, {MEMORY: 1900, VCORES: 4}, set()),
    ],
)
def test_masters_end_where_that_helps(waiting, used, free, held):
    assert held_back(Manager(waiting, used, free), {"a": 1}) == held


def test_who_waits_has_time_to_come_into_the_place_of_a_master_that_has_ended(monkeypatch):
    looked, ended = [], []
    stop = threading.Event()

    def held(*_):
        looked.append("a")
        if len(looked) > 20:
            stop.set()
        return {"a"}

    class Kept:
        """A stand-in for the masters of a keeper: two are idle."""

        def idle_queues(self):
            return {"a": 2}

        def end_idlest(self, queue):
            ended.append(queue)
            return f"application {len(ended)}"

    class Finished:
        """A stand-in for a ResourceManager whose applications are over."""

        def application(self, _):
            return {"state": "FINISHED"}

    monkeypatch.setattr(masters, "held_back", held)
    monkeypatch.setattr(masters, "_YIELD_INTERVAL", 0.001)
    monkeypatch.setattr(masters, "_IS_TAKEN_WITHIN", float("inf"))
    masters.yield_capacity(Kept(), Finished(), stop)
    assert ended == ["a"]
    looked.clear()
    stop.clear()
    monkeypatch.setattr(masters, "_IS_TAKEN_WITHIN", 0.0)
    masters.yield_capacity(Kept(), Finished(), stop)
    assert len(ended) > 2  # who waits still is not where the first has been
