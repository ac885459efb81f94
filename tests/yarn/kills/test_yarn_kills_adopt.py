"""The keeper killed with -9 between asking YARN for something and noting what it got."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import request
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.clusters.walking import LOG, submit
from tests.jobs import end_processes_of, follow, until

PATIENCE = 200.0
FINAL = {"FINISHED", "FAILED", "KILLED"}

REFUSE = """
import sys
def hear(event, arguments):
    if event == "http.client.send" and b"/priority" in bytes(arguments[1])[:300]:
        raise ConnectionResetError("the manager is gone for a moment")
if "submarine_engine.clusters.keeper" in getattr(sys, "orig_argv", ()):
    sys.addaudithook(hear)
"""

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("on_yarn")]


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    yield home
    end_processes_of(home, 60)


def applications(job_id):
    """Return the applications that carry the job's id."""
    return ResourceManager(load_hadoop()).applications(applicationTags=f"submarine-job:{job_id}")


@pytest.mark.parametrize("mode", ["cold", "warm"])
@pytest.mark.parametrize("note", [1, 2, 3])
def test_it_is_asked_for_once(tmp_path, home, mode, note):
    """The first note says that it is being asked for, the next what came of that."""
    options = {"mode": mode, "gpus": 1, "memory": 256}
    where, cluster = r"open \.yarn\.json", open_cluster("yarn")
    job_id = submit(tmp_path, "yarn", "keeper", note, where=where, hold=True, **options)
    until(lambda: cluster.status(job_id).state is JobState.RUNNING, PATIENCE)
    (tmp_path / "gate").touch()
    story = follow(cluster, job_id, patience=PATIENCE)
    assert (tmp_path / "killed").exists()
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert ((tmp_path / "side").read_text(), story.out) == ("ran\n", LOG)
    assert len(applications(job_id)) == (mode == "cold")
    noted = read_json(JobPaths(home, job_id).root / "yarn.json")
    assert (noted["asking"], list(noted["containers"])) == ({}, ["worker-0"])


def test_what_an_application_left_that_was_over_before_the_next_keeper_came(tmp_path, home):
    where, cluster = r"open \.yarn\.json", open_cluster("yarn")
    options = {"mode": "cold", "gpus": 1, "memory": 256}
    job_id = submit(tmp_path, "yarn", "keeper", 2, where=where, **options)
    manager = ResourceManager(load_hadoop())
    until(lambda: [a for a in applications(job_id) if a["state"] in FINAL], PATIENCE)
    story = follow(cluster, job_id, patience=PATIENCE)
    assert manager.applications(applicationTags=f"submarine-job:{job_id}")[1:] == []
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert ((tmp_path / "side").read_text(), story.out) == ("ran\n", LOG)
    assert home.exists()


def test_the_end_of_a_container_that_could_not_begin_is_known_soon(tmp_path, home, monkeypatch):
    """Its warm application lives on: nobody would ever gather the logs that it never had."""
    monkeypatch.setenv("WALK_VICTIM", "keeper")
    options = {"mode": "warm", "gpus": 1, "memory": 256, "where": "skein.ask addContainer"}
    job_id = submit(tmp_path, "yarn", "keeper", 1, walk="tests.yarn.kills.walked", **options)
    until((tmp_path / "killed").exists, PATIENCE)
    app_id = read_json(JobPaths(home, job_id).root / "yarn.json")["app_id"]
    conf = load_hadoop()
    with closing(open_hdfs(conf)) as hdfs:  # what the node is to bring the container
        hdfs.remove(f"/user/{conf.user}/.skein/{app_id}")
    began = time.monotonic()
    story = follow(open_cluster("yarn"), job_id, patience=PATIENCE)
    assert story.state is JobState.FAILED
    assert "YARN says" in story.status.reason
    assert not (tmp_path / "side").exists()
    assert time.monotonic() - began < request._PATIENCE
    cluster = open_cluster("yarn")
    # The node gets its GPU back a moment after its container is gone.
    until(lambda: {share.free - share.total for share in cluster.gpu_shares()} == {0})


def test_an_error_after_the_submit_leaves_nothing_running(tmp_path, monkeypatch, home):
    site = tmp_path / "refusing"
    site.mkdir()
    (site / "sitecustomize.py").write_text(REFUSE)
    monkeypatch.setenv("PYTHONPATH", str(site))
    cluster = open_cluster("yarn")
    from tests.jobs import bundle_of, spec_of

    spec = spec_of(mode="cold", gpus=1, memory=256, priority=1)
    job_id = cluster.submit(spec, bundle_of("import time\ntime.sleep(60)"), workdir=tmp_path)
    story = follow(cluster, job_id, patience=PATIENCE)
    assert story.state is JobState.FAILED
    assert "does not answer" in story.status.reason
    (found,) = applications(job_id)
    until(lambda: ResourceManager(load_hadoop()).application(found["id"])["state"] in FINAL)
    assert applications(job_id)[0]["state"] == "KILLED"
    assert home.exists()
