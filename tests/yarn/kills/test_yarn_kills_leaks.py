"""Many jobs on one warm master: whatever they took is given back, by the keeper too."""

from __future__ import annotations

from pathlib import Path

import pytest
from submarine_engine.job import JobState

from tests.jobs import processes_of, until

from .ground import PATIENCE, Ground, kill, lines

pytestmark = pytest.mark.long

SHORT = "for number in range(50): print(f'line {{number}} \u00fc')\n"


def usage(pid):
    process = Path(f"/proc/{pid}")
    return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))


def test_many_short_jobs(ground):
    app_ids = set()

    def run(number):
        jobs = [ground.submit(SHORT) for _ in range(number)]
        for job in jobs:
            story = job.follow()
            assert story.state is JobState.SUCCEEDED, story.status.reason
            assert story.out == lines(50)
            app_ids.add(job.noted["app_id"])

    run(8)  # each connection and thread that is kept is there now
    keeper, driver = ground.keeper, ground.driver
    ground.until_free()
    before = usage(keeper), usage(driver)
    for _ in range(20):
        run(1)
    run(8)
    ground.until_free()
    assert len(app_ids) == 1
    assert (ground.keeper, ground.driver) == (keeper, driver)
    until(lambda: usage(keeper)[0] <= before[0][0] + 4, PATIENCE)
    until(lambda: usage(keeper)[1] <= before[0][1] + 2, PATIENCE)
    until(lambda: usage(driver)[0] <= before[1][0] + 8, PATIENCE)


def test_nothing_is_left_when_idle(ground, tmp_path, monkeypatch):
    """Keeper, driver and warm master end by themselves, one after another."""
    home = tmp_path / "idle-home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "1")
    idle = Ground(ground.yarn, home, ground.folder)
    job = idle.submit(SHORT)
    assert job.follow().state is JobState.SUCCEEDED
    until(lambda: job.noted["app_id"] not in idle.alive(), PATIENCE)
    until(lambda: not processes_of(home), PATIENCE)
    assert idle.rm.application(job.noted["app_id"])["finalStatus"] == "SUCCEEDED"
    assert idle.rm.application(job.noted["app_id"])["finalStatus"] == "SUCCEEDED"


def test_nothing_is_left_here_of_a_cluster_that_is_gone(ground, tmp_path, monkeypatch):
    """A notebook's machine does not keep what waits for a ResourceManager for ever."""
    home = tmp_path / "gone-home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "20")  # its master is there until it is killed
    here = Ground(ground.yarn, home, ground.folder)
    job = here.submit(SHORT)
    assert job.follow().state is JobState.SUCCEEDED
    manager = ground.yarn.daemon("resourcemanager")
    kill(here.master_of(job.noted["app_id"]))
    manager.kill()
    try:
        until(lambda: not processes_of(home), PATIENCE)
    finally:
        manager.start()
        ground.yarn.wait_ready()
