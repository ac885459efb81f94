"""Ending a job: asked first, then made to, and its GPUs free in any case."""

from __future__ import annotations

import os
import signal

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobState

from tests.jobs import until

POLITE = """
import time
try:
    open({flag!r}, "w")
    while True: time.sleep(0.1)
finally:
    print("put in order", flush=True)
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
    job_id = start(POLITE, cluster=LocalCluster(local.home, grace=3600))
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
