"""Killed with -9 while jobs run on YARN: what is ours, and what a job consists of."""

from __future__ import annotations

import pytest
from submarine_engine import Job
from submarine_engine.job import JobState

from tests.jobs import until

from .ground import FULL, PATIENCE, STEADY, Running, kill, lines

pytestmark = pytest.mark.long


def test_the_keeper(ground):
    job = ground.submit().until_running().until_further()
    before = ground.keeper
    kill(before)
    job.until_further()
    assert ground.keeper != before
    job.follow_to_end()
    ground.until_free()


def test_the_keeper_while_the_job_ends(ground):
    job = ground.submit().until_running().until_further()
    kill(ground.keeper)
    job.follow_to_end()
    ground.until_free()


def test_the_driver(ground):
    job = ground.submit().until_running().until_further()
    before = ground.driver
    kill(before)
    job.until_further()
    job.follow_to_end()
    # Another application needs another driver.
    cold = ground.submit(mode="cold").until_running()
    assert ground.driver != before
    cold.follow_to_end()
    ground.until_free()


def test_the_task(ground):
    job = ground.submit(FULL).until_running()
    kill(job.pid)
    story = job.follow()
    assert story.state is JobState.FAILED
    assert "SIGKILL" in story.status.reason
    assert story.out == lines(1000)
    ground.until_free()
    # The notebook's next job finds the master as it was.
    again = ground.submit().until_running()
    assert again.noted["app_id"] == job.noted["app_id"]
    again.follow_to_end()


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_the_application_master(ground, mode):
    job = ground.submit(FULL, mode=mode).until_running().until_shown(lines(1000))
    app_id = job.noted["app_id"]
    kill(ground.master_of(app_id))
    story = job.follow()
    assert story.state is JobState.FAILED
    assert "YARN says: failed: " in story.status.reason
    assert app_id in story.status.reason
    assert story.out == lines(1000)
    ground.until_free()
    ground.submit(mode=mode).until_running().follow_to_end()


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_an_application_that_is_killed_on_yarns_page(ground, mode):
    job = ground.submit(FULL, mode=mode).until_running().until_shown(lines(1000))
    ground.rm.kill(job.noted["app_id"])
    story = job.follow()
    assert story.state is JobState.CANCELLED
    assert "somebody ended it in YARN: killed" in story.status.reason
    assert story.out == lines(1000)
    ground.until_free()


def test_the_kernel(ground, kernel, tmp_path):
    """Its running job goes on; its waiting job and its warm master go after the lease."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    script = STEADY.format(flag=str(folder / "flag"), gate=str(folder / "gate"))
    options = {"notebook": "k.ipynb", "memory": 256, "mode": "warm", "queue": "small", "gpus": 3}
    dead = kernel([script, options], [script, options])
    job, waiting = (Running(ground, Job(ground.seam, one), folder) for one in dead.ids)
    ground.jobs += [job, waiting]
    job.until_running().until_further()
    until(lambda: "GPU" in waiting.job.status().waiting_reason, PATIENCE)
    dead.kill()
    story = waiting.follow()
    assert story.state is JobState.CANCELLED
    assert "notebook is gone" in story.status.reason
    assert job.noted["app_id"] in ground.alive()
    job.until_further().follow_to_end()
    until(lambda: job.noted["app_id"] not in ground.alive(), PATIENCE)
    ground.until_free()
