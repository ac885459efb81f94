"""Attempts on hosts: a host that is lost, and a queue between two attempts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.base import Cursor
from submarine_engine.clusters.store import clear_attempt, read_events
from submarine_engine.events import LogChunk, Retried
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobState, Resources, Role

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, follow, processes_of, spec_of, until

LOST = """
import os, time
from submarine_runtime import job
open({flag!r} + str(job.attempt) + os.environ["SUBMARINE_TASK"], "w").close()
while not os.path.exists({gate!r}): time.sleep(0.02)
job.attempt
"""


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Give the tests' backend, in a home of its own."""
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield open_cluster("hosts")
    end_processes_of(home)


def submit(cluster, folder, script, **options):
    return cluster.submit(spec_of(**options), bundle_of(script), workdir=folder)


def retried(cluster, job_id):
    told = read_events(JobPaths(cluster.home, job_id).events)[0]
    return [event for event, _ in told if isinstance(event, Retried)]


def lose_host(cluster, job_id, task):
    """End all that runs a task, as a host that is switched off: nothing has a last word."""
    named = (f"{job_id} {task}", f"{job_id}/{task}")  # to the launcher, and to the task itself
    living = processes_of(cluster.home).items()
    found = {pid: words for pid, words in living if any(one in words for one in named)}
    for pid in sorted(found, key=lambda pid: "__main__.py" in found[pid]):  # who watches, first
        with suppress(ProcessLookupError):  # it ended with the one before it
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_host_that_is_lost_does_not_count(tmp_path, hosts, tasks):
    flag, gate = str(tmp_path / "flag"), tmp_path / "gate"
    script = LOST.format(flag=flag, gate=str(gate))
    roles = (Role(count=tasks, resources=Resources(gpus=1)),)
    job_id = submit(hosts, tmp_path, script, roles=roles, retries=0)
    last = f"worker-{tasks - 1}"
    until(lambda: Path(f"{flag}1{last}").exists())
    lose_host(hosts, job_id, last)
    until(lambda: Path(f"{flag}2{last}").exists())
    gate.touch()
    until(lambda: hosts.status(job_id).state.final)
    status = hosts.status(job_id)
    assert (status.state, status.attempt, status.failures) == (JobState.SUCCEEDED, 2, 0)
    (again,) = retried(hosts, job_id)
    assert not again.counted
    assert tasks == 1 or again.reason.startswith("worker-1 on alpha failed: ")


def test_the_time_limit_counts_what_was_before_another_start_of_the_machine(tmp_path, hosts):
    flag = str(tmp_path / "flag")
    script = LOST.format(flag=flag, gate=str(tmp_path / "gate"))
    job_id = submit(hosts, tmp_path, script, gpus=1, time_limit=3600)
    until(lambda: hosts.status(job_id).started)
    keepers = [pid for pid, words in processes_of(hosts.home).items() if "clusters.keeper" in words]
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    paths = JobPaths(hosts.home, job_id)
    # The code began two hours ago; the monotonic clock is at five seconds more than it was then.
    lines = [json.loads(line) for line in paths.events.read_text().splitlines()]
    for line in lines:
        if line["event"] == "Started":
            line["at"] = [time.time() - 7200, time.monotonic() - 5]
    paths.events.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    record = json.loads(paths.record.read_text())
    paths.record.write_text(json.dumps({**record, "boot": "before"}))
    until(lambda: hosts.status(job_id).state.final)
    status = hosts.status(job_id)
    assert status.state is JobState.FAILED
    assert status.reason == "was over its time limit of 1 h (--time_limit)"


def test_without_retries_a_job_whose_host_is_lost_is_over(tmp_path, hosts):
    flag = str(tmp_path / "flag")
    script = LOST.format(flag=flag, gate=str(tmp_path / "gate"))
    job_id = submit(hosts, tmp_path, script, gpus=1)
    until(lambda: Path(f"{flag}1worker-0").exists())
    lose_host(hosts, job_id, "worker-0")
    until(lambda: hosts.status(job_id).state.final)
    assert hosts.status(job_id).state is JobState.FAILED
    assert not Path(f"{flag}2worker-0").exists()


