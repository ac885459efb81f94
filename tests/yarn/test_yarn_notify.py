"""Webhooks of jobs in containers: told by the machine of their keeper, where that is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from submarine_engine.clusters.outbox import NOTIFIED
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, spec_of, until
from tests.webhook import receiver


# A keeper of its own: who tells of an end has the keeper's settings.
@pytest.mark.long
@pytest.mark.usefixtures("on_yarn")
def test_one_on_loopback_is_refused_unless_it_is_allowed_and_then_told(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    cluster = yarn_cluster(home)

    def run(script):
        spec = spec_of(notify=server.url, notebook="n.ipynb", memory=256, gpus=1, mode="warm")
        job = Job(cluster, cluster.submit(spec, bundle_of(script), workdir=tmp_path))
        status, root = job.wait(300), JobPaths(home, job.id).root
        until(lambda: (read_json(root / NOTIFIED) or {}).get("state") in {"sent", "failed"})
        return job.id, status, root

    try:
        with receiver() as server:
            _, status, root = run("1")
            assert status.state is JobState.SUCCEEDED
            assert server.got == []
            (warning,) = read_json(root / "warnings.json")["warnings"]
            assert "none of the public network" in warning
            assert "notify_private = true" in warning
            settings = Path(os.environ["XDG_CONFIG_HOME"]) / "submarine" / "config.toml"
            settings.parent.mkdir(parents=True)
            settings.write_text("notify_private = true\n")
            job_id, status, root = run("1 / 0")
            assert read_json(root / NOTIFIED)["state"] == "sent"
            ((_, headers, told),) = server.got
    finally:
        end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another
    assert (headers["Idempotency-Key"], told["id"]) == (job_id, job_id)
    assert (told["cluster"], told["state"]) == ("yarn", "failed")
    assert told["reason"].startswith("ZeroDivisionError")
    assert told["gpu_seconds"]["held"] >= told["gpu_seconds"]["busy"] > 0
    assert told["log"].startswith("http://")  # the application's page, which others can read
