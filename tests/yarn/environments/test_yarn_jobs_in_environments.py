"""Jobs on a real cluster in environments that were sent there."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import environments
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.errors import SubmissionError
from submarine_engine.job import JobState

from tests.jobs import bundle_of, follow, spec_of
from tests.yarn.environments.conftest import install

PATIENCE = 280.0


@pytest.fixture
def cluster(shared_home):
    return open_cluster("yarn")


@pytest.fixture
def hdfs(on_yarn):
    files = open_hdfs(load_hadoop())
    yield files
    files.close()


def run(cluster, script, folder, **options):
    job = Job(cluster, cluster.submit(spec_of(**options), bundle_of(script), workdir=folder))
    try:
        return follow(cluster, job.id, patience=PATIENCE)
    finally:
        job.kill()


@pytest.mark.long
def test_a_job_runs_in_a_packed_copy_of_this_environment(cluster, hdfs, site, tmp_path):
    project = tmp_path / "project"
    (project / "mine").mkdir(parents=True)
    (project / "mine" / "__init__.py").write_text("value = 'edited'")
    (site / "mine.pth").write_text(f"{project}\n")
    install(site, "packed", files={"packed.py": f"value = {secrets.token_hex(4)!r}"})
    cluster.tell = (said := []).append
    script = "import sys, packed, mine\nprint(packed.value, mine.value, sys.prefix)"
    with pytest.warns(UserWarning, match="mine goes along as it is now"):
        story = run(cluster, script, tmp_path, environment="pack")
    assert story.state is JobState.SUCCEEDED, story
    value, edited, prefix = story.out.split()
    assert value == (site / "packed.py").read_text().split("'")[1]
    assert edited == "edited"
    assert prefix != sys.base_prefix
    assert any(re.fullmatch(r"packing packed \([\d.]+ MB\), once", one) for one in said)
    assert any(re.fullmatch(r"uploading packed \([\d.]+ MB\)", one) for one in said)
    assert re.match(r"the environment is in HDFS: [\d.]+ MB sent", said[-1])
    again = environments.prepare_environment("pack", load_hadoop(), hdfs, tell=said.append)
    assert again.sent == 0
    assert said[-1] == "the environment is in HDFS already, as it was sent before"
    install(site, "packed", "2", files={"packed.py": "value = 'newer'"})
    newer = environments.prepare_environment("pack", load_hadoop(), hdfs)
    assert 0 < newer.sent < 100_000
    assert newer.archives["base"] == again.archives["base"]
    assert newer.key != again.key


@pytest.mark.long
def test_a_job_runs_in_an_archive_of_the_users(cluster, hdfs, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "theirs.py").write_text("value = 'theirs'")
    archive = tmp_path / "theirs.tar.gz"
    command = [sys.executable, "-m", "venv_pack", "--prefix", venv, "--output", archive]
    subprocess.run(command, check=True, capture_output=True)
    script = "import json, sys, theirs\nprint(json.dumps([theirs.value, sys.executable]))"
    story = run(cluster, script, tmp_path, environment=str(archive))
    assert story.state is JobState.SUCCEEDED, story
    value, executable = json.loads(story.out)
    assert value == "theirs"
    assert executable.endswith("/environment/bin/python")
    (tmp_path / "train.py").write_text("1")
    words = ["--cluster", "yarn", "--gpus", "0", "--detach", "--environment", archive]
    submarine = [sys.executable, "-m", "submarine_engine.cli", "job"]
    run_it = [*submarine, "run", tmp_path / "train.py", *words]
    done = subprocess.run(run_it, check=True, capture_output=True, text=True)
    assert "the environment is in HDFS already" in done.stderr
    subprocess.run([*submarine, "kill", done.stdout.strip()], check=True, capture_output=True)
    again = environments.prepare_environment(str(archive), load_hadoop(), hdfs)
    assert again.sent == 0
    named = environments.prepare_environment(again.archives["environment"], load_hadoop(), hdfs)
    assert named.key == again.key


def test_archives_that_are_not_there_are_refused(hdfs, tmp_path):
    for wanted in (str(tmp_path / "x.zip"), hdfs.uri(f"{hdfs.home}/x.tar.gz")):
        with pytest.raises(SubmissionError, match="no such archive"):
            environments.prepare_environment(wanted, load_hadoop(), hdfs)


@pytest.mark.long
def test_an_environment_of_another_python_is_refused(cluster, tmp_path):
    """Before a GPU is asked for, by what the interpreter on the nodes says of itself."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\necho \'SUBMARINE-PROBE {"python": "3.8.1", "executable": "x"}\'\n')
    other.chmod(0o755)
    # A warm master asks it: by itself the job would have none where the queue has no room for one.
    options = {"environment": str(other), "notebook": str(tmp_path / "n.ipynb"), "mode": "warm"}
    story = run(cluster, "1", tmp_path, gpus=1, **options)
    assert story.state is JobState.FAILED
    assert "3.8.1" in story.status.reason
    assert "Granted" not in story.kinds
