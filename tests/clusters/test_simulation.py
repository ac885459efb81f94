"""The double that the bench measures drivers with: a job on it goes as on any cluster."""

from __future__ import annotations

import time
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from submarine_engine import Cell, Job, JobSpec, JobState, Role
from submarine_engine.bundle import build
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths
from submarine_engine.job import TaskState
from submarine_engine.lifecycle import Course

from bench import drivers, simulation


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Give what plays a job of so many tasks, and returns it when it is over."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))

    def play(tasks, steps, *failing, then=lambda _: None):
        with simulation.keeper(home) as (cluster, _):
            bundle = build(Cell(number=1, source="1"), [], {})
            spec = JobSpec(name="bench", roles=(Role(count=tasks),))
            job = Job(cluster, cluster.submit(spec, bundle, workdir=tmp_path))
            with simulation.player(home, job.id, str(steps), "0.1", *failing):
                then(job)
                job.wait()
        return job

    return play


@pytest.mark.parametrize("tasks", [1, 12])
def test_a_simulated_job_runs_to_its_end(played, tasks):
    job = played(tasks, 3)
    status = job.status()
    assert status.state is JobState.SUCCEEDED, status.reason
    assert [task.state for task in status.tasks] == [TaskState.SUCCEEDED] * tasks
    assert all(task.busy and task.returned and task.released for task in status.tasks)
    last = JobPaths(job.cluster.home, job.id).task(f"worker-{tasks - 1}")
    assert last.stdout.read_text().splitlines()[-1].startswith(f"step 3/3 of worker-{tasks - 1} ")
    assert status.progress == 1


def test_the_first_simulated_task_to_fail_ends_the_others(played):
    status = played(6, 1000, "worker-2", "5").status()
    assert status.state is JobState.FAILED
    assert status.reason == "ValueError: of the simulation"
    assert [task.exit_code for task in status.tasks] == [-9, -9, 1, -9, -9, -9]


def test_a_simulated_job_that_is_cancelled_is_asked_to_end(played):
    def cancel(job):
        while not all(task.busy for task in job.status().tasks):
            time.sleep(0.05)
        job.cancel("enough")

    status = played(3, 1000, then=cancel).status()
    assert (status.state, status.reason) == (JobState.CANCELLED, "enough")
    assert [task.exit_code for task in status.tasks] == [-15] * 3


def test_a_plot_of_costs_has_each_of_them_in_its_place():
    found = [drivers.Cost(tasks, tasks / 5120, 30 + tasks / 100) for tasks in (1, 256, 512)]
    drawn = ET.fromstring(drivers.plot(found))  # noqa: S314 - our own
    circles = [node for node in drawn.iter() if node.tag.endswith("circle")]
    core = [(float(one.get("cx")), float(one.get("cy"))) for one in circles[:3]]
    (left, low), (middle, half), (right, high) = core
    assert len(circles) == 6
    assert left < middle < right
    assert low - half == pytest.approx(half - high, abs=0.5)  # what is linear is drawn so
    assert found[-1].per_task == pytest.approx(60 / 5120)


class Followed:
    """A task as a `JobRun` follows it; only its looks are counted."""

    def __init__(self, until_over=0):
        self.started, self.over, self.looks, self._until = Moment.now(), False, 0, until_over

    def poll(self):
        self.looks += 1
        self.over = self.looks == self._until
        return []


def run_of(tasks, **more):
    """Return as much of a `JobRun` as says when it looks again."""
    told = {"_answered": True, "_course": Course(), "_request": SimpleNamespace(is_woken=False)}
    run = SimpleNamespace(_containers=tasks, _note=lambda *_: None, **{**told, **more})
    run._is_crowd = JobRun._is_crowd.fget(run)
    return run


def test_between_two_looks_at_many_tasks_the_first_is_looked_at():
    first, other = Followed(until_over=3), Followed()
    stop = SimpleNamespace(is_set=lambda: False, wait=lambda _: None)
    JobRun._rest(run_of([first, *[other] * 63]), stop, 600)
    assert (first.looks, other.looks) == (3, 0)  # it is over: that is seen to at once


def test_only_while_many_run_are_they_looked_at_seldom():
    many = [Followed() for _ in range(64)]
    assert run_of(many)._is_crowd
    assert not run_of(many[:4])._is_crowd
    assert not run_of(many, _answered=False)._is_crowd
    assert not run_of(many, _course=Course(cause="it is over"))._is_crowd
    assert not run_of(many, _request=SimpleNamespace(is_woken=True))._is_crowd
    many[7].over = True
    assert not run_of(many)._is_crowd