def test_a_job_is_cancelled_between_two_attempts(tmp_path, hosts):
    """It gives its GPUs back, and stands behind a job that came meanwhile."""
    gate, fail = tmp_path / "gate", tmp_path / "fail"
    wait = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"
    script = wait.format(str(fail)) + "raise ValueError('once more')"
    first = submit(hosts, tmp_path, script, gpus=4, retries=5)
    until(lambda: hosts.status(first).state is JobState.RUNNING)
    second = submit(hosts, tmp_path, wait.format(str(gate)), gpus=4)
    until(lambda: hosts.status(second).ahead is not None)
    fail.touch()
    until(lambda: hosts.status(second).state is JobState.RUNNING)
    until(lambda: hosts.status(first).state is JobState.QUEUED)
    until(lambda: "4/4 GPUs in use" in hosts.status(first).waiting_reason)
    hosts.cancel(first, "enough")
    until(lambda: hosts.status(first).state.final)
    status = hosts.status(first)
    assert (status.state, status.reason, status.attempt) == (JobState.CANCELLED, "enough", 2)
    assert all(task.held is None for task in status.tasks)
    gate.touch()
    assert follow(hosts, second).state is JobState.SUCCEEDED


def test_what_an_attempt_has_left_is_removed_once_and_for_all(tmp_path):
    paths = JobPaths(tmp_path, new_job_id())
    files = paths.task("worker-0")
    files.results.mkdir(parents=True)
    (files.results / "return.pkl").touch()
    files.artifacts.mkdir()
    (files.artifacts / "model").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    files.outcome.symlink_to(elsewhere)
    files.progress.mkdir()
    paths.answer.touch()
    os.mkfifo(files.root / "answer-1")  # the next attempt's questions are numbered from 1 again
    files.stderr.write_text("half a line")
    for _ in range(2):
        clear_attempt(paths, ["worker-0", "ps-0"], "— attempt 2 of 2 begins: no —")
    assert elsewhere.exists()
    assert {path.name for path in files.root.iterdir()} == {"artifacts", "stderr"}
    assert not any(files.artifacts.iterdir())
    assert not paths.answer.exists()
    line = "— attempt 2 of 2 begins: no —\n"
    assert files.stderr.read_text() == f"half a line\n{line}"
    assert paths.task("ps-0").stderr.read_text() == line


READ_ONLY = """
import os, tempfile
from pathlib import Path
from submarine_engine.clusters.store import clear_attempt
from submarine_engine.history import JobPaths, new_job_id
if os.getuid() == 0: os.seteuid(65534)
with tempfile.TemporaryDirectory() as home:
    elsewhere = Path(home, "elsewhere")
    elsewhere.mkdir()
    paths = JobPaths(Path(home), new_job_id())
    artifacts = paths.task("worker-0").artifacts
    (artifacts / "deep").mkdir(parents=True)
    (artifacts / "deep" / "model").touch()
    (artifacts / "link").symlink_to(elsewhere)
    for folder in (artifacts / "deep", artifacts, elsewhere):
        folder.chmod(0o500)
    clear_attempt(paths, ["worker-0"], "again")
    print(os.listdir(artifacts), oct(elsewhere.stat().st_mode))
"""


