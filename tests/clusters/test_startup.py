"""Where the time of a start went on machines that are elsewhere: each has a clock of its own."""

from __future__ import annotations

import json
import os

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobState

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, spec_of

LATE = """
import pathlib, sys, time
# Of what runs a task there, and neither of the keeper nor of the task.
if any(word.endswith("launcher.py") for word in sys.orig_argv):
    place = pathlib.Path(sys.orig_argv[-2])
    events = place.parents[2] / "jobs" / place.name / "events.jsonl"
    while "Granted" not in events.read_text(): time.sleep(0.02)
    until = time.monotonic() + 1
    while time.monotonic() < until: time.sleep(0.05)
"""


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Give the tests' backend, in a home of its own."""
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield open_cluster("hosts")
    end_processes_of(home)


def test_a_second_between_the_allocation_and_the_process_is_the_containers(
    tmp_path, hosts, monkeypatch
):
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(LATE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'late'}{os.pathsep}{os.environ['PYTHONPATH']}")
    script = "from submarine_runtime import report\nreport(0, loss=1.0)"
    job = Job(hosts, hosts.submit(spec_of(), bundle_of(script), workdir=tmp_path))
    assert job.wait(120).state is JobState.SUCCEEDED
    phases = {phase.name: phase.seconds for phase in job.startup().phases}
    assert list(phases) == ["queue", "container", "environment", "import", "first step"]
    assert phases["container"] >= 1


@pytest.mark.parametrize(
    ("at", "clock"),
    [([1e9, 7.5], 7.5), ([1e9], None), ([1e9, "x"], None), ([1e9, float("nan")], None)],
)
def test_the_clock_of_a_tasks_machine_is_kept_where_it_tells_one(tmp_path, at, clock):
    there = tmp_path / "there"
    there.mkdir()
    (there / "started.json").write_text(json.dumps({"at": at}))
    (there / "stdout").write_text("x")
    container = Container(JobPaths(tmp_path, new_job_id()), "worker-0", 0)
    container.see(FolderSource("c", there))
    (started,) = container.poll()
    assert started.clock == clock
