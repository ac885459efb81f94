"""Several users of one folder: with the setting `user`, each of them sees only what is theirs."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest
from submarine_engine import list_jobs, open_job
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.config import load_config
from submarine_engine.errors import ConfigError, JobNotFoundError
from submarine_engine.records import job_words, record_of

from tests.jobs import bundle_of, follow, spec_of


def submit(name="job"):
    cluster = LocalCluster()
    job_id = cluster.submit(spec_of(name=name), bundle_of("print(1)"), workdir=Path.cwd())
    follow(cluster, job_id)
    return job_id


@pytest.fixture
def submitted(monkeypatch):
    """Run a job as somebody; return its id."""

    def as_somebody(user, name):
        monkeypatch.setenv("SUBMARINE_USER", user)
        return submit(name)

    return as_somebody


def test_each_user_sees_their_own_jobs_and_nobody_in_particular_sees_all(submitted, monkeypatch):
    adas, bobs = submitted("ada", "first"), submitted("bob", "second")
    monkeypatch.setenv("SUBMARINE_USER", "ada")
    assert [job.id for job in list_jobs()] == [adas]
    assert open_job("first").id == open_job(adas).id == open_job(adas[-5:]).id == adas
    assert job_words() == [adas, "first"]
    for wanted in (bobs, bobs[-5:], "second"):
        with pytest.raises(JobNotFoundError):
            open_job(wanted)
    assert record_of(adas)["user"] == "ada"
    monkeypatch.delenv("SUBMARINE_USER")
    assert {job.id for job in list_jobs()} == {adas, bobs}
    assert open_job("second").id == bobs


def test_without_the_setting_a_job_is_of_the_user_of_its_process():
    assert record_of(submit())["user"] == pwd.getpwuid(os.getuid()).pw_name


def test_the_file_may_say_the_user(tmp_path, monkeypatch):
    path = tmp_path / "config.toml"
    monkeypatch.setenv("SUBMARINE_CONFIG", str(path))
    path.write_text('user = "ada"\n')
    assert record_of(submit())["user"] == "ada"
    path.write_text('user = "bob"\n')
    assert list_jobs() == []
    path.write_text("user = 3\n")
    with pytest.raises(ConfigError, match="user"):
        load_config()


@pytest.mark.parametrize("text", ["", "[]", '{"user": 7}', "{"])
def test_a_record_that_says_no_user_is_nobodys(text, submitted, monkeypatch, tmp_path):
    job_id = submitted("ada", "mine")
    path = tmp_path / "home" / "jobs" / job_id / "record.json"
    assert json.loads(path.read_text())["user"] == "ada"
    path.write_text(text)
    assert list_jobs() == []
