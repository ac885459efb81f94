"""What the tests of the local cluster share: real jobs, followed to their end, none left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState

from tests.jobs import (
    LIMIT,
    bundle_of,
    end_processes_of,
    follow,
    processes_of,
    spec_of,
    until,
)

from .users import Place, needs_root


class Local:
    """A local cluster with a home of its own, and jobs from the text of a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.cluster = LocalCluster(self.home)

    def submit(self, script, *, cluster=None, workdir=None, **options):
        spec, workdir = spec_of(**options), workdir or self.folder
        return (cluster or self.cluster).submit(spec, bundle_of(script), workdir=workdir)

    def notebook(self, *jobs, kill=False):
        """Start another process that submits ``(script, gpus)``; `ids_of` tells what became."""
        program = Path(__file__).with_name("notebook.py")
        process = subprocess.Popen(
            [sys.executable, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SUBMARINE_HOME": str(self.home)},
            start_new_session=True,
        )
        process.stdin.write(json.dumps({"jobs": jobs, "kill": kill}))
        process.stdin.close()
        return process

    def paths(self, job_id):
        return JobPaths(self.home, job_id)

    def follow(self, job_id, *, limit=1 << 20, cluster=None):
        return follow(cluster or self.cluster, job_id, limit=limit)

    def follow_several(self, job_id):
        """Wait for the end of a job of several tasks; return what became of it."""
        until(lambda: self.state(job_id).final)
        return self.cluster.status(job_id)

    def run(self, script, **options):
        return self.follow(self.submit(script, **options))

    def state(self, job_id):
        return self.cluster.status(job_id).state

    def until_running(self, job_id, flag=None):
        """Wait until the job's code runs; with `flag`, until it has made that file."""
        until(lambda: self.state(job_id) is JobState.RUNNING)
        if flag is not None:
            until(flag.exists)

    def until_noted(self, job_id, state):
        """Wait for a job's last change in its folder: the summary, written after the events."""
        until(lambda: f'"{state}"' in self.paths(job_id).status.read_text())

    def supervisor(self, job_id):
        """Return the pid of the job's supervisor."""
        return self._signature(job_id)["pid"]

    def session(self, job_id):
        """Return the session of the job's task, which is the pid of its leader."""
        return self._signature(job_id)["session"]

    def _signature(self, job_id):
        until(lambda: self.paths(job_id).lock.read_text().endswith("}"))
        return json.loads(self.paths(job_id).lock.read_text())

    def processes(self):
        """Return the command lines of living processes that belong to this home, by pid."""
        return processes_of(self.home)


def ids_of(notebook, code=0):
    """Return the ids of the jobs that another notebook has submitted, once it is gone."""
    with notebook:
        ids = notebook.stdout.read().split()
    assert notebook.returncode == code
    return ids


def open_files():
    """Return the descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Give a local cluster; afterwards no process of it may be left."""
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # a job that is asked to end is given time to
    here = Local(tmp_path)
    yield here
    left = end_processes_of(here.home, patience=LIMIT)
    assert not left, f"left running: {left}"


@pytest.fixture
def declare_gpus(monkeypatch):
    """Declare GPUs, as a user does where none can be found."""
    return lambda count: monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", str(count))


# Users who share a machine: see `users`.


@pytest.fixture(scope="module")
def place():
    needs_root()
    made = Place().begin()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def users(place):
    return place.user("alice"), place.user("bob")


@pytest.fixture
def alice(users, place):
    place.policy("")
    return users[0]


@pytest.fixture
def bob(users):
    return users[1]


@pytest.fixture
def gate(place, request):
    """Give a file for which jobs wait."""
    path = place.folder / f"gate-{request.node.name[:60]}"
    yield path
    path.touch()
