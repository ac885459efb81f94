"""Whoever is killed, and whatever breaks: Slurm is asked once, and the job's code runs once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from submarine_engine.clusters.slurm.client import PATIENCE as PATIENCE_OF_OURS
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.events import Retried
from submarine_engine.history import job_ids
from submarine_engine.job import JobState
from submarine_engine.testing.jobs import end_processes_of, processes_of, until

from tests.clusters.walking import recovered, submit, walk_all
from tests.local.test_local_full_disk import fill

from .conftest import PATIENCE, SlurmPlace, names_of, scontrol

STEADY = """
import os, time
open({flag!r}, "a").write("ran ")
number = 0
while not os.path.exists({gate!r}):
    print("line", number, flush=True)
    number += 1
    time.sleep(0.01)
number
"""
"""A job that writes numbered lines until a file is there."""


class Steady:
    """A job that tells whether its code ran once, and whether a byte of its log is lost."""

    def __init__(self, place, **options):
        number = len(place.jobs)
        self.place = place
        self.flag, self.gate = (place.folder / f"{name}-{number}" for name in ("flag", "gate"))
        script = STEADY.format(flag=str(self.flag), gate=str(self.gate))
        self.job = place.submit(script, **({} if "roles" in options else {"gpus": 1}), **options)

    def until_running(self):
        self.place.until_running(self.job, self.flag)
        return self

    def until_further(self, lines=50):
        """Wait until the copy of its log has grown."""
        log = self.place.paths(self.job).task("worker-0").stdout

        def count():
            self.job.status()  # as any reader, who sees to it that a keeper lives
            return log.read_bytes().count(b"\n") if log.exists() else 0

        before = count()
        until(lambda: count() >= before + lines)

    def end(self, *, attempts=1):
        """Let it end, and hold it to its promises."""
        self.gate.touch()
        story = self.place.follow(self.job)
        assert story.state is JobState.SUCCEEDED, story.status.reason
        assert self.flag.read_text() == "ran " * attempts
        assert len(names_of(self.job.id)) == attempts
        if attempts == 1:
            body = "".join(f"line {one}\n" for one in range(self.job.result()))
            assert story.out == body
        until(lambda: self.job.id not in self.place.holders())


# Kills of ours.


@pytest.fixture
def home(slurm, tmp_path, monkeypatch):
    """Give a home of a test's own, whose keeper is walked."""
    for name, value in slurm.environment().items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    end_keeper(home)
    end_processes_of(home)


def end_keeper(home):
    """Kill a keeper that has nothing to do: it would wait for more."""
    for pid, command in processes_of(home).items():
        if "submarine_engine.clusters.keeper" in command:
            os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_of(home))


def asked_once(folder, home):
    """Have what was killed recovered; return its story, None for no job."""
    story = recovered(folder, home, "slurm")
    for job_id in job_ids(home):
        assert names_of(job_id) == [f"submarine-{job_id}.1"]
    return story


@pytest.mark.parametrize(
    ("number", "where"),
    [
        # Its intent is noted, and Slurm not asked.
        pytest.param(1, r"subprocess\.Popen sbatch", marks=pytest.mark.long),
        (2, r"os\.rename \.slurm\.json"),  # Slurm has it, and nobody knows its number
    ],
)
def test_slurm_is_asked_once_whenever_the_keeper_is_killed(tmp_path, home, number, where):
    submit(tmp_path, "slurm", "keeper", number, where=where, gpus=1)
    assert asked_once(tmp_path, home) is not None
    assert (tmp_path / "killed").exists()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("role", ["submitter", "keeper"])
def test_a_kill_at_each_point_of_the_way_of_a_job(tmp_path, home, monkeypatch, capsys, role):
    def one_walk(folder, number, where):
        own = folder / "home"
        monkeypatch.setenv("SUBMARINE_HOME", str(own))
        submit(folder, "slurm", role, number, where=where, gpus=1)
        try:
            return asked_once(folder, own)
        finally:
            end_keeper(own)

    with capsys.disabled():
        walk_all(tmp_path, role, one_walk)


def launchers(place, job):
    """Return the processes on the nodes that begin a job's tasks, by their rank in Slurm's step."""
    found = {}
    for pid, command in processes_of(place.home).items():
        if "launcher.py" in command and job.id in command and "srun" not in command:
            with suppress(OSError):  # it has ended since
                told = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                found |= {one: pid for one in told if one.startswith("SLURM_PROCID=")}
    return found


