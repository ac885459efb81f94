"""A Slurm of the tests' own: real daemons on loopback, from Debian's packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from submarine_engine.installer.slurm import SlurmCluster

from tests.jobs import end_processes_of

PATIENCE = 60.0


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Give a Slurm of two nodes with two declared GPUs each; its daemons have to be root's."""
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as their users: it has to be root's")
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm-own"))
    cluster.up(nodes=2, gpus=2)
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def home_on_slurm(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home for jobs on that Slurm, which is there until their keeper has ended."""
    home = tmp_path_factory.mktemp("slurm-home")
    yield home
    shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper would wait for more jobs
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def slurm_home(slurm: SlurmCluster, home_on_slurm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have this test's jobs on that Slurm."""
    monkeypatch.setenv("SUBMARINE_HOME", str(home_on_slurm))
    for name, value in slurm.environment().items():
        monkeypatch.setenv(name, value)
    return home_on_slurm
