"""A cluster of three nodes to be broken, and a kernel to be killed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.hadoop import use
from tests.jobs import end_processes_of

from .ground import Ground

LEASE = 2.0

collect_ignore = [] if find_spec("lightning") else ["test_yarn_kills_trainings.py"]
"""The frameworks have an environment of their own: `make test-long` runs their tests there."""


@pytest.fixture(scope="session")
def home_of_kills(tmp_path_factory):
    """Give a home for all of these tests: one keeper and one warm master serve many."""
    home = tmp_path_factory.mktemp("kills-home")
    yield home
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=5)


@pytest.fixture
def ground(yarn_of_three, home_of_kills, tmp_path, monkeypatch):
    """Give the cluster of three nodes; afterwards all of it is up, and no job is on it."""
    use(yarn_of_three, monkeypatch)
    monkeypatch.setenv("SUBMARINE_HOME", str(home_of_kills))
    monkeypatch.setenv("SUBMARINE_YARN_LEASE", str(LEASE))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    ground = Ground(yarn_of_three, home_of_kills, folder)
    yield ground
    yarn_of_three.cluster.up()
    ground.end()
    ground.until_free()


KERNEL = """
import json, sys, time
from pathlib import Path
from submarine_engine.clusters import open_cluster
from tests.jobs import _living, _traces, bundle_of, spec_of
cluster = open_cluster("yarn")
for script, options in json.loads(sys.argv[1]):
    print(cluster.submit(spec_of(**options), bundle_of(script), workdir=Path()), flush=True)
time.sleep(600)
"""


class Kernel:
    """A process that submits jobs, as a notebook's kernel does, and lives until it is killed."""

    def __init__(self, *jobs) -> None:
        arguments = [sys.executable, "-c", KERNEL, json.dumps(jobs)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self._jobs = len(jobs)

    @property
    def ids(self):
        """The ids of its jobs, as soon as they are submitted; to be read once."""
        found = [self.process.stdout.readline().strip() for _ in range(self._jobs)]
        assert all(re.fullmatch(r"[\w-]+", one) for one in found), found
        return found

    def until_submitted(self):
        """Wait until its jobs are submitted, or it is gone."""
        for _ in range(self._jobs):
            self.process.stdout.readline()

    def kill(self):
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL
        self.process.stdout.close()


@pytest.fixture
def kernel(ground):
    started = []

    def start(*jobs):
        started.append(Kernel(*jobs))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()
        one.process.stdout.close()
