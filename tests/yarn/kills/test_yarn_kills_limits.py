"""What an administrator does while jobs wait or run: a full or read-only HDFS, a stopped queue."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest
from submarine_engine.errors import SubmarineError
from submarine_engine.job import JobState

from tests.jobs import until

from .ground import PATIENCE

pytestmark = pytest.mark.long


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def undone(*command):
    """Undo by a command what was done."""
    try:
        yield
    finally:
        run(*command)


@contextmanager
def stopped(ground, queue):
    path = ground.yarn.conf / "capacity-scheduler.xml"
    before = path.read_text()
    name = f"<property><name>yarn.scheduler.capacity.root.{queue}.state</name>"

    def put(state):
        told = f"{name}<value>{state}</value></property>\n</configuration>"
        path.write_text(before.replace("</configuration>", told))
        run("yarn", "rmadmin", "-refreshQueues")

    try:
        put("STOPPED")
        yield
    finally:
        put("RUNNING")  # a queue of which nothing is said stays as it is
        path.write_text(before)


def refused(ground, **options):
    """Return what a job that YARN cannot take is told, at submission or as its end."""
    try:
        story = ground.submit(**options).follow()
    except SubmarineError as error:
        return str(error)
    assert story.state is JobState.FAILED
    assert "Granted" not in story.kinds
    return story.status.reason


def test_a_full_hdfs(ground):
    job = ground.submit().until_running().until_further()
    home = f"/user/{ground.yarn.cluster.plan.user}"
    run("hdfs", "dfsadmin", "-setSpaceQuota", "1", home)
    with undone("hdfs", "dfsadmin", "-clrSpaceQuota", home):
        assert "quota" in refused(ground, mode="cold").lower()
        job.until_further().follow_to_end()
    ground.until_free()


def test_a_read_only_hdfs(ground):
    job = ground.submit().until_running().until_further()
    run("hdfs", "dfsadmin", "-safemode", "enter")
    with undone("hdfs", "dfsadmin", "-safemode", "leave"):
        assert "safe mode" in refused(ground, mode="cold").lower()
        job.until_further().follow_to_end()
        (warning,) = until(lambda: ground.seam.warnings(job.id), PATIENCE)
    assert warning.startswith("the results are not kept on HDFS, only in ")
    assert "safe mode" in warning.lower()
    assert warning in ground.keeper_log
    assert warning in job.job.results().warnings
    shown = run(sys.executable, "-m", "submarine_engine.cli", "job", "show", job.id)
    assert f"warning:        {warning}" in shown
    ground.until_free()


def test_a_queue_that_is_stopped_while_jobs_wait(ground):
    """YARN drains it: whoever is in it gets what he waits for, and nobody else gets in."""
    first = ground.submit(gpus=3, queue="small").until_running().until_further()
    second = ground.submit(gpus=3, queue="small")
    until(lambda: "3/3" in second.job.status().waiting_reason, PATIENCE)
    with stopped(ground, "small"):
        told = refused(ground, gpus=3, queue="small")
        assert "takes no jobs" in told
        assert "DRAINING" in told
        first.until_further().follow_to_end()
        second.until_running().follow_to_end()
    ground.until_free()
