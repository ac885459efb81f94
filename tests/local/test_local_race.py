"""Several notebooks at once: never is a GPU given twice, and every job comes to its turn."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress

import pytest
from submarine_engine.job import JobState

from tests.jobs import until

from .conftest import ids_of

GPUS = 3

# Each job takes a lock of its own on every GPU that it sees: held by another, it was given twice.
SCRIPT = """
import fcntl, os, sys, time
held = []
for gpu in filter(None, os.environ["CUDA_VISIBLE_DEVICES"].split(",")):
    held.append(open({folder!r} + "/" + gpu, "w"))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        open({folder!r} + "/twice", "w")
        sys.exit("given twice: " + gpu)
assert len(held) == {gpus}
time.sleep({seconds})
while {waits} and not os.path.exists({folder!r} + "/gate"): time.sleep(0.02)
"""
WAITS = 2
"""Which job of a notebook goes on until the test has killed what it kills."""


@pytest.mark.parametrize("seed", [1, 2])
def test_two_notebooks_race_for_the_gpus(local, declare_gpus, tmp_path, seed):
    declare_gpus(GPUS)
    chance = random.Random(seed)  # noqa: S311 - loads, no secrets
    detector = tmp_path / "detector"
    detector.mkdir()
    notebooks = []
    for _ in range(2):
        loads = [chance.randint(1, GPUS) for _ in range(5)]
        scripts = [
            SCRIPT.format(
                folder=str(detector),
                gpus=gpus,
                seconds=chance.random() / 10,
                waits=number == WAITS,
            )
            for number, gpus in enumerate(loads)
        ]
        notebooks.append(local.notebook(*zip(scripts, loads, strict=True)))
    of_each = [ids_of(notebook) for notebook in notebooks]
    jobs = [job for ids in of_each for job in ids]
    assert len(jobs) == 10
    # While they run: a keeper and a supervisor are killed, which must not cost more than one job.
    victim = until(lambda: running(local, [ids[WAITS] for ids in of_each]))
    os.kill(local.supervisor(victim), signal.SIGKILL)
    for pid, command in local.processes().items():
        if "scheduler import main" in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    (detector / "gate").touch()
    states = {job: local.follow(job).state for job in jobs}
    assert not (detector / "twice").exists()
    assert set(states.values()) <= {JobState.SUCCEEDED, JobState.LOST}
    assert list(states.values()).count(JobState.LOST) <= 1
    until(lambda: all(gpu.job_id is None for gpu in local.cluster.gpus()))


def running(local, jobs):
    for job in jobs:
        if local.state(job) is JobState.RUNNING:
            return job
    return None