def test_folders_that_an_attempt_has_made_read_only_are_removed():
    # In a process of its own: the superuser writes everywhere.
    command = [sys.executable, "-c", READ_ONLY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[] 0o40500\n", done.stderr


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_log_that_is_none_gets_no_line(tmp_path, what):
    paths = JobPaths(tmp_path, new_job_id())
    files = paths.task("worker-0")
    files.root.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    make = {
        "link": lambda: files.stderr.symlink_to(elsewhere),
        "pipe": lambda: os.mkfifo(files.stderr),
        "folder": files.stderr.mkdir,
    }
    make[what]()
    clear_attempt(paths, ["worker-0"], "— attempt 2 of 2 begins: no —")
    assert elsewhere.read_bytes() == b""


TEAM = """
import os, time
from submarine_runtime import job
print(job.rank, "of", job.world_size, "in", job.attempt, flush=True)
open({flag!r} + str(job.attempt) + os.environ["SUBMARINE_TASK"], "w").close()
while not os.path.exists({gate!r}): time.sleep(0.02)
job.world_size
"""


@pytest.mark.long  # a minute: so long a host may be silent
def test_an_elastic_job_goes_on_with_what_is_left(tmp_path, hosts):
    """Two of its hosts are lost, and what they had is another job's by the time that it asks."""
    flag, gate, through = str(tmp_path / "flag"), tmp_path / "gate", tmp_path / "through"
    roles = (Role(count=4, least=2, resources=Resources(gpus=1)),)
    job_id = submit(hosts, tmp_path, TEAM.format(flag=flag, gate=str(gate)), roles=roles)
    until(lambda: all(Path(f"{flag}1worker-{rank}").exists() for rank in range(4)))
    wait = f"import os, time\nwhile not os.path.exists({str(through)!r}): time.sleep(0.02)\n"
    other = submit(hosts, tmp_path, wait, gpus=2)
    until(lambda: hosts.status(other).ahead is not None)
    cursor = hosts.read(job_id, Cursor()).cursor  # somebody follows it
    for task in ("worker-2", "worker-3"):
        lose_host(hosts, job_id, task)
    until(lambda: Path(f"{flag}2worker-1").exists())
    status = hosts.status(job_id)
    assert [task.task for task in status.tasks] == ["worker-0", "worker-1"]
    assert status.gone == ("worker-2", "worker-3")
    until(lambda: hosts.status(other).state is JobState.RUNNING)
    for one in (gate, through):
        one.touch()
    job = Job(hosts, job_id)
    assert job.result(180) == 2
    (again,) = retried(hosts, job_id)
    assert not again.counted
    logs = {}
    while not (batch := hosts.read(job_id, cursor)).ended:
        cursor = batch.cursor
    batch = hosts.read(job_id, Cursor())
    for chunk in batch.items:
        if isinstance(chunk, LogChunk) and chunk.stream == "stdout":
            logs[chunk.task] = logs.get(chunk.task, b"") + chunk.data
    assert logs["worker-0"] == b"0 of 4 in 1\n0 of 2 in 2\n"
    assert logs["worker-3"] == b"3 of 4 in 1\n"  # what it wrote stays to be read


SLOW = """
import os, time
from submarine_runtime import checkpoints, job
state = {{"seen": []}}
for step in job.steps(6, state, every=0):
    while step == 3 and job.attempt == 1 and not os.path.exists({gate!r}):
        open({told!r} if checkpoints.notice.given else {there!r}, "w").close()
        time.sleep(0.02)
    state["seen"].append(step)
state["seen"], job.attempt, job.world_size
"""
"""Waits in its fourth step for the signal: what `job.notice` says is there a moment before that."""


def test_the_next_keeper_goes_on_with_what_was_begun_for_more_workers(tmp_path, hosts, monkeypatch):
    """A keeper is killed between asking a job to end and its end: that is no failure of the job."""
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "0")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")
    gate, told, there = (tmp_path / name for name in ("gate", "told", "there"))
    other = submit(hosts, tmp_path, "import time; time.sleep(600)", gpus=3)
    until(lambda: hosts.status(other).state is JobState.RUNNING)
    roles = (Role(count=2, least=1, resources=Resources(gpus=1)),)
    kept = (tmp_path / "kept").as_uri()
    script = SLOW.format(gate=str(gate), told=str(told), there=str(there))
    job_id = submit(hosts, tmp_path, script, roles=roles, checkpoint_path=kept)
    until(there.exists)  # asked before, it would end in a step before that one
    hosts.kill(other)
    until(lambda: hosts.status(job_id).growing and told.exists())
    for pid, words in processes_of(hosts.home).items():
        if "submarine_engine.clusters.keeper" in words:
            os.kill(pid, signal.SIGKILL)
    gate.touch()
    seen, attempt, size = Job(hosts, job_id).result(180)
    assert (seen, attempt, size) == (list(range(6)), 2, 2)
    status = hosts.status(job_id)
    assert (status.grown, status.failures) == (1, 0)
    assert not any(one.counted for one in retried(hosts, job_id))
