"""Jobs of several containers: what tasks are told comes by the master, whichever way logs come."""

from __future__ import annotations

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, JobState, Resources, Role

from tests.jobs import bundle_of, end_processes_of, until

CODE = """
import sys
from submarine_runtime import job
assert "ssl" in sys.modules  # it has asked its application's master
print(job.rank, "of", job.world_size)
"""


@pytest.mark.parametrize(
    ("logs", "mode"),
    [("nodes", "warm"), ("hdfs", "warm"), pytest.param("after", "cold", marks=pytest.mark.long)],
)
@pytest.mark.usefixtures("on_yarn")
def test_what_is_told_needs_neither_nodes_nor_hdfs(tmp_path, monkeypatch, logs, mode):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", logs)
    cluster = open_cluster("yarn")
    role = Role(count=2, resources=Resources(gpus=0, memory=256, vcores=1))
    spec = JobSpec(name="several", roles=(role,), notebook="several.ipynb", options={"mode": mode})
    job_id = cluster.submit(spec, bundle_of(CODE), workdir=tmp_path)
    until(lambda: cluster.status(job_id).state.final, 300)
    status = cluster.status(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    paths = JobPaths(home, job_id)
    for number in range(2):
        assert paths.task(f"worker-{number}").stdout.read_text() == f"{number} of 2\n"
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another
