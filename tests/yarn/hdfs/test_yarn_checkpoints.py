"""Checkpoints in a real HDFS: written as tasks write them, gone on from, damaged, refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import submarine_runtime
from submarine_engine import Job
from submarine_engine.bundle.model import Bundle
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import cluster as yarn_cluster
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.errors import SubmissionError
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, JobState
from submarine_runtime import checkpoints
from submarine_runtime.checkpoint_hdfs import VARIABLE, HdfsFolder

from tests.jobs import bundle_of, follow, spec_of
from tests.yarn.hdfs.conftest import new_user

ENGINE = Path(submarine_runtime.__file__).parent.parent
STEPS = """
import os, random, signal
from submarine_runtime import job
random.seed(int(os.environ.get("RANK", "0")))
state, mine = {"seen": []}, []
for step in job.steps(6, state, own=mine, every=0):
    state["seen"].append(step)
    mine.append(random.random())
    if step == int(os.environ.get("DIE_AT", "-1")):
        while job.latest_checkpoint() is None or step > int(job.latest_checkpoint()[-2:]): pass
        os.kill(os.getpid(), signal.SIGKILL)
print(state["seen"], mine)
"""


@pytest.fixture
def start(files, tmp_path):
    """Start code with the variables that a container has."""
    (tmp_path / "tmp").mkdir()

    def begin(code=STEPS, *, path="run", **environment):
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ENGINE),
                "http_proxy": "http://127.0.0.1:1",
                "TMPDIR": str(tmp_path / "tmp"),
                "SUBMARINE_JOB_ID": "the-job",
                "SUBMARINE_CHECKPOINT_PATH": path,
                **files.runtime_environment(),
                **environment,
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    begun = []

    def tracked(*code, **more):
        begun.append(begin(*code, **more))
        return begun[-1]

    yield tracked
    for process in begun:
        process.kill()
        process.communicate()
    assert list((tmp_path / "tmp").iterdir()) == []


def ran(process):
    out, err = process.communicate()
    return process.returncode, out, err


def kept(files, path="run"):
    folder = f"{files.home}/{path}"
    return [entry.path.removeprefix(f"{folder}/") for entry in files.list(folder)]


@pytest.fixture
def here(files, monkeypatch):
    """Let this process read HDFS as a task does."""
    monkeypatch.setenv(VARIABLE, files.runtime_environment()[VARIABLE])
    return files


def test_a_killed_training_goes_on_from_hdfs(here, start):
    whole = ran(start(path="elsewhere"))
    assert whole[0] == 0, whole[2]
    first = ran(start(DIE_AT="3"))
    assert first[0] == -9, first[2]
    assert kept(here) == ["step-000000000002", "step-000000000003"]
    assert ran(start()) == whole
    newest = checkpoints.latest("run")
    assert newest == f"{here.uri(here.home)}/run/step-000000000006"
    for address in (newest.rpartition("/")[0], f"hdfs://{here.home}/run"):
        assert checkpoints.latest(address) == newest


@pytest.mark.long
def test_a_damaged_one_is_passed_over(here, start):
    whole = ran(start())
    newest = f"{here.home}/run/step-000000000006/state.pickle"
    content = bytearray(here.get(newest))
    content[len(content) // 2] ^= 1
    here.put(bytes(content), newest)
    code, out, err = ran(start())
    assert (code, out) == whole[:2]
    assert "step-000000000006 is damaged; taking the one before it" in err
    here.put(b"", newest)
    assert checkpoints.latest("run").endswith("step-000000000005")


@pytest.mark.long
def test_ranks_in_hdfs(here, start):
    def gang(path, **env):
        ranks = [
            start(path=path, RANK=str(rank), WORLD_SIZE="2", SUBMARINE_TASK=f"worker-{rank}", **env)
            for rank in range(2)
        ]
        return [ran(one)[:2] for one in ranks]

    whole = gang("whole")
    assert [code for code, _ in whole] == [0, 0]
    assert whole[0][1] != whole[1][1]
    assert [code for code, _ in gang("run", DIE_AT="2")] == [-9, -9]
    # Of the same attempt, as nothing here says otherwise: what was agreed on is that one's.
    [agreed] = [name for name in kept(here) if name.startswith(".ranks-")]
    here.remove(f"{here.home}/run/{agreed}")
    assert gang("run") == whole
    assert "rank-1.pickle" in kept(here, "run/step-000000000006")


def test_what_a_former_attempt_was_cut_at_goes(here, start):
    folder = f"{here.home}/run"
    for name in (".step-000000000001.the-job.abc.part", ".step-000000000001.other.abc.part"):
        here.put(b"cut", f"{folder}/{name}/state.pickle")
    assert ran(start())[0] == 0
    assert kept(here)[0] == ".step-000000000001.other.abc.part"
    assert len(kept(here)) == 3
    then = int((time.time() - 2 * 24 * 3600) * 1000)
    here._web.change(
        "SETTIMES", f"{folder}/.step-000000000001.other.abc.part", modificationtime=then
    )
    assert ran(start())[0] == 0
    assert kept(here) == ["step-000000000005", "step-000000000006"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("hdfs://elsewhere:8020/run", "; this job reaches hdfs://"),
        (
            "s3://bucket/run",
            "no checkpoints can be kept in s3://bucket/run: give --checkpoint_path",
        ),
        ("file", "is no folder: give --checkpoint_path a folder that this job may write"),
        ("file/below", "is no folder: give --checkpoint_path a folder that this job may write"),
        ("hdfs:///user", "no checkpoints can be written to hdfs://"),
    ],
)
def test_bad_places_are_refused_before_the_first_step(here, start, path, words):
    here.put(b"", f"{here.home}/file")
    code, out, err = ran(start(path=path))
    assert (code, out) == (1, "")
    assert words in err


@pytest.mark.long
def test_another_users_checkpoints_are_refused(here, start, conf):
    assert ran(start())[0] == 0
    stranger = new_user(conf)
    administrator = open_hdfs(conf)
    administrator._web.chown(f"{here.home}/run/step-000000000006", owner=stranger, group=stranger)
    administrator.close()
    code, out, err = ran(start())
    assert (code, out) == (1, "")
    assert f"step-000000000006 belongs to {stranger}, and to load" in err


def test_hdfs_that_does_not_take_it_ends_no_training(here, start, conf):
    here.make_folder(f"{here.home}/run")
    administrator = open_hdfs(conf)
    administrator._web.change(
        "SETQUOTA", f"{here.home}/run", namespacequota=9, storagespacequota=-1
    )
    administrator.close()
    code, out, err = ran(start())
    assert code == 0, err
    assert out.startswith("[0, 1, 2, 3, 4, 5]")
    assert "the training goes on, and the last checkpoint stays as it is" in err


@pytest.mark.long
def test_a_job_on_yarn_has_a_folder_of_its_own_for_all_attempts(
    conf, tmp_path, shared_home, monkeypatch
):
    files = open_hdfs(conf)
    cluster = open_cluster("yarn")
    dying = STEPS.replace('int(os.environ.get("DIE_AT", "-1"))', "3 and job.attempt == 1")
    spec = spec_of(retries=1)
    job = Job(cluster, cluster.submit(spec, bundle_of(dying), workdir=tmp_path))
    folder = uploads.checkpoint_folder(files, job.id)
    try:
        story = follow(cluster, job.id, patience=200)
        assert story.state is JobState.SUCCEEDED, story
        assert story.status.attempt == 2
        assert "[0, 1, 2, 3, 4, 5]" in story.out
        assert len(files.list(folder)) == 2
        every = files.list

        def own(place):
            """Leave out what is of other tests' jobs: they need it."""
            return [entry for entry in every(place) if entry.path == folder]

        monkeypatch.setattr(files, "list", own)
        assert uploads.clean(files, 3600.0) == 0
        assert files.exists(folder)
        assert uploads.clean(files, -60.0, [job.id]) == 0
        assert files.exists(folder)
        assert uploads.clean(files, -60.0) == 1
    finally:
        job.kill()
        files.remove(folder)
        files.close()