@pytest.mark.long
def test_a_gang_of_which_a_launcher_is_killed_ends_whole(place):
    """A task that nobody looks after any more could tell nothing, nor be ended."""
    runs = Steady(place, **place.with_gpus(4)).until_running()
    until(lambda: runs.flag.read_text() == "ran " * 4)
    tasks = runs.job.status().tasks
    assert sorted(task.host for task in tasks) == ["n1", "n1", "n2", "n2"]
    found = launchers(place, runs.job)
    assert len(found) == 4
    os.kill(found["SLURM_PROCID=3"], signal.SIGKILL)
    status = runs.job.wait(180)
    assert status.state is JobState.FAILED
    assert status.reason == "ended by SIGKILL: somebody killed it from outside"
    # Slurm asked the others to end: what they say of that is not why.
    asked = [task for task in status.tasks if "the job was asked to end" in task.reason]
    assert len(asked) == 3
    until(lambda: place.holders() == {})
    until(lambda: not launchers(place, runs.job))
    until(
        lambda: not [words for words in processes_of(place.home).values() if runs.job.id in words]
    )
    assert names_of(runs.job.id) == [f"submarine-{runs.job.id}.1"]
    assert place.told()[f"submarine-{runs.job.id}.1"]["job_state"] == "FAILED"


# What breaks of Slurm.


@pytest.mark.long
def test_a_controller_that_is_gone_for_a_minute_ends_no_job(broken, slurm_of_its_own):
    runs = Steady(broken).until_running()
    slurm_of_its_own.stop("slurmctld")
    gone = time.monotonic()
    runs.until_further()  # its log comes from the disk
    # By a limit of our own: what they say themselves when they give up comes later.
    for ask in (lambda: broken.submit("1", gpus=1), broken.seam.gpus):
        with pytest.raises(ClusterError, match="controller does not answer") as refused:
            ask()
        assert refused.value.what.endswith(f"no answer within {PATIENCE_OF_OURS:g} s")
        assert refused.value.fix
    until(lambda: time.monotonic() > gone + 60.0, 90)
    runs.until_further()
    slurm_of_its_own.up()
    runs.end()
    Steady(broken).until_running().end()


@pytest.mark.long
def test_a_job_that_ends_while_the_controller_is_gone_is_told_when_it_is_back(
    broken, slurm_of_its_own
):
    runs = Steady(broken).until_running()
    slurm_of_its_own.stop("slurmctld")
    runs.gate.touch()
    runs.until_further(0)
    slurm_of_its_own.up()
    runs.end()


@pytest.mark.long
def test_a_killed_slurmd_ends_no_job(broken, slurm_of_its_own):
    runs = Steady(broken, **broken.with_gpus(4)).until_running()
    for name in ("slurmd-n1", "slurmd-n2"):
        slurm_of_its_own.stop(name, signal.SIGKILL)
    runs.until_further()
    slurm_of_its_own.up()
    runs.gate.touch()
    assert runs.job.wait(180).state is JobState.SUCCEEDED, runs.job.status().reason
    assert runs.flag.read_text() == "ran " * 4
    assert len(names_of(runs.job.id)) == 1


@pytest.mark.long
def test_a_node_that_is_drained_keeps_its_job_and_gets_no_other(broken):
    runs = Steady(broken).until_running()
    node = runs.job.status().tasks[0].host
    scontrol("update", f"nodename={node}", "state=drain", "reason=test")
    other = Steady(broken).until_running()
    assert other.job.status().tasks[0].host != node
    free = [gpu for gpu in broken.seam.gpus() if gpu.host == node and not gpu.job_id]
    assert all(gpu.holder.startswith("nobody: the node is ") for gpu in free)
    assert "drain" in free[0].holder
    other.end()
    runs.end()


@contextmanager
def soon_forgotten(cluster):
    """Have a cluster forget jobs that are over at its next look, which is once a minute."""
    text = cluster.conf.read_text()
    cluster.conf.write_text(text.replace("MinJobAge=300", "MinJobAge=2"))
    scontrol("reconfigure")
    try:
        yield
    finally:
        cluster.conf.write_text(text)
        scontrol("reconfigure")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_jobs_that_slurm_forgot_while_no_keeper_ran_end_with_what_is_on_the_disk(
    broken, slurm_of_its_own
):
    through, unnoted, killed = (Steady(broken).until_running() for _ in range(3))
    waits = broken.submit("1", gpus=2)
    asked = broken.paths(waits).root / "slurm.json"
    until(lambda: asked.exists() and "number" in json.loads(asked.read_text()))
    cancelled = broken.number(waits)
    # The keeper first, then all of a task that could tell how it ended, as its node would.
    for part in ("submarine_engine.clusters.keeper", killed.job.id):
        for pid, command in processes_of(broken.home).items():
            if part in command:
                with suppress(ProcessLookupError):  # it ends with the one before it
                    os.kill(pid, signal.SIGKILL)
    # As a keeper leaves it that is killed once Slurm has the job, and before it notes its number.
    note = broken.paths(unnoted.job).root / "slurm.json"
    noted = json.loads(note.read_text())
    del noted["number"]
    note.write_text(json.dumps(noted))
    subprocess.run(["scancel", str(cancelled)], check=True)
    for one in (through, unnoted):
        one.gate.touch()
    with soon_forgotten(slurm_of_its_own):
        until(lambda: not any(names_of(job.id) for job in broken.jobs), 600)
    for one in (through, unnoted):
        assert one.job.result(180) > 0
        assert one.flag.read_text() == "ran "
        assert names_of(one.job.id) == []
    lost = killed.job.wait(180)
    assert lost.state is JobState.LOST
    assert "Slurm has forgotten the job, and it has left no last word" in lost.reason
    never = waits.wait(180)
    assert never.state is JobState.FAILED
    assert "Slurm has forgotten the job" in never.reason
    assert "submarine job retry" in never.reason


