"""Events of jobs on a real YARN cluster: at home while the job runs, whole at its end."""

from __future__ import annotations

import pytest
from submarine_engine.clusters.yarn import YarnCluster
from submarine_engine.history import JobPaths
from submarine_engine.tensorboard import boards, scalars, stop, wait, wanted
from submarine_engine.tensorboard.found import event_files

from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until
from tests.tensorboard.conftest import Reader

WRITES = """
import os, pathlib, time
from tensorboard.summary import Writer
there = pathlib.Path(os.environ["SUBMARINE_LOGDIR"])
writer = Writer(str(there / "train"))
(there / "train" / "note").symlink_to("/etc/hostname")
writer.add_scalar("loss", 1.0, 0)
writer.flush()
print("written", flush=True)
while not os.path.exists(FLAG):
    time.sleep(0.05)
for step in range(1, 1000):
    writer.add_scalar("loss", 1 / (step + 1), step)
writer.flush()
import submarine_runtime
os._exit(3) if HARD else writer.close()
"""


@pytest.fixture
def cluster(tmp_path, on_yarn):
    home = tmp_path / "home"
    yield YarnCluster(home)
    for board in boards(home):
        stop(home, board.id)
    end_processes_of(home, patience=40)


def submit(cluster, tmp_path, *, hard=False, **options):
    flag = tmp_path / "go"
    script = WRITES.replace("FLAG", repr(str(flag))).replace("HARD", str(hard))
    spec = spec_of(memory=512, name="digits", **options)
    return cluster.submit(spec, bundle_of(script), workdir=tmp_path), flag


@pytest.mark.parametrize("hard", [False, True])
def test_events_come_home_while_the_job_runs(cluster, tmp_path, hard):
    job_id, flag = submit(cluster, tmp_path, hard=hard)
    paths = JobPaths(cluster.home, job_id)
    assert until(lambda: scalars(paths), 120) == {"train/loss": [[0, 1.0]]}
    reader = Reader(wait(cluster.home, wanted(cluster.home, [job_id])))
    run = f"digits-{job_id[-5:]}/train"
    until(lambda: reader.scalars(run, "loss") == [[0, 1.0]])
    flag.touch()
    assert follow(cluster, job_id).state.value == ("failed" if hard else "succeeded")
    until(lambda: scalars(paths)["train/loss"][-1][0] == 999)
    logdir = paths.task("worker-0").logdir
    assert [path.parent.name for path in event_files(logdir)] == ["train"]
    assert not (logdir / "train" / "note").exists()  # links stay where they are
    until(lambda: reader.scalars(run, "loss")[-1][0] == 999)


def test_events_come_home_by_way_of_hdfs(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "hdfs")
    job_id, flag = submit(cluster, tmp_path)
    paths = JobPaths(cluster.home, job_id)
    assert until(lambda: scalars(paths), 120) == {"train/loss": [[0, 1.0]]}
    flag.touch()
    assert follow(cluster, job_id).state.value == "succeeded"
    until(lambda: scalars(paths)["train/loss"][-1][0] == 999)
