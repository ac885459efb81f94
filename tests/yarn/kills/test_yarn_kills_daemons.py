"""Hadoop's daemons killed with -9 while jobs run: nodes, ResourceManager, DataNode."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.job import JobState

from tests.jobs import until

from .ground import FULL, PATIENCE, lines

pytestmark = pytest.mark.long


@contextmanager
def without_recovery(folder, of):
    """Let the next start of daemons of a kind know nothing of what ran.

    Parameters
    ----------
    folder
        The folder of their configuration.
    of
        ``nodemanager`` or ``resourcemanager``.
    """
    path = folder / "yarn-site.xml"
    before = path.read_text()
    key = rf"(<name>yarn\.{of}\.recovery\.enabled</name>\s*<value>)true"
    changed, count = re.subn(key, r"\1false", before)
    assert count == 1
    path.write_text(changed)
    try:
        yield
    finally:
        path.write_text(before)


def test_a_node_that_comes_back(ground):
    """With work-preserving restart: the container goes on, and so does its log."""
    job = ground.submit().until_running().until_further()
    node = job.node
    node.kill()
    node.start()
    ground.yarn.wait_ready()
    job.until_further().follow_to_end()
    ground.until_free()


def test_a_node_that_is_lost(ground):
    job = ground.submit(FULL).until_running().until_shown(lines(1000))
    node = job.node
    node.kill()
    story = job.follow()
    assert story.state in (JobState.FAILED, JobState.LOST)
    assert "node" in story.status.reason.lower()
    assert story.out == lines(1000)
    ground.until_free()
    # The two others run what comes next.
    ground.submit().until_running().follow_to_end()
    node.start()
    ground.yarn.wait_ready()
    until(lambda: not Path(f"/proc/{job.pid}").exists(), PATIENCE)


def test_the_resource_manager(ground):
    job = ground.submit().until_running().until_further()
    manager = ground.yarn.daemon("resourcemanager")
    manager.kill()
    job.until_further()
    manager.start()
    ground.yarn.wait_ready()
    job.until_further().follow_to_end()
    ground.until_free()
    ground.submit().until_running().follow_to_end()


def test_a_job_that_ends_while_the_resource_manager_is_away(ground):
    job = ground.submit().until_running().until_further()
    manager = ground.yarn.daemon("resourcemanager")
    manager.kill()
    job.gate.touch()
    job.until_shown("\nend ")
    manager.start()
    ground.yarn.wait_ready()
    job.follow_to_end()
    ground.until_free()


def report_of(rm, app_id):
    """Return what is told of an application, or None while nothing is known of any."""
    with suppress(ClusterError):
        return rm.application(app_id)
    return None


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_a_resource_manager_that_has_forgotten_all(ground, mode):
    """Without recovery it begins anew, and what ran is over for YARN: the job begins again."""
    job = ground.submit(mode=mode, retries=0).until_running().until_further()
    before = job.noted["app_id"]
    manager = ground.yarn.daemon("resourcemanager")
    with without_recovery(ground.yarn.cluster.layout.conf, "resourcemanager"):
        manager.kill()
        manager.start()
        ground.yarn.wait_ready()
        # Nodes come to it a moment before it is active and knows what it does not know.
        told = until(lambda: report_of(ground.rm, before), PATIENCE)
        assert (told["state"], "does not know it" in told["diagnostics"]) == ("FAILED", True)
        until(lambda: job.job.status().attempt == 2, PATIENCE)
        job.until_running()
        job.gate.touch()
        story = job.follow()
    assert (story.state, story.status.failures) == (JobState.SUCCEEDED, 0)
    assert job.noted["app_id"] != before
    ground.until_free()
    ground.submit(mode=mode).until_running().follow_to_end()
    manager.kill()  # the next one recovers again
    manager.start()
    ground.yarn.wait_ready()


def test_the_data_node(ground):
    job = ground.submit().until_running().until_further()
    data = ground.yarn.daemon("datanode")
    data.kill()
    job.until_further().follow_to_end()
    # What is new cannot be brought there: that is said.
    story = ground.submit(mode="cold").follow()
    assert story.state is JobState.FAILED
    assert "could only be written to 0 of the 1 minReplication nodes" in story.status.reason
    data.start()
    ground.yarn.wait_ready()
    ground.until_free()


def test_a_node_that_comes_back_without_its_containers(ground):
    """Without work-preserving restart a node begins anew, and so what ran on it is over for YARN.

    The process itself YARN leaves alone then: its node no longer knows of it.
    """
    job = ground.submit(FULL).until_running().until_shown(lines(1000))
    node = job.node
    number = int(node.name.rpartition("-")[2])
    with without_recovery(ground.yarn.cluster.layout.node_conf(number), "nodemanager"):
        node.kill()
        node.start()
        story = job.follow()
        ground.yarn.wait_ready()  # by now it has read its settings
    assert story.state in (JobState.FAILED, JobState.LOST)
    assert "node" in story.status.reason.lower()
    assert story.out == lines(1000)
    ground.until_free()
    job.gate.touch()
    until(lambda: not Path(f"/proc/{job.pid}").exists(), PATIENCE)
    ground.submit().until_running().follow_to_end()
