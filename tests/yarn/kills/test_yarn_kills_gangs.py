"""Jobs of several containers, each of a whole node: they take all of them or none."""

from __future__ import annotations

import time

import pytest
from submarine_engine.job import JobState

from tests.jobs import until

from .ground import PATIENCE

pytestmark = pytest.mark.long

WHOLE = {"gpus": 4, "memory": 256}
NOTE = "it takes all 3 containers at once"


def until_over(running):
    running.gate.touch()
    status = running.job.wait(PATIENCE * 3)
    assert status.state is JobState.SUCCEEDED, status.reason
    return status


TOGETHER = """
import os, time
from submarine_runtime import job
open({flag!r} + str(job.rank), "w").close()
while not os.path.exists({gate!r}): time.sleep(0.05)
"""


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_a_gang_that_does_not_fit_holds_nothing_and_lets_others_by(ground, mode):
    first = ground.submit(memory=256).until_running()
    gang = ground.submit(TOGETHER, count=3, mode=mode, **WHOLE)
    until(lambda: NOTE in gang.job.status().waiting_reason, PATIENCE)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert ground.gpus_in_use() == 1
        time.sleep(0.2)
    ground.submit(gpus=2, mode="cold").until_running().follow_to_end()
    first.follow_to_end()
    status = until_over(gang)
    granted = max(task.held.wall for task in status.tasks)
    flags = [gang.flag.with_name(f"flag{rank}") for rank in range(3)]
    assert all(flag.stat().st_mtime >= granted for flag in flags)
    assert len({task.container for task in status.tasks}) == 3
    logs = [ground.paths(gang).task(task.task).stderr for task in status.tasks]
    assert not any(log.exists() and log.read_bytes() for log in logs)
    ground.until_free()


def test_two_gangs_of_which_only_one_fits_both_come_to_their_end(ground):
    """Asked for at once they may each get one of two nodes: that is given back."""
    gangs = [ground.submit(count=2, mode="cold", **WHOLE) for _ in range(2)]
    for gang in gangs:
        gang.gate.touch()
    for gang in gangs:
        until_over(gang)
    ground.until_free()


def test_a_gang_that_is_cancelled_while_it_waits(ground):
    first = ground.submit(memory=256).until_running()
    gang = ground.submit(count=3, **WHOLE)
    until(lambda: NOTE in gang.job.status().waiting_reason, PATIENCE)
    gang.job.cancel()
    assert gang.job.wait(PATIENCE).state is JobState.CANCELLED
    first.follow_to_end()
    ground.until_free()
