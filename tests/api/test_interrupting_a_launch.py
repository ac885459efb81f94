"""Interrupts of a program that follows its job."""

import os
import signal

import pytest
from submarine_engine.api import Console, cancelling_on_interrupt
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.job import JobState

from tests.jobs import bundle_of, spec_of


def interrupt_twice():
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_cancels_the_job_before_the_first_was_taken_up(tmp_path):
    cluster = LocalCluster()
    bundle = bundle_of("import time; time.sleep(600)")
    job = Job(cluster, cluster.submit(spec_of(), bundle, workdir=tmp_path))
    try:
        with pytest.raises(KeyboardInterrupt), cancelling_on_interrupt(job, Console()):
            interrupt_twice()
        assert job.wait(180).state is JobState.CANCELLED
    finally:
        job.kill()
