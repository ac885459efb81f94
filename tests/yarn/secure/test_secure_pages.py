"""The pages of a secure cluster are https alone, by a CA of its own: for programs and jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from submarine_engine import Job
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.job import JobState

from tests.certificates import certificate
from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of

pytestmark = pytest.mark.long

READING = """
import os
import fsspec
from submarine_runtime import job

large = {large!r}
for step in job.steps(3, {{"seen": 0}}, every=0):
    if step == 2:
        break  # a loop that is over keeps nothing
with fsspec.open("hdfs:///user/{user}/pages/one", "w") as file:
    file.write("read by two ways")
with fsspec.open("webhdfs://{namenode}/user/{user}/pages/one") as file:
    seen = file.read().decode()
{{"seen": seen, "kept": job.latest_checkpoint() is not None, "large": len(large)}}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a home for jobs on the secure cluster."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    end_processes_of(home, patience=3)


def test_who_speaks_plain_http_is_told_nothing(on_secure_yarn):
    pages = [daemon.web for daemon in on_secure_yarn.cluster.daemons() if daemon.web]
    assert len(pages) == 4
    for page in pages:
        where = urlsplit(page)
        assert where.scheme == "https"
        with socket.create_connection((where.hostname, where.port), 60) as way:
            way.sendall(f"GET /jmx HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
            said = b""
            try:
                while piece := way.recv(1 << 16):
                    said += piece
            except ConnectionResetError:
                pass
        assert b"beans" not in said, page
        assert not said.startswith(b"HTTP/1.1 200"), page


def test_hadoops_own_programs_trust_the_pages(on_secure_yarn):
    program = on_secure_yarn.cluster.layout.bin / "hdfs"
    address = f"swebhdfs://{urlsplit(on_secure_yarn.namenode).netloc}/user"
    done = subprocess.run(
        [program, "dfs", "-ls", address], capture_output=True, text=True, timeout=240, check=False
    )
    assert "/user/alice" in done.stdout, done.stderr


def test_a_job_asks_hdfs_by_https_for_all_that_it_needs(on_secure_yarn, home, tmp_path):
    cluster = yarn_cluster(home)
    script = READING.format(
        large=os.urandom(400_000).hex(),  # comes by HDFS: no container's environment has room
        namenode=urlsplit(on_secure_yarn.namenode).netloc,
        user=load_hadoop().user,
    )
    job_id = cluster.submit(spec_of(gpus=0), bundle_of(script), workdir=tmp_path)
    seen = follow(cluster, job_id, patience=400)
    assert seen.status.state is JobState.SUCCEEDED, f"{seen.status.reason}\n{seen.out[-2000:]}"
    value = Job(cluster, job_id).results().value
    assert value == {"seen": "read by two ways", "kept": True, "large": 800_000}


@pytest.mark.usefixtures("on_secure_yarn")
def test_whom_the_cluster_s_ca_does_not_certify_is_told_before_there_is_a_job(
    home, tmp_path, monkeypatch
):
    monkeypatch.setenv("SUBMARINE_YARN_CA", str(certificate(tmp_path)))
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    command = [sys.executable, "-m", "submarine_engine.cli"]
    for words in (
        ["job", "run", str(script), "--cluster", "yarn"],
        ["doctor", "--cluster", "yarn"],
    ):
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode != 0
        said = " ".join((done.stdout + done.stderr).split())
        assert "its certificate does not hold here" in said
        assert "let yarn_ca name the file" in said
    assert not list(home.glob("jobs/*"))