@pytest.mark.long
def test_a_job_whose_node_fails_is_begun_again(broken):
    runs = Steady(broken, retries=0).until_running()
    node = runs.job.status().tasks[0].host
    scontrol("update", f"nodename={node}", "state=down", "reason=test")
    until(lambda: runs.job.status().attempt == 2, 180)
    until(lambda: runs.job.status().state is JobState.RUNNING, 180)
    until(lambda: runs.flag.read_text() == "ran ran ")
    runs.end(attempts=2)
    (again,) = broken.events(runs.job, Retried)
    assert not again.counted
    assert "its node failed" in again.reason


@pytest.mark.long
def test_a_node_that_was_down_comes_back_and_takes_jobs(broken, slurm_of_its_own):
    for node in ("n1", "n2"):
        scontrol("update", f"nodename={node}", "state=down", "reason=test")
    job = broken.submit("1", gpus=1)
    until(
        lambda: "0/4 GPUs in use, 4 of nodes that take no jobs now" in job.status().waiting_reason
    )
    assert all("the node is down" in gpu.holder for gpu in broken.seam.gpus())
    scontrol("update", "nodename=n2", "state=resume")
    status = job.wait(180)
    assert (status.state, status.tasks[0].host) == (JobState.SUCCEEDED, "n2")
    # One whose daemon is gone, too: Slurm has it back when it is.
    slurm_of_its_own.stop("slurmd-n2", signal.SIGKILL)
    scontrol("update", "nodename=n2", "state=down", "reason=gone")
    scontrol("update", "nodename=n1", "state=resume")
    slurm_of_its_own.up()  # with its daemon it is back by itself
    runs = Steady(broken, **broken.with_gpus(4)).until_running()
    until(lambda: runs.flag.read_text() == "ran " * 4)
    assert {task.host for task in runs.job.status().tasks} == {"n1", "n2"}
    runs.gate.touch()
    assert runs.job.wait(180).state is JobState.SUCCEEDED


@pytest.mark.long
def test_on_a_full_shared_disk_a_job_is_refused_or_says_so_and_holds_nothing(
    slurm_of_its_own, tmp_path, monkeypatch
):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8M", "submarine-test", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    home = disk / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    for name, value in slurm_of_its_own.environment().items():
        monkeypatch.setenv(name, value)
    place = SlurmPlace("slurm", home, tmp_path)
    try:
        runs = Steady(place).until_running()
        runs.until_further()
        fill(disk)  # its next lines find no room
        status = runs.job.wait(180)
        assert status.state is JobState.FAILED
        assert "space left" in status.reason
        assert len(names_of(runs.job.id)) == 1
        until(lambda: place.holders() == {})
        until(lambda: not list(home.glob(f"slurm/*/tasks/{runs.job.id}")))  # after the last event
        fill(disk)
        with pytest.raises(SubmissionError, match="space left"):
            place.submit("1", gpus=1)
    finally:
        place.clean_up()
        end_processes_of(home, PATIENCE)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


# Clocks.

SHIFTED = """
import runpy, sys, time
real = time.time
time.time = lambda: real() + {shift}
sys.argv = [one for one in sys.argv[1:] if one not in ("-I", "-S", "-u")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.long
@pytest.mark.parametrize("shift", [-3600, 3600])
def test_clocks_that_are_an_hour_apart_end_no_job(place, monkeypatch, shift):
    """The nodes' clock is a double: their Python tells the time of another hour."""
    shifted = place.folder / "shifted.py"
    shifted.write_text(SHIFTED.format(shift=shift))
    python = place.folder / "python-of-another-hour"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {shifted} "$@"\n')
    python.chmod(0o700)
    monkeypatch.setenv("SUBMARINE_SLURM_PYTHON", str(python))
    script = "import time; print('here', flush=True); time.sleep(1); time.time()"
    began = time.monotonic()
    job = place.submit(script, gpus=1, time_limit=1800)
    told = job.result(180)
    took = time.monotonic() - began
    assert abs(told - time.time() - shift) < 600  # its clock was another one
    (task,) = job.status().tasks
    moments = [task.queued, task.held, task.busy, task.returned, task.released]
    steps = [one.until(later) for one, later in pairwise(moments)]
    assert all(0 <= step <= took for step in steps), steps
