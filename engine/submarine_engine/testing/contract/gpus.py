"""GPUs: exactly those granted, all or none, first come first served, and free at the job's end."""

from __future__ import annotations

import re

from submarine_engine.events import Granted, Waiting
from submarine_engine.job import JobState
from submarine_engine.testing.jobs import until

VISIBLE = "import os\nos.environ['CUDA_VISIBLE_DEVICES']\n"


def granted(story):
    return [gpu for event in story.events if isinstance(event, Granted) for gpu in event.gpus]


def test_the_job_sees_exactly_the_gpus_granted(cluster, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
    job = cluster.submit(VISIBLE, gpus=2)
    seen = job.result(180).split(",")
    assert len(set(seen)) == 2
    assert list(job.status().tasks[0].gpus) == seen
    assert len(granted(cluster.follow(job))) == 2
    assert cluster.submit(VISIBLE, gpus=0).result(180) == ""


def test_left_open_a_job_has_one_gpu(cluster):
    job = cluster.submit(VISIBLE, gpus=None)
    assert len(job.result(180).split(",")) == 1
    assert len(job.status().tasks[0].gpus) == 1


def test_the_account_adds_up_while_jobs_come_and_go(cluster):
    total = cluster.total()
    assert total == 4
    assert cluster.holders() == {}
    assert len({(gpu.host, gpu.id) for gpu in cluster.seam.gpus()}) == total
    one, gate_one = cluster.hold(gpus=1)
    two, gate_two = cluster.hold(gpus=2)
    for job in (one, two):
        cluster.until_running(job)
    assert cluster.holders() == {one.id: 1, two.id: 2}
    assert cluster.total() == total
    tasks = [job.status().tasks[0] for job in (one, two)]
    assert len({(task.host, gpu) for task in tasks for gpu in task.gpus}) == 3  # none is two jobs'
    gate_one.touch()
    one.wait(180)
    assert cluster.holders() == {two.id: 2}
    gate_two.touch()
    two.wait(180)
    assert cluster.holders() == {}


def test_who_comes_first_is_served_first(cluster):
    first, gate = cluster.hold(gpus=cluster.total())
    cluster.until_running(first)
    order = cluster.folder / "order"
    script = f"open({str(order)!r}, 'a').write('{{}} ')"
    every = cluster.with_gpus(cluster.total())
    jobs = [cluster.submit(script.format(n), **every) for n in range(3)]
    assert all(job.status().state is JobState.QUEUED for job in jobs)
    gate.touch()
    for job in jobs:
        assert job.wait(180).state is JobState.SUCCEEDED
    began = order.read_text().split()  # each of a job's tasks has written it
    assert began == sorted(began)
    assert set(began) == {"0", "1", "2"}


def test_a_waiting_job_says_what_it_waits_for(cluster):
    total = cluster.total()
    first, gate = cluster.hold(gpus=total)
    cluster.until_running(first)
    job = cluster.submit("1", gpus=1)
    told = rf"\b{total}( of |/){total} GPUs in use"
    until(lambda: re.search(told, job.status().waiting_reason))
    gate.touch()
    story = cluster.follow(job)
    assert any(isinstance(event, Waiting) for event in story.events)
    assert (story.state, story.status.waiting_reason) == (JobState.SUCCEEDED, "")


def test_all_of_a_jobs_gpus_or_none(cluster):
    total = cluster.total()
    first, gate = cluster.hold(gpus=1)
    cluster.until_running(first)
    every = cluster.submit("1", **cluster.with_gpus(total))
    until(lambda: every.status().waiting_reason)
    assert every.status().state is JobState.QUEUED
    assert cluster.holders().get(every.id) is None
    gate.touch()
    assert every.wait(180).state is JobState.SUCCEEDED


def test_a_queued_job_is_cancelled_without_ever_holding_a_gpu(cluster):
    first, gate = cluster.hold(gpus=cluster.total())
    cluster.until_running(first)
    waits, after = (cluster.submit("1", gpus=1) for _ in range(2))
    waits.cancel("not needed")
    story = cluster.follow(waits)
    assert (story.state, story.status.reason) == (JobState.CANCELLED, "not needed")
    assert story.status.tasks[0].held is None
    gate.touch()
    assert after.wait(180).state is JobState.SUCCEEDED
