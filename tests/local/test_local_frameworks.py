"""Frameworks of several tasks on the machine itself: what needs no argument."""

from __future__ import annotations

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.job import Resources, Role

from tests.jobs import bundle_of, end_processes_of, spec_of


@pytest.fixture
def run(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))

    def run(script, **options):
        role = Role(count=2, resources=Resources(gpus=0))
        cluster = open_cluster("local")
        spec = spec_of(roles=(role,), **options)
        return Job(cluster, cluster.submit(spec, bundle_of(script), workdir=tmp_path)).result(180)

    yield run
    end_processes_of(home)


JAX = """
import jax
from jax.experimental import multihost_utils
from submarine_runtime import job
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize()
assert jax.process_index() == job.rank
multihost_utils.process_allgather(job.rank + 1.0).tolist()
"""


def test_jax_initializes_without_an_argument(run, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # the notebook itself runs in an allocation
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n1")
    monkeypatch.setenv("SLURM_NTASKS", "9")
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.setenv("SLURM_LOCALID", "5")
    assert run(JAX) == [1.0, 2.0]
