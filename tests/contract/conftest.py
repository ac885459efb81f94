"""Every cluster as the contract tests see it: what `Cluster` and `Job` promise, no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState

from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until

PATIENCE = 180.0
"""Seconds: no test waits for them unless something is broken."""

HOLD = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"
"""A script that waits for a file."""


class Place:
    """A cluster as a user has it, and the jobs of one test.

    Parameters
    ----------
    name
        The cluster's.
    home
        Where its jobs are kept.
    folder
        The notebook's folder, which the job's machine sees too.
    """

    def __init__(self, name: str, home: Path, folder: Path) -> None:
        self.name = name
        self.home = home
        self.folder = folder
        self.seam = open_cluster(name)
        self.jobs: list[Job] = []

    def submit(self, script, *, workdir=None, **options):
        """Submit the text of a script, or cells: a list of sources, the last one the main cell."""
        if isinstance(script, str):
            bundle = bundle_of(script)
        else:
            *cells, main = [Cell(number=n, source=text) for n, text in enumerate(script, 1)]
            bundle = build(main, cells, {})
        spec = spec_of(notebook=str(self.folder / "contract.ipynb"), **options)
        job_id = self.seam.submit(spec, bundle, workdir=workdir or self.folder)
        self.jobs.append(Job(self.seam, job_id))
        return self.jobs[-1]

    def follow(self, job, **options):
        return follow(self.seam, job.id, patience=PATIENCE, **options)

    def run(self, script, **options):
        return self.follow(self.submit(script, **options))

    def hold(self, gpus):
        """Submit a job that holds GPUs until the file that comes with it is made."""
        gate = self.folder / f"gate-{len(self.jobs)}"
        return self.submit(HOLD.format(str(gate)), gpus=gpus), gate

    def until_running(self, job, flag=None):
        until(lambda: job.status().state is JobState.RUNNING, PATIENCE)
        if flag is not None:
            until(flag.exists, PATIENCE)

    def paths(self, job):
        return JobPaths(self.home, job.id)

    def total(self):
        return len(self.seam.gpus())

    def holders(self):
        """Return how many GPUs jobs of this test hold, by job."""
        held = [gpu.job_id for gpu in self.seam.gpus()]
        return {job.id: held.count(job.id) for job in self.jobs if job.id in held}

    def in_another_process(self, program, *arguments):
        """Run Python code in a process of its own, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def clean_up(self):
        for job in self.jobs:
            if self.paths(job).root.exists() and not job.done():
                job.kill()
        for job in self.jobs:
            if self.paths(job).root.exists():
                job.wait(PATIENCE)


@pytest.fixture(scope="session")
def home_of_hosts(tmp_path_factory):
    """Give a home for jobs on hosts: one keeper serves many tests."""
    home = tmp_path_factory.mktemp("hosts-home")
    yield home
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def hosts_home(home_of_hosts, tmp_path, monkeypatch):
    """Have the tests' own backend installed, as a package outside the project would be."""
    plugin = tmp_path / "site"
    use_backend(monkeypatch, plugin, "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_HOME", str(home_of_hosts))
    return home_of_hosts


def use_backend(monkeypatch, site, entry_point):
    """Install a backend of `tests/clusters` for this process and those that it starts."""
    info = site / "submarine_hosts-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: submarine-hosts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[submarine.clusters]\n{entry_point}\n")
    paths = [str(site), str(Path(__file__).parents[1] / "clusters")]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture(
    params=["local", "hosts", pytest.param("yarn", marks=pytest.mark.xdist_group("the cluster"))]
)
def cluster(request, tmp_path, monkeypatch):
    """Give a cluster with four GPUs; afterwards no job of the test is left on it."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    home = tmp_path / "home"
    if request.param != "local":
        home = request.getfixturevalue(
            {"yarn": "shared_home", "hosts": "hosts_home"}[request.param]
        )
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "4")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # a job that is asked to end is given time to
    place = Place(request.param, home, folder)
    yield place
    place.clean_up()
    left = end_processes_of(home, PATIENCE) if request.param == "local" else {}
    assert not left, f"left running: {left}"
