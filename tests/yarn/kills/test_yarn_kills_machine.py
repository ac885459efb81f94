"""The machine of the notebook dies: kernel, keeper and driver are gone at once."""

from __future__ import annotations

import calendar
import time

import pytest
from submarine_engine import Job
from submarine_engine.clusters.yarn.masters import FINAL
from submarine_engine.job import JobState

from tests.jobs import end_processes_of, until

from .ground import PATIENCE, STEADY, Ground, Running, kill

pytestmark = pytest.mark.long

IDLE = 20


def lifetime(rm, app_id):
    """Return for how many seconds YARN lets an application live; infinity where it has no limit."""
    told = rm.get(f"/ws/v1/cluster/apps/{app_id}/timeouts/LIFETIME")["timeout"]
    if told["expiryTime"] == "UNLIMITED":
        return float("inf")
    expiry = time.strptime(told["expiryTime"].partition(".")[0], "%Y-%m-%dT%H:%M:%S")
    return calendar.timegm(expiry) - time.time()


def test_the_machine(ground, kernel, tmp_path, monkeypatch):
    """A running job goes on and can be attached to; a warm master that is idle goes."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", str(IDLE))
    machine = Ground(ground.yarn, home, tmp_path)
    script = STEADY.format(flag=str(tmp_path / "flag"), gate=str(tmp_path / "gate"))
    options = {"notebook": "k.ipynb", "memory": 256, "mode": "warm", "gpus": 1}

    def submit():
        one = kernel([script, options])
        (job_id,) = one.ids
        return one, Running(machine, Job(machine.seam, job_id), tmp_path).until_running()

    def die(one):
        kill(machine.keeper)  # first: it ends an idle master whose kernel is gone
        one.kill()
        end_processes_of(home, patience=0)  # skein's driver

    first, job = submit()
    app_id = job.noted["app_id"]
    until(lambda: PATIENCE < lifetime(machine.rm, app_id) < float("inf"), PATIENCE)
    die(first)
    job.until_further().follow_to_end()  # by a keeper that the reader has started
    until(lambda: machine.rm.application(app_id)["state"] in FINAL, PATIENCE)
    job.gate.unlink()
    job.flag.unlink()

    second, job = submit()
    app_id = job.noted["app_id"]
    job.follow_to_end()
    until(lambda: lifetime(machine.rm, app_id) < PATIENCE, PATIENCE)
    die(second)
    assert machine.rm.application(app_id)["state"] == "RUNNING"
    until(lambda: machine.rm.application(app_id)["state"] in FINAL, PATIENCE)
    assert "lifetime" in machine.rm.application(app_id)["diagnostics"]
    assert job.job.status().state is JobState.SUCCEEDED
    ground.until_free()
