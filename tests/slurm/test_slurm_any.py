"""``--cluster any`` with this machine, a real Slurm and a real YARN."""

from __future__ import annotations

import shutil

import pytest
from submarine_engine import open_job, submit
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import bundle_of, spec_of, until
from submarine_engine.testing.place import HOLD


@pytest.fixture
def both(monkeypatch):
    """Have this machine with one GPU first, then Slurm."""
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local,slurm")
    monkeypatch.setenv("SUBMARINE_ANY_WITHIN", "60")  # the machine may be busy


def begin(place, text, **options):
    """Submit a script to any cluster; return the reason, and the job."""
    cluster, spec = cluster_for("any", spec_of(**options))
    job = open_job(cluster.submit(spec, bundle_of(text), workdir=place.folder))
    place.jobs.append(job)
    return spec.chosen, job


@pytest.mark.long
@pytest.mark.usefixtures("both")
def test_jobs_spread_over_this_machine_and_slurm(place):
    gate = place.folder / "gate"
    held = [begin(place, HOLD.format(str(gate)), gpus=1) for _ in range(3)]
    assert [job.cluster.name for _, job in held] == ["local", "slurm", "slurm"]
    assert held[1][0].startswith("slurm: 4 GPUs free, 1 asked for; local: ")
    for _, job in held:
        place.until_running(job)
    until(lambda: len([gpu for gpu in place.seam.gpus() if gpu.held_by]) == 2)
    # Two GPUs are free, and which nodes these are on says whether one task can have both.
    chosen, wide = begin(place, "1", gpus=2)
    assert wide.cluster.name == "slurm"
    assert "local: the job asks for 2 GPUs" in chosen
    four, last = begin(place, "1", **place.with_gpus(4))
    assert last.cluster.name == "slurm"
    assert "no cluster has room now" in four
    gate.touch()
    for job in (*(job for _, job in held), wide, last):
        assert job.wait(180).state.value == "succeeded"
    assert {one.cluster for one in list_jobs(place.home)} >= {"local", "slurm"}


@pytest.mark.long
@pytest.mark.usefixtures("both")
def test_a_slurm_whose_controller_is_down_is_passed_over(broken, slurm_of_its_own, monkeypatch):
    monkeypatch.setenv("SUBMARINE_ANY_OF", "slurm,local")
    monkeypatch.setenv("SUBMARINE_ANY_WITHIN", "120")
    slurm_of_its_own.stop("slurmctld")
    chosen, job = begin(broken, "1", gpus=1)
    assert job.cluster.name == "local"
    assert "; slurm: " in chosen
    assert job.wait(180).state.value == "succeeded"


@pytest.mark.long
@pytest.mark.usefixtures("both")
def test_an_option_that_slurm_alone_knows_leads_there(place):
    job = submit(sum, [1, 2], gpus=1, cluster="any", nice=1)
    place.jobs.append(job)
    assert job.cluster.name == "slurm"
    assert job.result(180) == 3


@pytest.mark.long
# Of the two clusters YARN is the slower one to start: this is beside its other tests.
@pytest.mark.xdist_group(name="the cluster")
def test_jobs_of_this_machine_slurm_and_yarn_are_beside_each_other(
    shared_home, slurm, tmp_path, monkeypatch
):
    for name, value in (*slurm.environment().items(), ("SUBMARINE_ANY_WITHIN", "120")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local,slurm,yarn")
    place, gate = Place("local", shared_home, tmp_path, largest=1), tmp_path / "gate"
    told = []
    try:
        for gpus in (1, 4, 1):
            chosen, job = begin(place, HOLD.format(str(gate)), **place.with_gpus(gpus))
            told.append((job.cluster.name, chosen))
            place.until_running(job)
        (_, on_slurm, on_yarn) = place.jobs
        assert [name for name, _ in told] == ["local", "slurm", "yarn"]
        assert told[1][1].startswith("slurm: 4 GPUs free, 4 asked for; local: ")
        assert "; local: 0 GPUs free, 1 asked for; slurm: 0 GPUs free, 1 asked for" in told[2][1]
        listed = {one.id: (one.cluster, one.state) for one in list_jobs(shared_home)}
        for job, (name, _) in zip(place.jobs, told, strict=True):
            assert listed[job.id] == (name, JobState.RUNNING)
        holders = {gpu.job_id for job in (on_slurm, on_yarn) for gpu in job.cluster.gpus()}
        assert holders >= {on_slurm.id, on_yarn.id}
        gate.touch()
        for job in place.jobs:
            assert job.wait(180).state is JobState.SUCCEEDED
    finally:
        gate.touch()
        place.clean_up()
        shutil.rmtree(shared_home / "slurm", ignore_errors=True)  # its keeper waits for more jobs
