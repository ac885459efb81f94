"""Notebook servers and kernels as jobs on a real YARN cluster."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest
import requests
from jupyter_client.manager import KernelManager
from submarine_engine import JobState, list_jobs, open_job
from submarine_engine.cli import main
from submarine_engine.history import JobPaths, default_home
from submarine_engine.inside import Forward
from submarine_engine.kernels import _serve
from submarine_engine.notebooks import open_notebook, server_of

from tests.jobs import LIMIT


@pytest.fixture(autouse=True)
def ended(on_yarn, monkeypatch, tmp_path):
    """End the jobs of the test; Jupyter's files are its own."""
    for kind in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{kind}_DIR", str(tmp_path / kind.lower()))
    yield
    for summary in list_jobs():
        job = open_job(summary.id)
        job.kill()
        job.wait(LIMIT)


@pytest.mark.long  # what it shows of a job elsewhere, the kernel below does in half the time
def test_a_notebook_on_yarn_is_reached_through_its_job_and_its_files_come_home(capsys):
    words = ("notebook", "start", "--cluster", "yarn", "--gpus", "1", "--name", "far", "--json")
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    job = open_notebook("far")
    server = server_of(job)
    assert server.port == told["port"]
    with closing(Forward(job.cluster, job.id, server.port, 0)) as forward:
        threading.Thread(target=_serve, args=(forward,), daemon=True).start()
        url = f"http://127.0.0.1:{forward.port}/api/contents/made.txt"
        headers = {"Authorization": f"token {server.token}"}
        with requests.Session() as session:
            session.trust_env = False
            assert session.get(url, timeout=LIMIT).status_code == 403
            made = {"type": "file", "format": "text", "content": "kept"}
            done = session.put(url, json=made, headers=headers, timeout=LIMIT)
            assert done.status_code == 201, done.text
    assert main(["notebook", "stop", "far"]) == 0
    job.wait(LIMIT)
    assert job.status().state is JobState.CANCELLED
    assert [one.name for one in job.artifacts()] == ["made.txt"]
    # What the node's pages show is the folder of the logs: the token is not there.
    task = JobPaths(default_home(), job.id).task("worker-0")
    assert "notebooks are served at port" in task.stdout.read_text()
    assert not [
        path
        for path in task.root.rglob("*")
        if path.is_file() and server.token.encode() in path.read_bytes()
    ]


@pytest.mark.long
def test_a_kernel_on_yarn_runs_cells_of_this_machine_and_begins_anew_in_its_job(capsys, tmp_path):
    words = ("notebook", "kernel", "install", "--cluster", "yarn", "--gpus", "1")
    assert main(words) == 0
    manager = KernelManager(kernel_name=capsys.readouterr().out.strip())
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        for _ in range(2):
            client.wait_for_ready(LIMIT)
            told = []
            code = "import os; print(os.environ['SUBMARINE_JOB_ID'], end='')"
            client.execute_interactive(code, timeout=LIMIT, output_hook=told.append)
            said = [one["content"]["text"] for one in told if one["msg_type"] == "stream"]
            [summary] = list_jobs()
            assert said == [summary.id]
            # Kernels of one Jupyter server share an application: the next one need not wait for it.
            noted = json.loads(
                (JobPaths(default_home(), summary.id).root / "yarn.json").read_text()
            )
            assert noted["mode"] == "warm"
            manager.restart_kernel()
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    job = open_job(summary.id)
    job.wait(LIMIT)
    assert job.status().reason == "the kernel was shut down"
    assert job.status().ledger.released_after is not None
