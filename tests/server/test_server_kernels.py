"""Kernels on the cluster, as Jupyter's server starts them for its pages."""

from __future__ import annotations

import pytest
from submarine_engine import JobState, list_jobs, open_job
from submarine_engine.cli import main

from tests.jobs import LIMIT, until


@pytest.fixture
def kernels(start_server, tmp_path, monkeypatch):
    """Give a server with two kernels to choose: each has the one GPU for itself."""
    home = tmp_path / "kernels-home"
    server = start_server(home=home, SUBMARINE_LOCAL_GPUS="1")
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(server.folder))
    # Longer than a busy machine takes to submit the second one, which waits for the first's GPU.
    words = ("notebook", "kernel", "install", "--gpus", "1", "--idle", "20s")
    assert main(words) == 0
    assert main((*words, "--within", "1s", "--name", "impatient")) == 0
    yield Kernels(server)
    for summary in list_jobs():
        job = open_job(summary.id)
        job.kill()
        job.wait(LIMIT)


class Kernels:
    def __init__(self, server):
        self._session = server.session
        self._url = server.url.removesuffix("/submarine") + "/api/kernels"

    def start(self, name="submarine-kernel"):
        asked = {"name": name}
        return self._session.post(self._url, json=asked, timeout=LIMIT)

    def lives(self, kernel):
        return self._session.get(f"{self._url}/{kernel}", timeout=LIMIT).ok


def test_a_page_is_told_why_a_kernel_does_not_start_and_that_one_is_gone(kernels):
    first = kernels.start()
    assert first.status_code == 201, first.text
    late = kernels.start("submarine-kernel-impatient")
    assert late.status_code == 503
    assert "it did not start within 1 s" in late.json()["message"]
    # Nobody uses the first one: it is gone, no other begins by itself, and its GPU is free.
    until(lambda: not kernels.lives(first.json()["id"]))
    states = [open_job(one.id).status().state for one in list_jobs()]
    assert sorted(states) == [JobState.CANCELLED, JobState.SUCCEEDED]
