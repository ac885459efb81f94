"""Whole jobs on the way of logs that was chosen: what a user gets is the same on each."""

from __future__ import annotations

import os

import pytest
from submarine_engine import Job
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.config import load_config
from submarine_engine.errors import ConfigError
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, follow, spec_of, until

SCRIPT = """\
import sys
for number in range(2000):
    print(number, "…", "x" * 100)
print("an error", file=sys.stderr)
{"lines": number + 1}
"""


def test_a_job_whose_nodes_cannot_be_reached(on_yarn, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "hdfs")
    cluster = yarn_cluster()
    job_id = cluster.submit(spec_of(), bundle_of(SCRIPT), workdir=tmp_path)
    seen = follow(cluster, job_id, patience=200)
    assert seen.status.state is JobState.SUCCEEDED
    lines = "".join(f"{number} … {'x' * 100}\n" for number in range(2000))
    task = JobPaths(cluster.home, job_id).task("worker-0")
    assert task.stdout.read_text() == lines
    assert task.stderr.read_text() == "an error\n"
    assert (cluster.results(job_id) / "results" / "return.pkl").exists()
    hdfs = open_hdfs(load_hadoop())
    until(lambda: not hdfs.exists(f"{hdfs.home}/.submarine/logs/{job_id}"))
    hdfs.close()


@pytest.mark.long
def test_a_job_of_which_nothing_can_be_seen_before_its_end(on_yarn, tmp_path, monkeypatch):
    """It has no warm master, whose life would keep the log from coming."""
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "after")
    cluster = yarn_cluster()
    spec = spec_of(notebook="a.ipynb", mode="warm")
    job_id = cluster.submit(spec, bundle_of(SCRIPT), workdir=tmp_path)
    seen = follow(cluster, job_id, patience=200)
    assert seen.status.state is JobState.SUCCEEDED, seen.status.reason
    assert seen.out.count("\n") == 2000
    assert seen.logs["stderr"] == b"an error\n"
    results = Job(cluster, job_id).results()
    assert results.value == {"lines": 2000}
    assert results.warnings == [
        "the log and the result came after the end only: the setting `yarn_logs` says so"
    ]
    noted = read_json(JobPaths(cluster.home, job_id).root / "yarn.json")
    assert noted["mode"] == "cold"


def test_a_way_that_there_is_not_is_refused(monkeypatch):
    monkeypatch.setitem(os.environ, "SUBMARINE_YARN_LOGS", "pigeon")
    with pytest.raises(ConfigError, match="auto, nodes, hdfs or after"):
        load_config()
