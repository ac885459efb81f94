"""A home that somebody else may change is refused: what is loaded from it is code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.doctor import doctor
from submarine_engine.errors import ConfigError
from submarine_engine.records import list_jobs, open_job

from tests.jobs import LIMIT, bundle_of, end_processes_of, spec_of

NOBODY = 65534
OTHER = """
import os, sys
os.setgid({uid}); os.setuid({uid})
os.mkdir(sys.argv[1], 0o700); os.chmod(sys.argv[1], {mode})
os.makedirs(sys.argv[1] + "/jobs/20260101-000000-aaaaa")
"""


def made_by_another(path, mode=0o777):
    """Make a home as another user of the machine does, before we come."""
    if os.getuid():
        pytest.fail("needs root, to be another user: run the tests in a container")
    code = OTHER.format(uid=NOBODY, mode=mode)
    subprocess.run([sys.executable, "-c", code, path], check=True, cwd="/")


@pytest.fixture(params=["foreign", "open"])
def home(request, tmp_path, monkeypatch):
    path = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(path))
    if request.param == "foreign":
        tmp_path.chmod(0o777)
        for parent in tmp_path.parents:
            if parent.is_relative_to(tempfile.gettempdir()) and parent.name != "tmp":
                parent.chmod(0o711)
        made_by_another(path)
    else:
        job_id = LocalCluster().submit(spec_of(), bundle_of("1"), workdir=tmp_path)
        LocalCluster().kill(job_id)
        assert not end_processes_of(path, LIMIT)  # its supervisor tidies up after the last event
        path.chmod(0o770)
    return path, "another user (nobody)" if request.param == "foreign" else "others may write"


def test_it_is_refused_by_whatever_reads_or_writes_there(home, tmp_path):
    path, words = home
    known = next((path / "jobs").iterdir()).name
    cluster = LocalCluster()
    before = sorted(path.rglob("*"))
    for call in (
        lambda: cluster.submit(spec_of(), bundle_of("1"), workdir=tmp_path),
        lambda: cluster.status(known),
        lambda: cluster.results(known),
        lambda: cluster.cancel(known),
        list_jobs,
        lambda: open_job(known),
        lambda: open_job("mnist"),
    ):
        with pytest.raises(ConfigError, match="folder of the jobs") as refused:
            call()
        assert words in refused.value.what
        assert refused.value.fix
    assert sorted(path.rglob("*")) == before


def test_the_doctor_says_so(home):
    _, words = home
    (found,) = (check for check in doctor() if check.title == "home folder")
    assert found.verdict == "bad"
    assert words in found.what


def test_the_terminal_says_so(home):
    _, words = home
    command = [sys.executable, "-m", "submarine_engine.cli", "job", "list", "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert listed.returncode
    assert words in listed.stdout + listed.stderr


def test_one_that_others_may_only_look_into_is_used_and_noted(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    assert list_jobs() == []
    (found,) = (check for check in doctor() if check.title == "home folder")
    assert "may look into" in found.what
