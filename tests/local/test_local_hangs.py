"""A job of several tasks that hangs is said to, and where; one that works never is."""

from __future__ import annotations

import pytest
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.events import Warned
from submarine_engine.future import Job
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import spec_of, until

HANGS = """
import os, threading, time
from submarine_runtime import job

def load():
    while not os.path.exists({gate!r}):
        time.sleep(0.01)

print("there", flush=True)  # quiet from here on, however long the start took
if job.rank == 2:
    load()
else:
    while not os.path.exists({gate!r}):
        threading.Event().wait(0.01)
print("goes on", flush=True)
while not os.path.exists({gate!r} + "2"):
    print(end=".", flush=True)  # else it would hang once more
    time.sleep(0.01)
"""

WORKS = """
import time
while time.process_time() < 3.0:  # twice as long as it may be quiet
    pass
"""


@pytest.fixture
def begin(tmp_path):
    cluster = LocalCluster(tmp_path / "home")
    jobs = []

    def begin(code, count, hang_after=1.0):
        bundle = build(Cell(number=1, source=code), [], {})
        role = Role(count=count, resources=Resources(gpus=0))
        job_id = cluster.submit(
            spec_of(roles=(role,), hang_after=hang_after), bundle, workdir=tmp_path
        )
        jobs.append(Job(cluster, job_id))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.kill()
        job.wait(180)


def warned(job):
    return [item.text for item, _ in job.stream() if isinstance(item, Warned)]


def test_the_odd_rank_is_named_and_the_job_goes_on(tmp_path, begin):
    gate = tmp_path / "gate"
    job = begin(HANGS.format(gate=str(gate)), 3)
    until(lambda: job.status().warning, 120)
    text = job.status().warning
    assert text.startswith("the job seems to hang, for 1.0 s no rank has printed, moved data")
    assert (
        "or used a processor: rank 2: In [1], line 7, in load(): time.sleep(0.01); ranks 0, 1: "
        in text
    )
    assert text.endswith(f". It goes on; `submarine job stacks {job.id}` shows more")
    assert job.status().state is JobState.RUNNING
    assert until(lambda: job.cluster.warnings(job.id)) == [text]  # kept right after the event
    gate.touch()
    until(lambda: not job.status().warning, 120)  # they have printed
    (tmp_path / "gate2").touch()
    assert job.wait(120).state is JobState.SUCCEEDED
    assert warned(job)[:2] == [text, ""]


def test_who_computes_in_silence_does_not_hang(begin):
    job = begin(WORKS, 2, hang_after=1.5)
    assert job.wait(120).state is JobState.SUCCEEDED
    assert warned(job) == []
    assert job.cluster.warnings(job.id) == []
