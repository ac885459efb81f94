"""A container that YARN's capacity scheduler takes from a job, for a queue that is owed it."""

from __future__ import annotations

import pytest
from submarine_engine.clusters.store import read_events
from submarine_engine.events import Retried
from submarine_engine.installer import sites
from submarine_engine.job import JobState

from tests.hadoop import start, use
from tests.jobs import until

from .ground import PATIENCE, Ground

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PREEMPTION = {
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    **{
        f"yarn.resourcemanager.monitor.capacity.preemption.{name}": value
        for name, value in {
            "monitoring_interval": "500",
            "max_wait_before_kill": "1000",
            "total_preemption_per_round": "1.0",
            "max_ignored_over_capacity": "0.0",
            "natural_termination_factor": "1.0",
        }.items()
    },
}
GRACE = "30000"
"""Milliseconds between a node's SIGTERM and its SIGKILL; 250 unless an administrator says more."""


@pytest.fixture
def ground(home_of_its_own, home_of_kills, tmp_path, monkeypatch):
    """Give a cluster of one node that preempts: queue `default` is owed 3 of 4 GPUs, `small` 1."""

    def shared(plan, layout, own=sites._yarn):
        return {**own(plan, layout), **PREEMPTION}

    def nodes(plan, own=sites._nodemanagers):
        return {**own(plan), "yarn.nodemanager.sleep-delay-before-sigkill.ms": GRACE}

    monkeypatch.setattr(sites, "_yarn", shared)
    monkeypatch.setattr(sites, "_nodemanagers", nodes)
    yarn = use(start(home_of_its_own, "preempts", 1), monkeypatch)
    monkeypatch.setenv("SUBMARINE_HOME", str(home_of_kills))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    ground = Ground(yarn, home_of_kills, folder)
    yield ground
    ground.end()
    ground.until_free()


STEPS = """
import os, time
from submarine_runtime import job
me, state = f"{{job.attempt}}.{{job.rank}}", {{"seen": []}}
print("attempt", job.attempt, flush=True)
while job.attempt > 1 and not os.path.exists({gate!r}): time.sleep(0.05)  # as it came back
try:
    for step in job.steps(100_000, state, every=3600):
        if len(state["seen"]) == 3:
            open({flag!r} + me, "w").close()
        if os.path.exists({gate!r}):
            break
        state["seen"].append(step)
        time.sleep(0.05)
except KeyboardInterrupt:
    open({flag!r} + me + ".asked", "w").write(f"{{job.notice!r}} {{state['seen'][-1]}}")
    raise
(step, state["seen"] == list(range(step)))
"""
"""Its only checkpoint is the one that it writes when it is asked to end."""


@pytest.mark.parametrize("mode", ["warm", "cold"])
@pytest.mark.parametrize("tasks", [1, 2])
def test_what_is_preempted_goes_on_where_it_was(ground, mode, tasks):
    asked = {"gpus": 4 // tasks, "memory": 7000 // tasks, "vcores": 14 // tasks}
    job = ground.submit(STEPS, mode=mode, count=tasks, retries=0, **asked)
    flags = [f"flag1.{rank}" for rank in range(tasks)]
    until(lambda: all(job.flag.with_name(flag).exists() for flag in flags), PATIENCE)
    other = ground.submit("1", queue="small", gpus=1, memory=1024, vcores=2)
    assert other.follow().state is JobState.SUCCEEDED
    until(lambda: job.job.status().attempt == 2, PATIENCE)
    job.gate.touch()
    status = job.job.wait(PATIENCE)
    assert status.state is JobState.SUCCEEDED, status.reason
    assert (status.attempt, status.failures) == (2, 0)
    told = [event for event, _ in read_events(ground.paths(job).events)[0]]
    (again,) = [event for event in told if isinstance(event, Retried)]
    assert not again.counted
    assert "YARN says: " in again.reason
    assert "ontainer was preempted" in again.reason or "ontainer preempted" in again.reason
    log = ground.paths(job).task("worker-0").stdout
    assert log.read_text() == "attempt 1\nattempt 2\n"
    said = [job.flag.with_name(f"{flag}.asked").read_text() for flag in flags]
    steps = {int(one.rpartition(" ")[2]) + 1 for one in said}
    assert any(one.startswith("Notice(") for one in said), said
    step, whole = job.job.result()
    assert whole
    assert steps == {step}


STANDS = """
import os, time
with open({flag!r}, "w") as file: file.write("here")
while not os.path.exists({gate!r}): time.sleep(0.05)
"""


def test_a_gang_takes_what_its_queue_is_owed(ground):
    """It would wait for what is free; and nobody is preempted for what nobody asks for."""
    other = ground.submit(STANDS, memory=7000, vcores=14, retries=0)
    other.until_running()
    gang = ground.submit("1", queue="small", count=2, gpus=0, memory=600, vcores=1, mode="cold")
    status = gang.job.wait(PATIENCE)
    assert status.state is JobState.SUCCEEDED, status.reason
    other.gate.touch()
    status = other.job.wait(PATIENCE)
    assert (status.state, status.attempt, status.failures) == (JobState.SUCCEEDED, 2, 0)
