"""Warm masters that nobody uses end as soon as another application waits for room to start."""

import json
from pathlib import Path

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.foreign import MEMORY, VCORES
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.master import FINAL
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

    masters = [run(0, "warm")]
    while not is_full():
        masters.append(run(len(masters), "warm"))
    assert len(set(masters)) == len(masters)
    run(0, "cold")
    states = [rm.application(one)["state"] for one in masters]
    assert "FINISHED" in states
    assert "RUNNING" in states  # it made as much room as was wanted
