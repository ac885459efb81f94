"""Events of jobs on a real YARN cluster: at home while the job runs, whole at its end."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
import requests
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.errors import UnsupportedError
from submarine_engine.history import JobPaths
from submarine_engine.tensorboard import list_boards, scalars, select, stop_board, wait_for_board
from submarine_engine.tensorboard.event_dirs import event_files
from tensorboard.summary import Writer

from tests.hadoop import yarn_cluster
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
def cluster(shared_home):
    yield yarn_cluster(shared_home)
    for board in list_boards(shared_home):
        stop_board(shared_home, board.id)


@pytest.fixture
def by_hdfs(on_yarn, tmp_path, monkeypatch):
    """Give a cluster whose nodes cannot be reached."""
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "hdfs")
    yield yarn_cluster(tmp_path / "home")
    end_processes_of(tmp_path / "home", patience=3)  # the keeper, which idles on


def submit(cluster, tmp_path, *, hard=False, **options):
    flag = tmp_path / "go"
    script = WRITES.replace("FLAG", repr(str(flag))).replace("HARD", str(hard))
    spec = spec_of(memory=512, name="digits", **options)
    return cluster.submit(spec, bundle_of(script), workdir=tmp_path), flag


@pytest.mark.long
@pytest.mark.parametrize("hard", [False, True])
def test_events_come_home_while_the_job_runs(cluster, tmp_path, hard):
    job_id, flag = submit(cluster, tmp_path, hard=hard, notebook="a.ipynb")
    paths = JobPaths(cluster.home, job_id)
    assert until(lambda: scalars(paths), 180) == {"train/loss": [[0, 1.0]]}
    reader = Reader(wait_for_board(cluster.home, select(cluster.home, [job_id])))
    run = f"digits-{job_id[-5:]}/train"
    until(lambda: reader.scalars(run, "loss") == [[0, 1.0]])
    flag.touch()
    assert follow(cluster, job_id).state.value == ("failed" if hard else "succeeded")
    until(lambda: scalars(paths)["train/loss"][-1][0] == 999)
    logdir = paths.task("worker-0").logdir
    assert [path.parent.name for path in event_files(logdir)] == ["train"]
    assert not (logdir / "train" / "note").exists()  # links stay where they are
    until(lambda: reader.scalars(run, "loss")[-1][0] == 999)


@pytest.mark.long
def test_events_come_home_by_way_of_hdfs(by_hdfs, tmp_path):
    cluster = by_hdfs
    job_id, flag = submit(cluster, tmp_path)
    paths = JobPaths(cluster.home, job_id)
    assert until(lambda: scalars(paths), 180) == {"train/loss": [[0, 1.0]]}
    flag.touch()
    assert follow(cluster, job_id).state.value == "succeeded"
    until(lambda: scalars(paths)["train/loss"][-1][0] == 999)


def test_events_in_hdfs_are_read_where_they_are(cluster, tmp_path):
    writer = Writer(str(tmp_path / "events"))
    writer.add_scalar("loss", 0.5, 7)
    writer.close()
    [events] = (tmp_path / "events").iterdir()
    with closing(open_hdfs(load_hadoop())) as files:
        folder = f"{files.home}/{tmp_path.name}"
        try:
            files.put(events, f"{folder}/digits/{events.name}")
            shown = select(cluster.home, folders=[files.uri(folder)])
            reader = Reader(wait_for_board(cluster.home, shown))
            [run] = until(reader.runs)
            assert run.endswith("digits")
            assert until(lambda: reader.scalars(run, "loss")) == [[7, 0.5]]
        finally:
            files.remove(folder)


@pytest.mark.long
def test_tensorboard_beside_a_job_is_on_the_application_s_pages(cluster, tmp_path, on_yarn):
    job_id, flag = submit(cluster, tmp_path, tensorboard=True)
    page = until(lambda: cluster.links(job_id).get("TensorBoard"), 180)
    app_id = json.loads((JobPaths(cluster.home, job_id).root / "yarn.json").read_text())["app_id"]
    assert page.endswith(f"/proxy/{app_id}/pages/tensorboard/")  # below the tracking URL
    session = requests.Session()
    session.trust_env = False

    def shown(path, **asked):
        answer = session.get(f"{page}{path}", params=asked, timeout=180)
        kind = answer.headers["Content-Type"]  # the proxy's own page where all are busy
        return answer.json() if answer.ok and kind.startswith("application/json") else None

    until(lambda: shown("data/runs") == ["worker-0/train"], 180)
    scalars_of = {"run": "worker-0/train", "tag": "loss"}
    points = until(lambda: shown("data/plugin/scalars/scalars", **scalars_of), 180)
    assert [step for _, step, _ in points] == [0]
    until(lambda: "<title>TensorBoard" in session.get(page, timeout=180).text, 180)

    def application():
        found = session.get(f"{on_yarn.rm}/ws/v1/cluster/apps/{app_id}", timeout=180)
        return found.json()["app"]

    # master, worker, TensorBoard; what was given beyond that is given back
    until(lambda: application()["runningContainers"] == 3)
    assert cluster.status(job_id).tasks[0].task == "worker-0"
    assert len(cluster.status(job_id).tasks) == 1
    [beside] = until(lambda: list_boards(cluster.home))
    assert beside.wanted.jobs == (job_id,)
    flag.touch()
    assert follow(cluster, job_id).state.value == "succeeded"
    until(lambda: application()["state"] == "FINISHED")
    assert application()["finalStatus"] == "SUCCEEDED"
    assert "TensorBoard" not in cluster.links(job_id)
    assert scalars(JobPaths(cluster.home, job_id))["train/loss"][-1][0] == 999


@pytest.mark.long
def test_a_job_that_fails_or_is_cancelled_takes_its_tensorboard_along(cluster, tmp_path, on_yarn):
    job_id, _ = submit(cluster, tmp_path, tensorboard=True)
    until(lambda: cluster.links(job_id).get("TensorBoard"), 180)
    cluster.cancel(job_id, "enough")
    assert follow(cluster, job_id).state.value == "cancelled"
    app_id = json.loads((JobPaths(cluster.home, job_id).root / "yarn.json").read_text())["app_id"]
    session = requests.Session()
    session.trust_env = False
    report = f"{on_yarn.rm}/ws/v1/cluster/apps/{app_id}"
    final = ("FINISHED", "FAILED", "KILLED")
    until(lambda: session.get(report, timeout=180).json()["app"]["state"] in final)


def test_warm_and_tensorboard_exclude_each_other(cluster):
    with pytest.raises(UnsupportedError, match="the job's own application"):
        cluster.check(spec_of(tensorboard=True, mode="warm"))
