"""Where the tasks of a running job stand: asked for while it runs, told at cell and line."""

from __future__ import annotations

import threading

import pytest

from submarine_engine.errors import CommandError, JobError
from submarine_engine.job import JobState
from submarine_engine.testing.contract.several import begin
from submarine_engine.testing.jobs import until

STUCK = """
import ctypes, os, threading
print("stuck", flush=True)
sleep = ctypes.PyDLL(None).usleep  # in native code, with Python's lock in its hand
while not os.path.exists({gate!r}):
    stay(sleep)
"all steps"
"""


def spoken(cluster, job, *tasks):
    """Wait until tasks have printed, which they do right before they stand where they stay."""
    logs = [cluster.paths(job).task(task).stdout for task in tasks]
    until(lambda: all(log.exists() and log.stat().st_size for log in logs), 180)
    cluster.until_running(job)


def test_a_task_in_native_code_says_where_it_is_and_goes_on(cluster):
    gate = cluster.folder / "gate"
    cells = ["def stay(sleep):\n    ü = 500_000\n    sleep(ü)", STUCK.format(gate=str(gate))]
    job = cluster.submit(cells)
    spoken(cluster, job, "worker-0")
    place = "In [1], line 3, in stay(): sleep(ü)"
    for _ in range(2):
        stacks = until(lambda: (found := job.stacks()).tasks[0].place == place and found, 180)
        (task,) = stacks.tasks
        assert task.task == "worker-0"
        frames = [(frame.cell, frame.line, frame.function) for frame in task.threads[0].own]
        assert frames == [("In [2]", 6, "<module>"), ("In [1]", 3, "stay")]
        assert task.place == "In [1], line 3, in stay(): sleep(ü)"
        assert next(stacks.lines()) == f"worker-0: {task.place}"
        assert [str(step) for step in task.threads[0].steps] == [
            "In [2], line 6: stay(sleep)", task.place,
        ]  # fmt: skip
    with pytest.raises(CommandError, match="no task 'worker-7' of the job runs"):
        list(stacks.lines("worker-7"))
    gate.touch()
    story = cluster.follow(job)
    assert (story.state, job.result()) == (JobState.SUCCEEDED, "all steps")
    assert (story.out, story.logs["stderr"]) == ("stuck\n", b"")
    with pytest.raises(JobError, match=r"is over \(succeeded\): it has no stacks any more"):
        job.stacks()


def test_threads_are_told_and_two_may_ask_at_a_time(cluster):
    gate = cluster.folder / "gate"
    script = f"""
import os, threading, time
def beside():
    until({str(gate)!r})
def until(path):
    while not os.path.exists(path):
        time.sleep(0.05)
thread = threading.Thread(target=beside)
thread.start()
print("there", flush=True)
thread.join()
"""
    job = cluster.submit([script])
    spoken(cluster, job, "worker-0")

    def stand():
        found = job.stacks().tasks[0].threads
        return (
            len(found) == 2
            and found[0].place.startswith("In [1], line 11 → ")
            and [frame.function for frame in found[1].own][:2] == ["beside", "until"]
        )

    until(stand, 180)
    came = []
    askers = [threading.Thread(target=lambda: came.append(job.stacks())) for _ in range(2)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(180)
    assert len(came) == 2
    for stacks in came:
        main, beside = stacks.tasks[0].threads
        assert main.place.startswith("In [1], line 11 → ")
        assert [frame.function for frame in beside.own][:2] == ["beside", "until"]
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


ODD = """
import os, signal, subprocess, threading, time
from submarine_runtime import job

def load():
    while True:
        time.sleep(0.01)

def train():
    threading.Event().wait()

if job.rank == 2:  # said by another process, once this one is stopped
    wait = f"until grep -q '^State:.T' /proc/{os.getpid()}/status; do sleep 0.1; done"
    subprocess.Popen(["sh", "-c", f"{wait}; echo there"])
    os.kill(os.getpid(), signal.SIGSTOP)
print("there", flush=True)
if job.rank == 1:
    load()
train()
"""


def test_the_odd_one_of_several_comes_first(cluster):
    job = begin(cluster, [ODD], worker=3, ps=1)  # four: of two nodes, two processors each
    if job is None:
        return
    spoken(cluster, job, *(f"worker-{rank}" for rank in range(3)), "ps-0")

    def stand():  # each has said so right before it goes where it stays
        found = job.stacks()
        places = [one.place for one in found.tasks]
        there = len(places) == 4 and places[1].endswith("in load(): time.sleep(0.01)")
        return there and all(places[n].endswith("in train() → wait") for n in (0, 3)) and found

    stacks = until(stand, 180)
    assert [one.task for one in stacks.tasks] == [*(f"worker-{n}" for n in range(3)), "ps-0"]
    silent, odd, others = stacks.groups
    host = job.status().task("worker-2").host
    assert host
    assert str(silent) == f"rank 2: no answer from {host}: stopped, not begun, or no Python"
    assert str(odd) == "rank 1: In [1], line 7, in load(): time.sleep(0.01)"
    assert str(others) == "rank 0, ps-0: In [1], line 10, in train() → wait"
    lines = list(stacks.lines())
    assert lines[:2] == [str(silent), str(odd)]
    assert [line for line in lines if not line.startswith(" ")] == list(map(str, stacks.groups))
    job.kill()
    assert job.wait(180).state is JobState.CANCELLED


def test_a_job_that_waits_has_no_stacks_yet(cluster):
    first, gate = cluster.hold(cluster.total())
    cluster.until_running(first)
    job = cluster.submit("1", gpus=1)
    until(lambda: job.status().state is JobState.QUEUED, 180)
    with pytest.raises(JobError, match="does not run yet"):
        job.stacks()
    job.cancel()
    gate.touch()
    assert job.wait(180).state is JobState.CANCELLED
