"""A place for jobs on the Slurm that tests share, and a Slurm of a test's own to be broken."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest
from submarine_engine.clusters.slurm.sbatch import job_name
from submarine_engine.clusters.store import read_events
from submarine_engine.installer.slurm import SlurmCluster
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import end_processes_of, until

PATIENCE = 60.0

PARTITIONS = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=short Nodes=ALL MaxTime=1
PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""
"""Of a site that ends jobs: at a limit of a minute, and for those of a higher priority."""


class SlurmPlace(Place):
    """The jobs of one test, and what Slurm itself says of them."""

    def told(self):
        """Return the user's jobs as Slurm tells of them, by name; the last one of each."""
        words = ["squeue", "--json", "--states=all"]
        done = subprocess.run(words, capture_output=True, check=True, env=dict(os.environ))
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]}

    def number(self, job, attempt=1):
        """Return the number of an attempt of a job in Slurm."""
        return self.told()[job_name(job.id, attempt)]["job_id"]

    def events(self, job, kind):
        """Return the events of a kind of a job."""
        return [event for event, _ in read_events(self.paths(job).events)[0] if type(event) is kind]


@pytest.fixture
def place(slurm_home, tmp_path):
    place = SlurmPlace("slurm", slurm_home, tmp_path, largest=2)
    yield place
    place.clean_up()


class OfASite(SlurmCluster):
    """A Slurm with the partitions of a site, whose daemons tests kill."""

    def _write(self, plan):
        super()._write(plan)
        with self.conf.open("a") as file:
            file.write(PARTITIONS)

    def up(self, *args, **options):
        """Start what is not up: none of it belongs to the home of a test's jobs."""
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("SUBMARINE_HOME", raising=False)
            return super().up(*args, **options)

    def stop(self, name, number=signal.SIGTERM):
        """End one of its daemons; `up` starts it again.

        A controller that is killed with -9 forgets what it has not written yet: the last seconds.
        """
        os.kill(self.daemon(name).pid, number)
        until(lambda: self.daemon(name).pid is None)


@pytest.fixture(scope="session")
def slurm_of_its_own(tmp_path_factory):
    """Give a Slurm of two nodes with two GPUs each, to be broken."""
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as their users: it has to be root's")
    cluster = OfASite(tmp_path_factory.mktemp("slurm-broken"))
    cluster.up(nodes=2, gpus=2)
    yield cluster
    cluster.down()


@pytest.fixture
def broken(slurm_of_its_own, tmp_path, monkeypatch):
    """Give a place on a Slurm to be broken; afterwards all of it is up, and no job is on it."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    for name, value in slurm_of_its_own.environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "notebooks"
    folder.mkdir()
    place = SlurmPlace("slurm", home, folder, largest=2)
    yield place
    for node in ("n1", "n2"):  # before all else: no node that is drained is ready for jobs
        scontrol("update", f"nodename={node}", "state=resume", check=False)
    slurm_of_its_own.up()
    place.clean_up()
    shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper would wait for more jobs
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"
    until(lambda: not slurm_of_its_own.problems())


def scontrol(*words, check=True):
    """Say something to the controller, as an administrator."""
    subprocess.run(["scontrol", *words], check=check, capture_output=True)


def names_of(job_id):
    """Return the names of all that Slurm was ever asked for by a job, each as often as it was."""
    words = ["squeue", "--noheader", "--states=all", "--format=%j"]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    return [name for name in done.stdout.split() if name.startswith(job_name(job_id, ""))]
