"""Into a job that runs in a container: a page of its own in a browser, and what its tasks use."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.future import Job
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState
from submarine_engine.metrics import read_used
from submarine_runtime.metrics import FILE

from tests.hadoop import yarn_cluster
from tests.jobs import LIMIT, bundle_of, spec_of, until
from tests.server.conftest import Server

MUCH = 5 << 20
SERVES = """
import http.server
from submarine_runtime import report

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer(f"{self.path} of {self.headers['Host']}".encode())
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"]))[::-1])
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
report(0, port=server.server_port)
server.serve_forever()
"""


@pytest.fixture
def serves(shared_home, tmp_path):
    """Give a job in a container that listens on its node's loopback, and the port."""
    cluster = yarn_cluster(shared_home)
    spec = spec_of(name="serves", notebook="inside.ipynb", memory=256, mode="warm")
    job = Job(cluster, cluster.submit(spec, bundle_of(SERVES), workdir=tmp_path))
    until(lambda: cluster.metrics(job.id).reported or job.done(), 300)
    yield job, int(cluster.metrics(job.id).reported["worker-0"][0].numbers["port"][1])
    job.kill()
    job.wait(LIMIT)


def samples_of(job: Job) -> Path:
    """Return the file in the container's own folder that its samples are written to."""
    told = job.exec(["sh", "-c", 'echo "$SUBMARINE_TASK_DIR"'])
    return Path(told.stdout.decode().strip()) / FILE


@pytest.mark.long
def test_a_port_of_a_container_is_a_page_and_its_samples_come_home_when_it_is_killed(
    serves, shared_home, tmp_path, capsys
):
    job, port = serves
    server = Server(tmp_path, shared_home)
    try:
        answer = server.get(f"/proxy/{job.id}/{port}/told?a=1")
        assert (answer.status_code, answer.text) == (200, f"/told?a=1 of localhost:{port}")
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        much = os.urandom(MUCH)
        assert server.post(f"/proxy/{job.id}/{port}/", data=much).content == much[::-1]
        answer = server.get(f"/proxy/{job.id}/1/")
        assert (answer.status_code, "nobody listens" in answer.json()["what"]) == (502, True)
        until(lambda: len(job.metrics()) > 1)
        assert main(["job", "top", job.id, "--json"]) == 0
        (told,) = json.loads(capsys.readouterr().out)["tasks"]
        assert told["memory"] > 1 << 20
        there = samples_of(job).read_bytes()
        job.kill()
        assert job.wait(300).state is JobState.CANCELLED
        answer = server.get(f"/proxy/{job.id}/{port}/told")
        assert (answer.status_code, "is over (cancelled)" in answer.json()["what"]) == (410, True)
    finally:
        server.stop()
    files = JobPaths(shared_home, job.id).task("worker-0")
    assert files.metrics.read_bytes().startswith(there)
    home = [row.at for row in read_used(files)]
    assert [at.timestamp() for at in job.metrics()["at"]] == pytest.approx(home)
    assert len(home) >= there.count(b"\n") > 1
