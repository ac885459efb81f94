"""What YARN or somebody ends of a job with ``--retries``: what is begun again, and what counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.store import read_events
from submarine_engine.events import Retried
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobState

from tests.clusters.walking import submit
from tests.jobs import end_processes_of, follow, until

from .ground import PATIENCE, kill

pytestmark = pytest.mark.long

AGAIN = """
import os, time
from submarine_runtime import job
print("attempt", job.attempt, flush=True)
with open({flag!r} + str(job.attempt), "w") as file: file.write(str(os.getpid()))
while not os.path.exists({gate!r}): time.sleep(0.05)
job.attempt
"""
OUT = "attempt 1\nattempt 2\n"


def is_alive(pid):
    return Path(f"/proc/{pid}/exe").exists()


def until_attempt(job, number):
    """Wait until the code of an attempt runs; return its process."""
    flag = job.flag.with_name(f"flag{number}")

    def told():
        job.job.status()  # as any reader, who sees to it that a keeper lives
        return flag.exists() and flag.read_text()

    return int(until(told, PATIENCE))


def ends(ground, job, *, counted):
    """Let the second attempt end; see what the job was told of the first."""
    until_attempt(job, 2)
    job.gate.touch()
    story = job.follow()
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert (story.status.attempt, story.status.failures) == (2, counted)
    assert story.out == OUT
    (again,) = [event for event in story.events if isinstance(event, Retried)]
    assert again.counted is counted
    assert f"— attempt 2 of 2 begins: {again.reason} —\n" in story.logs["stderr"].decode()
    ground.until_free()
    return story


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_the_application_master(ground, mode):
    job = ground.submit(AGAIN, mode=mode, retries=0)
    until_attempt(job, 1)
    kill(ground.master_of(until(lambda: job.noted.get("app_id"), PATIENCE)))
    ends(ground, job, counted=False)


def test_the_task(ground):
    job = ground.submit(AGAIN, retries=1)
    kill(until_attempt(job, 1))
    ends(ground, job, counted=True)


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_what_is_killed_on_yarns_page_is_over(ground, mode):
    job = ground.submit(AGAIN, mode=mode, retries=5)
    until_attempt(job, 1)
    ground.rm.kill(until(lambda: job.noted.get("app_id"), PATIENCE))
    story = job.follow()
    assert story.state is JobState.CANCELLED
    assert story.status.attempt == 1
    assert story.out == "attempt 1\n"
    ground.until_free()


def test_a_node_that_is_lost(ground):
    job = ground.submit(AGAIN, retries=0)
    process = until_attempt(job, 1)
    job.until_shown("attempt 1\n")  # nobody reads the log of a node that is gone
    node = job.node
    node.kill()
    try:
        until(lambda: job.job.status().attempt == 2, PATIENCE)
        until_attempt(job, 2)
        kill(process)  # it is only its NodeManager that is gone
        ends(ground, job, counted=False)
    finally:
        node.start()
        ground.yarn.wait_ready()


GANG = """
import os, time
from submarine_runtime import job
with open(f"{flag}{{job.attempt}}.{{job.rank}}", "w") as file: file.write(str(os.getpid()))
while not os.path.exists({gate!r}): time.sleep(0.05)
job.attempt
"""


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_a_node_that_is_lost_with_the_master_on_it(ground, mode):
    """Both are lost at once: the application's end is the node's, and costs no attempt."""

    def begun(attempt):
        flags = [job.flag.with_name(f"flag{attempt}.{rank}") for rank in range(2)]
        job.job.status()
        return all(flag.exists() and flag.read_text() for flag in flags) and flags

    job = ground.submit(GANG, count=2, gpus=3, mode=mode, retries=0)
    flags = until(lambda: begun(1), PATIENCE)
    noted = job.noted
    node = ground.node_at(ground.rm.application(noted["app_id"])["amHostHttpAddress"])
    master = ground.master_of(noted["app_id"])
    node.kill()
    try:
        kill(master)
        for rank, flag in enumerate(flags):
            if ground.node_at(noted["containers"][f"worker-{rank}"][1]).name == node.name:
                kill(int(flag.read_text()))
        until(lambda: begun(2), PATIENCE)
        job.gate.touch()
        status = job.job.wait(PATIENCE)
        assert status.state is JobState.SUCCEEDED, status.reason
        assert (status.attempt, status.failures) == (2, 0)
        # What ran on the other nodes is over, too.
        until(lambda: not any(is_alive(int(flag.read_text())) for flag in flags), PATIENCE)
    finally:
        node.start()
        ground.yarn.wait_ready()
    ground.until_free()


def test_the_keeper_between_two_attempts(ground):
    job = ground.submit(AGAIN, retries=1)
    process = until_attempt(job, 1)
    kill(ground.keeper)
    kill(process)
    ends(ground, job, counted=True)


TWICE = """
import os
from submarine_runtime import job
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, f"attempt {{job.attempt}}\\n".encode())
if job.attempt == 1:
    raise SystemExit("no luck")
"""


@pytest.mark.usefixtures("on_yarn")
@pytest.mark.parametrize("mode", ["warm", "cold"])
@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"os\.rename \.outcome\.json"),  # the first attempt is over, and not home
        (3, r"os\.rename \.status\.json"),  # the second is noted, and nothing is done
        (4, r"os\.rename \.yarn\.json"),  # it is asked for, and that is not noted
        (5, r"os\.rename \.yarn\.json"),
        (2, r"os\.rename \.outcome\.json"),
    ],
)
def test_a_job_is_begun_again_once(tmp_path, mode, number, where):
    home = tmp_path / "home"
    code = TWICE.format(side=str(tmp_path / "side"))
    options = {"mode": mode, "gpus": 1, "memory": 256, "retries": 3}
    try:
        job_id = submit(tmp_path, "yarn", "keeper", number, where=where, code=code, **options)
        story = follow(open_cluster("yarn"), job_id, patience=PATIENCE)
        assert (tmp_path / "killed").exists()
        assert story.state is JobState.SUCCEEDED, story.status.reason
        assert (tmp_path / "side").read_text() == "attempt 1\nattempt 2\n"
        told = [event for event, _ in read_events(JobPaths(home, job_id).events)[0]]
        assert sum(isinstance(event, Retried) for event in told) == 1
        noted = read_json(JobPaths(home, job_id).root / "yarn.json")
        assert (noted["attempt"], noted["asking"]) == (2, {})
        assert len(noted["given_back"]) == 1
    finally:
        end_processes_of(home, 60)
