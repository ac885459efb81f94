"""Webhooks where a keeper writes the jobs' ends."""

from __future__ import annotations

from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.outbox import NOTIFIED
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobState

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until
from tests.webhook import receiver


def test_a_keeper_has_the_webhook_told_and_no_job_waits_for_it(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_NOTIFY_PRIVATE", "true")
    cluster = open_cluster("hosts")
    try:
        with receiver() as server:
            server.answers_now.clear()
            spec = spec_of(notify=server.url, gpus=1)
            first = cluster.submit(spec, bundle_of("1 / 0"), workdir=tmp_path)
            until(lambda: server.got)
            assert follow(cluster, first).state is JobState.FAILED
            server.answers_now.set()
            noted = JobPaths(default_home(), first).root / NOTIFIED
            until(lambda: (read_json(noted) or {}).get("state") == "sent")
            told = server.got[0][2]
        assert (told["id"], told["cluster"], told["state"]) == (first, "hosts", "failed")
        assert "ZeroDivisionError" in told["reason"]
        assert told["gpu_seconds"]["held"] > 0
    finally:
        end_processes_of(default_home(), patience=0)
