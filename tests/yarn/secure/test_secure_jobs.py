"""Jobs of a user whom the containers do not run as: each ends as it ended, its log comes home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

from .users import be

pytestmark = pytest.mark.long


@pytest.fixture
def alice(on_secure_yarn, tmp_path, monkeypatch):
    """Give the cluster as alice has it."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    be("alice", on_secure_yarn, tmp_path, monkeypatch)
    yield yarn_cluster()
    end_processes_of(home, patience=3)


ENDS = {
    "returns": ("print('trained')\n{'loss': 0.5}", JobState.SUCCEEDED, "", {"loss": 0.5}),
    "writes much": (
        "for n in range(200_000): print('line', n)\nbytes(20_000_000)",
        JobState.SUCCEEDED,
        "",
        bytes(20_000_000),
    ),
    "raises": ("raise ValueError('no good')", JobState.FAILED, "ValueError: no good", None),
    "exits": ("import os; os._exit(3)", JobState.FAILED, "exited with code 3", None),
}


@pytest.mark.parametrize("mode", ["cold", "warm"])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_of_another_user_ends_as_it_ended(alice, tmp_path, end, mode):
    script, state, reason, value = ENDS[end]
    spec = spec_of(notebook="a.ipynb", mode=mode)
    job_id = alice.submit(spec, bundle_of(script), workdir=tmp_path)
    seen = follow(alice, job_id, patience=400)
    assert seen.status.state is state, seen.status.reason
    assert seen.status.reason.startswith(reason)
    assert "SIGKILL" not in seen.status.reason
    if state is JobState.SUCCEEDED:
        assert Job(alice, job_id).results().value == value
        lines = 200_000 if end == "writes much" else 1
        assert seen.out.count("\n") == lines
    hdfs = open_hdfs(load_hadoop())
    until(lambda: not hdfs.exists(f"{hdfs.home}/.submarine/logs/{job_id}"))
    hdfs.close()


def test_the_log_of_a_running_job_comes_while_it_runs(alice, tmp_path):
    gate = tmp_path / "gate"
    script = (
        "import os, time\nprint('epoch 1')\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint('epoch 2')"
    )
    job_id = alice.submit(spec_of(), bundle_of(script), workdir=tmp_path)
    log = JobPaths(alice.home, job_id).task("worker-0").stdout
    until(lambda: log.exists() and log.read_text() == "epoch 1\n")
    until(lambda: alice.status(job_id).state is JobState.RUNNING)  # noted after its first line
    gate.touch()
    assert follow(alice, job_id, patience=400).out == "epoch 1\nepoch 2\n"


def test_jobs_of_a_secure_node_have_gpus_of_their_own(alice, tmp_path):
    gate = tmp_path / "gate"
    script = (
        "import os, time\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    )
    jobs = [alice.submit(spec_of(gpus=2), bundle_of(script), workdir=tmp_path) for _ in range(2)]
    logs = [JobPaths(alice.home, job).task("worker-0").stdout for job in jobs]
    until(lambda: all(log.exists() and log.read_text() for log in logs))
    seen = [gpu for log in logs for gpu in log.read_text().strip().split(",")]
    gate.touch()
    assert len(seen) == len(set(seen)) == 4
    assert all(gpu.startswith("GPU-") for gpu in seen)
    for job in jobs:
        assert follow(alice, job, patience=400).status.state is JobState.SUCCEEDED


READS = """
import os, time
print("epoch 1")
n = 1
while not os.path.exists({gate!r}):
    if os.path.exists(f"{gate}-{{n}}"):
        n += 1
        print("epoch", n)
    time.sleep(0.02)
"""


def test_however_often_a_log_is_read_hdfs_makes_no_token_more(alice, on_secure_yarn, tmp_path):
    gate = tmp_path / "gate"
    job_id = alice.submit(
        spec_of(gpus=0), bundle_of(READS.format(gate=str(gate))), workdir=tmp_path
    )
    log = JobPaths(alice.home, job_id).task("worker-0").stdout
    made = []
    for epoch in range(1, 9):
        until(lambda epoch=epoch: log.exists() and f"epoch {epoch}\n" in log.read_text())
        made.append(tokens_made(on_secure_yarn))
        Path(f"{gate}-{epoch}").touch()
    gate.touch()
    assert follow(alice, job_id, patience=400).status.state is JobState.SUCCEEDED
    assert made == [made[0]] * 8
    # The keeper's, which its containers have, too, and two of skein's: of its driver, and of YARN.
    assert tokens_made(on_secure_yarn) - made[0] == 0


def tokens_made(yarn):
    """Return how many tokens the NameNode has made so far for alice."""
    log = yarn.cluster.layout.log("namenode").read_text()
    return len(re.findall(r"Creating password for identifier: .*owner=alice\b", log))
