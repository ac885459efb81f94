"""What is over stays readable when its cluster is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from submarine_engine import open_job
from submarine_engine.cli import main
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import ConfigError
from submarine_engine.history import JobPaths, default_home

from tests.jobs import bundle_of, follow, spec_of, until


@pytest.fixture
def job():
    """Give a job that is over, on record as one of a YARN that is nowhere."""
    cluster = LocalCluster()
    job_id = cluster.submit(spec_of(name="old"), bundle_of("print('trained')\n7"), workdir=Path())
    follow(cluster, job_id)
    paths = JobPaths(default_home(), job_id)
    until(lambda: json.loads(paths.status.read_text())["state"] == "succeeded")
    for path in (paths.record, paths.status):
        path.write_text(json.dumps({**json.loads(path.read_text()), "cluster": "yarn"}))
    return paths


def test_logs_result_and_card_are_there(job, capsys, monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert main(["job", "logs", "old"]) == 0
    assert capsys.readouterr().out == "trained\n"
    assert main(["job", "show", "old"]) == 0
    shown = capsys.readouterr().out
    assert "succeeded" in shown
    assert "yarn" in shown
    opened = open_job(job.job_id)
    assert opened.result() == 7
    assert opened.cancel() is False
    with pytest.raises(ConfigError, match="no Hadoop configuration"):
        opened.cluster.check(spec_of())


def test_one_that_is_not_over_needs_its_cluster(job, capsys, monkeypatch):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    summary = json.loads(job.status.read_text())
    job.status.write_text(json.dumps({**summary, "state": "running"}))
    assert main(["job", "logs", "old"]) != 0
    assert "no Hadoop configuration is named" in capsys.readouterr().err
