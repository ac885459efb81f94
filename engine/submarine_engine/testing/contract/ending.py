"""Ending a job: asked first, then made to, and its GPUs free in any case."""

from __future__ import annotations

import secrets
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from submarine_engine.job import JobState
from submarine_engine.testing.jobs import until

# They sleep in pieces: Python hears a signal that comes just before a system call after it alone.
POLITE = """
import time
try:
    try:
        open({flag!r}, "w")
        while True: time.sleep(0.1)
    except KeyboardInterrupt:
        print("asked to end", flush=True)
        raise
finally:
    print("put in order", flush=True)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({flag!r}, "w")
while True: time.sleep(600)
"""

CHILDREN = """
import os, subprocess, time
def child(*words, **options):
    subprocess.Popen(words, close_fds=False, **options)
child("sleep", "{nap}")
child("sleep", "{nap}", start_new_session=True)
child("sh", "-c", "trap '' TERM HUP; sleep {nap} & wait")
while not os.path.exists({gate!r}): time.sleep(0.02)
"""


HANDLING = """
import time
try:
    open({flag!r}, "w")
    while True: time.sleep(0.1)
except KeyboardInterrupt:
    time.sleep(1)  # of its grace; YARN by itself has a quarter of a second between its signals
    print("stopped early", flush=True)
"""


@pytest.fixture
def start(cluster):
    """Start a job on a GPU, and come back when its code runs."""

    def submit(script, **options):
        flag = cluster.folder / "flag"
        job = cluster.submit(script.format(flag=str(flag)), gpus=1, **options)
        cluster.until_running(job, flag)
        return job

    return submit


def naps_of(nap):
    """Return how many processes of this machine sleep for so long: a pod has pids of its own."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended since; a zombie has no words
            found += nap in (process / "cmdline").read_text(errors="replace")
    return found


def test_a_cancelled_job_can_put_itself_in_order(cluster, start):
    job = start(POLITE)
    assert job.running()
    assert job.cancel("enough")
    story = cluster.follow(job)
    assert story.state is JobState.CANCELLED
    assert story.status.reason == "enough"
    assert story.out == "asked to end\nput in order\n"
    assert story.status.tasks[0].state.value == "killed"
    assert "CancelRequested" in story.kinds
    assert story.kinds[-1] == "Finished"
    assert cluster.holders() == {}


def test_one_that_handles_the_interrupt_has_succeeded(cluster, start):
    for options in cluster.variants:
        (cluster.folder / "flag").unlink(missing_ok=True)
        job = start(HANDLING, **options)
        job.cancel("enough")
        story = cluster.follow(job)
        assert (story.state, story.status.reason) == (JobState.SUCCEEDED, "")
        assert story.out == "stopped early\n"


def test_one_that_does_not_listen_is_killed_after_its_grace(cluster, start, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "0.2")
    job = start(STUBBORN)
    job.cancel()
    story = cluster.follow(job)
    assert story.state is JobState.CANCELLED
    assert story.status.tasks[0].exit_code == -signal.SIGKILL
    assert cluster.holders() == {}


STEPS = """
import time
from submarine_runtime import job
for step in job.steps(1000, {{"n": 0}}, every=1000.0):
    open({flag!r}, "w")
    time.sleep(LATER if step else 4)
"""


@pytest.mark.parametrize("grace", [None, 0.2])
def test_who_takes_long_steps_has_longer_unless_told(cluster, start, monkeypatch, grace):
    monkeypatch.setenv("SUBMARINE_GRACE", "0.2")
    kept = cluster.folder / "kept"
    # The step of who has no longer is over far later than a busy machine takes to end it.
    script = STEPS.replace("LATER", "2" if grace is None else "600")
    job = start(script, checkpoint_path=kept.as_uri(), grace=grace)
    until(lambda: job.status().progress)  # how long a step takes comes with that
    job.cancel("enough")
    assert job.wait(180).state is JobState.CANCELLED
    assert bool(list(kept.glob("step-*"))) == (grace is None)


def test_kill_does_not_wait_for_the_grace(cluster, start, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "3600")
    job = start(STUBBORN)
    job.kill()
    assert job.wait(180).state is JobState.CANCELLED


def test_a_second_word_makes_the_first_one_urgent(cluster, start, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "3600")
    job = start(STUBBORN)
    job.cancel("please")
    until(lambda: job.status().cancelling)
    job.kill()
    story = cluster.follow(job)
    assert (story.state, story.status.reason) == (JobState.CANCELLED, "please")
    assert story.kinds.count("CancelRequested") == 1


def test_a_cancel_from_another_process_is_heard(cluster, start):
    job = start(POLITE)
    cluster.in_another_process(
        "import sys; from submarine_engine import open_job; open_job(sys.argv[1]).cancel('other')",
        job.id,
    )
    assert job.wait(180).state is JobState.CANCELLED
    assert job.status().reason == "other"


def test_a_job_that_had_returned_before_is_a_success(cluster):
    job = cluster.submit("7")
    assert job.result(180) == 7
    cluster.seam.cancel(job.id)
    cluster.seam.kill(job.id)
    assert job.status().state is JobState.SUCCEEDED
    assert not cluster.paths(job).cancel.exists()


def test_children_that_outlive_the_job_are_ended_with_it(cluster):
    nap, gate = f"600.{secrets.randbelow(10**9):09}", cluster.folder / "gate"
    job = cluster.submit(CHILDREN.format(nap=nap, gate=str(gate)), gpus=1)
    until(lambda: naps_of(nap) == 4)  # a shell and its own child
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED
    until(lambda: not naps_of(nap))
    assert cluster.holders() == {}


ASKED = """
import time
from submarine_runtime import job
assert job.notice is None
try:
    print("there", flush=True)
    while True: time.sleep(0.1)
except KeyboardInterrupt:
    while not job.notice.reason:  # where it comes by another way than the signal
        time.sleep(0.1)
    print(job.notice.reason, job.notice.seconds > 0)
"""


def test_the_code_can_read_why_it_is_asked_to_end(cluster):
    job = cluster.submit(ASKED)
    told = cluster.paths(job).task("worker-0").stdout
    until(lambda: told.exists() and told.read_text().endswith("\n"), 180)
    job.cancel("another ü needs it")
    story = cluster.follow(job)
    assert story.state is JobState.SUCCEEDED  # it has handled that
    assert story.out == "there\nanother ü needs it True\n"