def test_job_retry_finds_the_folder_of_the_job(conf, tmp_path, monkeypatch):
    backend = yarn_cluster.YarnBackend(tmp_path, conf)
    paths = JobPaths(tmp_path, "20250101-000000-abcde")
    files = open_hdfs(conf)
    assert backend.own_checkpoints(paths) == files.uri(
        uploads.checkpoint_folder(files, paths.job_id)
    )
    files.close()
    monkeypatch.setattr(yarn_cluster, "open_hdfs", lambda _: None)
    assert backend.own_checkpoints(paths) is None


def test_without_hdfs_a_folder_is_asked_for_before_anything_else(conf, monkeypatch):
    monkeypatch.setattr(yarn_cluster, "open_hdfs", lambda _: None)
    bundle: Bundle = bundle_of(STEPS)
    with pytest.raises(SubmissionError, match="this cluster has no HDFS that answers") as caught:
        yarn_cluster.make_launch(conf, JobSpec(), bundle, print)
    assert "--checkpoint_path file:///shared/run" in caught.value.fix
    named = JobSpec(checkpoint_path="file:///shared/run")
    assert yarn_cluster._expect_place_for_checkpoints(conf, named, bundle) is None
    other = bundle_of("from submarine_runtime import job\nmodel.restore()")
    assert yarn_cluster._expect_place_for_checkpoints(conf, JobSpec(), other) is None


def test_the_runtime_is_told_of_all_name_nodes(files, monkeypatch):
    told = json.loads(files.runtime_environment()[VARIABLE])
    closed = told["urls"].replace(told["urls"].split("/")[2], "127.0.0.1:1")
    monkeypatch.setenv(VARIABLE, json.dumps({**told, "urls": f"{closed} {told['urls']}"}))
    folder = HdfsFolder("run")
    folder.make("")
    folder.tell("line", "one")
    folder.tell("line", "two")
    assert folder.hear("line", 4) == "two\n"
    assert folder.hear("line", 8) == ""
    with folder.new("big") as file:
        file.write(b"content")
    with folder.opened("big") as content:
        assert content.read() == b"content"
    folder.tidy()
