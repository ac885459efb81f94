"""Ending a job: asked first, then made to, and its GPUs free in any case."""

from __future__ import annotations

import os
import signal

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import JobNotFoundError
from submarine_engine.job import JobState

from .conftest import until

POLITE = """
import time
try:
    open({flag!r}, "w"); time.sleep(600)
finally:
    print("put in order", flush=True)
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({flag!r}, "w")
while True: time.sleep(600)
"""


@pytest.fixture
def start(local, declare_gpus, tmp_path):
    declare_gpus(1)

    def submit(script, **options):
        flag = tmp_path / "flag"
        job_id = local.submit(script.format(flag=str(flag)), gpus=1, **options)
        until(flag.exists)
        return job_id

    return submit


def test_a_cancelled_job_can_put_itself_in_order(local, start):
    job_id = start(POLITE)
    local.cluster.cancel(job_id, "enough")
    story = local.follow(job_id)
    assert story.state is JobState.CANCELLED
    assert story.status.reason == "enough"
    assert "put in order" in story.out
    assert story.kinds[-5:-3] in (["Started", "CancelRequested"], ["CancelRequested", "Returned"])
    assert local.cluster.gpus()[0].job_id is None


def test_one_that_does_not_listen_is_killed_after_its_grace(local, start):
    job_id = start(STUBBORN, cluster=LocalCluster(local.home, grace=0.2))
    local.cluster.cancel(job_id)
    story = local.follow(job_id)
    assert story.state is JobState.CANCELLED
    assert story.status.tasks[0].exit_code == -signal.SIGKILL
    assert story.status.tasks[0].state.value == "killed"


def test_kill_does_not_wait_for_the_grace(local, start):
    job_id = start(STUBBORN, cluster=LocalCluster(local.home, grace=3600))
    local.cluster.kill(job_id)
    assert local.follow(job_id).state is JobState.CANCELLED


def test_a_second_word_makes_the_first_one_urgent(local, start):
    job_id = start(STUBBORN, cluster=LocalCluster(local.home, grace=3600))
    local.cluster.cancel(job_id, "please")
    until(lambda: local.cluster.status(job_id).cancelling)
    local.cluster.kill(job_id)
    story = local.follow(job_id)
    assert story.status.reason == "please"
    assert story.kinds.count("CancelRequested") == 1


def test_a_stopped_job_is_ended_too(local, start):
    job_id = start(POLITE)
    os.killpg(local.session(job_id), signal.SIGSTOP)
    local.cluster.cancel(job_id)
    assert local.follow(job_id).state is JobState.CANCELLED


def test_it_is_heard_without_the_bell(local, start):
    """Where no named pipe can be made, the supervisor looks at its next turn."""
    job_id = start(POLITE)
    bell = local.paths(job_id).root / "bell"
    until(bell.exists)
    bell.unlink()
    local.cluster.cancel(job_id)
    assert local.follow(job_id).state is JobState.CANCELLED


@pytest.mark.parametrize("content", ["", "{", "[]", '{"reason": {}, "kill": "yes"}', "\0\xff"])
def test_any_cancel_file_means_cancel(local, start, content):
    job_id = start(POLITE)
    local.paths(job_id).cancel.write_bytes(content.encode("latin-1"))
    assert local.follow(job_id).state is JobState.CANCELLED


def test_the_supervisor_hands_a_signal_on(local, start):
    job_id = start(POLITE)
    os.kill(local.supervisor(job_id), signal.SIGTERM)
    story = local.follow(job_id)
    assert story.state is JobState.CANCELLED
    assert "supervisor was told to end" in story.status.reason
    assert "put in order" in story.out


def test_signals_that_the_notebook_has_blocked_reach_the_job(local, start):
    ending = {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        job_id = start(POLITE, cluster=LocalCluster(local.home, grace=3600))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    local.cluster.cancel(job_id)
    story = local.follow(job_id)
    assert story.state is JobState.CANCELLED
    assert "put in order" in story.out


def test_a_job_that_had_returned_before_is_a_success(local):
    job_id = local.submit("1")
    local.follow(job_id)
    local.cluster.cancel(job_id)
    local.cluster.kill(job_id)
    assert local.state(job_id) is JobState.SUCCEEDED
    assert not local.paths(job_id).cancel.exists()


@pytest.mark.parametrize("job_id", ["20260101-000000-aaaaa", "nonsense", "../../etc", ""])
def test_a_job_that_is_not_there(local, job_id):
    from submarine_engine.clusters.base import Cursor

    for ask in (
        local.cluster.cancel,
        local.cluster.kill,
        local.cluster.status,
        local.cluster.results,
        lambda job: local.cluster.read(job, Cursor()),
    ):
        with pytest.raises(JobNotFoundError):
            ask(job_id)
