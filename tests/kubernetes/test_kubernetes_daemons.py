"""Jobs on a Kubernetes whose daemons are killed and come back: each runs once, its log is whole."""

from __future__ import annotations

import time

import pytest
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.manifest import JOB
from submarine_engine.errors import ClusterError
from submarine_engine.job import JobState
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

pytestmark = pytest.mark.long

TICKS = """\
import os, time
number = 0
while not os.path.exists({gate!r}):
    print(number, flush=True)
    open({flag!r}, 'w').write(str(number))
    number += 1
    time.sleep(0.2)
print('ended')
number
"""
PATIENCE = 300.0


@pytest.fixture
def place(kubernetes, kubernetes_home, kubernetes_folder):
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    kubernetes.up()
    place.clean_up()


@pytest.mark.parametrize(
    "killed",
    [
        ["kubelet-n1"], ["containerd-n1"], ["kubelet-n1", "containerd-n1"], ["kube-apiserver"],
        ["etcd"], ["etcd", "kube-apiserver"], ["kube-controller-manager", "kube-scheduler"],
    ],
    ids="+".join,
)  # fmt: skip
@pytest.mark.parametrize("ends_meanwhile", [False, True], ids=["goes-on", "ends-meanwhile"])
def test_a_job_outlives_daemons(kubernetes, place, killed, ends_meanwhile):
    flag, gate = place.folder / "runs", place.folder / "gate"
    options = {"node_selector": "kubernetes.io/hostname=n1", "gpus": 1}
    job = place.submit(TICKS.format(flag=str(flag), gate=str(gate)), **options)
    place.until_running(job, flag)

    def ticks(more):
        wanted = int(flag.read_text() or 0) + more
        until(lambda: int(flag.read_text() or 0) >= wanted, PATIENCE)

    for name in killed:
        kubernetes.kill(name)
    ticks(10)  # it runs on, whoever is there to see it
    if ends_meanwhile:
        gate.touch()
    ticks(0)
    kubernetes.up()
    gate.touch()
    story = place.follow(job)
    assert story.state is JobState.SUCCEEDED
    assert {task.attempt for task in story.status.tasks} == {1}
    *numbers, last = story.out.splitlines()
    assert last == "ended"
    assert numbers == [str(number) for number in range(job.result(60))]
    until(lambda: place.holders() == {}, PATIENCE)


def test_an_api_server_that_is_gone_for_a_minute_costs_no_job_anything(kubernetes, place):
    files = {name: (place.folder / f"{name}-runs", place.folder / f"{name}-gate")
             for name in ("on", "ends", "waits")}  # fmt: skip

    def submit(name, gpus):
        flag, gate = map(str, files[name])
        return place.submit(TICKS.format(flag=flag, gate=gate), gpus=gpus)

    jobs = {name: submit(name, gpus) for name, gpus in (("on", 3), ("ends", 1))}
    for name, job in jobs.items():
        place.until_running(job, files[name][0])
    jobs["waits"] = submit("waits", 4)
    until(lambda: Kubernetes().pods(f"{JOB}={jobs['waits'].id}"), PATIENCE)
    kubernetes.kill("kube-apiserver")
    gone_at = time.monotonic()
    files["ends"][1].touch()
    away = "does not answer"
    until(lambda: away in jobs["waits"].status().waiting_reason, PATIENCE)
    with pytest.raises(ClusterError, match=away):
        place.submit("1")
    until(lambda: "it runs on" in jobs["on"].status().warning, PATIENCE)
    until(lambda: time.monotonic() > gone_at + 60, PATIENCE)
    assert not any(job.done() for job in jobs.values())
    kubernetes.up()
    until(lambda: jobs["on"].status().warning == "", PATIENCE)
    assert jobs["ends"].wait(PATIENCE).state is JobState.SUCCEEDED
    for name in ("on", "waits"):
        files[name][1].touch()
    for job in jobs.values():
        story = place.follow(job)
        assert story.state is JobState.SUCCEEDED, story.status.reason
        assert {task.attempt for task in story.status.tasks} == {1}
        *numbers, last = story.out.splitlines()
        assert (last, numbers) == ("ended", [str(n) for n in range(job.result(60))])
    until(lambda: place.holders() == {}, PATIENCE)


def test_a_job_is_submitted_while_the_scheduler_is_away(kubernetes, place):
    kubernetes.kill("kube-scheduler")
    job = place.submit("'here'", gpus=1)
    until(lambda: Kubernetes().pods(f"{JOB}={job.id}"), PATIENCE)
    kubernetes.up()
    assert job.result(PATIENCE) == "here"


def test_a_lost_node_is_another_attempt(kubernetes, place):
    flag, gate = place.folder / "runs", place.folder / "gate"
    options = {"node_selector": "kubernetes.io/hostname=n1", "gpus": 1, "retries": 1}
    job = place.submit(TICKS.format(flag=str(flag), gate=str(gate)), **options)
    place.until_running(job, flag)
    kubernetes.kill("node-n1")  # as by the loss of its power
    kubernetes.up()
    until(lambda: job.status().attempt == 2, PATIENCE)
    gate.touch()
    status = job.wait(PATIENCE)
    assert (status.state, status.attempt) == (JobState.SUCCEEDED, 2)
