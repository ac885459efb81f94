"""A job's own code reads and writes HDFS where ``--input_path`` and ``--checkpoint_path`` say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn import application
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.job import JobState

from tests.jobs import bundle_of, follow, spec_of

SCRIPT = """
import os, fsspec
folder = os.environ["SUBMARINE_INPUT_PATH"]
with fsspec.open(folder + "/part 0?#") as file:
    data = file.read()
fs, path = fsspec.url_to_fs(os.environ["SUBMARINE_CHECKPOINT_PATH"])
fs.makedirs(path, exist_ok=True)
with fs.open(path + "/step-1", "wb") as file:
    file.write(data + b" trained")
print(sorted(fs.ls(path)))
"""


@pytest.fixture
def in_a_job(files, tmp_path):
    """Run code as it runs in a job: with the job's variables, and what is sent beside it."""
    for name, data in application._PLUGIN.items():
        file = tmp_path / "job" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(tmp_path / "job"),
                "http_proxy": "http://127.0.0.1:1",
                **files.container_environment(),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.sampled
@pytest.mark.parametrize("address", ["uri", "web_uri"])
def test_data_is_read_by_its_address(files, in_a_job, address):
    named = getattr(files, address)
    odd = "part 0?#" if address == "uri" else "part 0"  # fsspec's own reads no further
    files.put(b"data", f"{files.home}/data/{odd}")
    done = in_a_job(
        SCRIPT.replace("part 0?#", odd),
        SUBMARINE_INPUT_PATH=named(f"{files.home}/data"),
        SUBMARINE_CHECKPOINT_PATH=named(f"{files.home}/checkpoints/a"),
        no_proxy="127.0.0.1,localhost",
    )
    assert done.returncode == 0, done.stderr
    assert files.get(f"{files.home}/checkpoints/a/step-1") == b"data trained"


@pytest.mark.long
def test_pandas_reads_it_through_no_proxy(files, in_a_job):
    files.put(b"a,b\n1,2\n", f"{files.home}/table.csv")
    code = f"import pandas; print(pandas.read_csv('{files.uri(files.home)}/table.csv').b.sum())"
    done = in_a_job(code)
    assert done.stdout.strip() == "2", done.stderr


def test_another_cluster_is_not_taken_for_this_one(in_a_job):
    done = in_a_job("import fsspec; fsspec.open('hdfs://elsewhere:8020/x').open()")
    assert "hdfs://elsewhere:8020 is not this cluster's HDFS" in done.stderr


def test_a_job_on_yarn_reads_and_writes_hdfs(conf, tmp_path, shared_home):
    files = open_hdfs(conf)
    folder = f"{files.home}/{Path(tmp_path).name}"
    files.put(b"data", f"{folder}/part 0?#")
    cluster = open_cluster("yarn")
    spec = spec_of(input_path=files.uri(folder), checkpoint_path=files.uri(f"{folder}/model"))
    job = Job(cluster, cluster.submit(spec, bundle_of(SCRIPT), workdir=tmp_path))
    try:
        story = follow(cluster, job.id, patience=200)
        assert story.state is JobState.SUCCEEDED, story
        assert files.get(f"{folder}/model/step-1") == b"data trained"
        assert story.out.strip() == f"['{folder}/model/step-1']"
    finally:
        job.kill()
        files.remove(folder)
        files.close()
