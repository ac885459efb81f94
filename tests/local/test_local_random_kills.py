"""Minutes of kills at random, beside the walker: of submitters, the queue, supervisors and tasks.

What holds after each of them holds after all of them: no code ran twice, no GPU was given to two,
none is left held, every log is what the code wrote, and every job has an end in words.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.history import job_ids
from submarine_engine.job import JobState

from tests.jobs import processes_of, until

DURATION = float(os.environ.get("SUBMARINE_RANDOM_KILLS", "600"))
"""Seconds of kills."""

GPUS = 2
NOTEBOOKS = 3
LINES = 300
LOG = "".join(f"line {number}\n" for number in range(LINES))
# The lock of a GPU falls when its last process is gone; who finds it held has found two grants.
CODE = """
import fcntl, os, subprocess, sys, time
side = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(side, b"ran\\n")
gpus = [gpu for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if gpu]
held = [open(f"{folder}/gpu-{{gpu}}", "w") for gpu in gpus]
for file in held:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.write(side, b"held by another\\n")
if {helper}:  # it has no descriptor but those of the GPUs, and would go on alone
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
        pass_fds=[file.fileno() for file in held], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for number in range({lines}):
    print("line", number)
    if number % 30 == 0: time.sleep({pause})
"""
KILLED = {"submitter": 1, "queue": 4, "supervisor": 8, "task": 4, "helper": 4}
"""How often of all kills; one that is killed while it starts has done nothing yet."""


def role_of(command):
    """Return what a process of the cluster is; a guard has its supervisor's command line."""
    if "supervisor.py" in command:
        return "supervisor"
    if "submarine_runtime" in command:
        return "task"
    if "notebook.py" in command:
        return "submitter"
    return "helper" if "time.sleep(600)" in command else "queue"


class Storm:
    """Submits jobs and kills processes of theirs, as chance has it."""

    def __init__(self, local, chance):
        self.local, self.chance = local, chance
        self.notebooks, self.kills, self.submitted = [], Counter(), 0

    def submit(self):
        jobs = []
        for _ in range(self.chance.randint(1, 4)):
            self.submitted += 1
            code = CODE.format(
                side=str(self.local.folder / f"side-{self.submitted}"),
                folder=self.local.folder,
                helper=self.chance.random() < 0.3,
                lines=LINES,
                pause=self.chance.choice([0, 0.01, 0.1]),
            )
            jobs.append((code, self.chance.randint(0, GPUS)))
        self.notebooks.append(self.local.notebook(*jobs))

    def kill(self):
        """Kill one process of a role that chance has chosen; -9, at whatever it does."""
        living = {}
        for pid, command in processes_of(self.local.home).items():
            living.setdefault(role_of(command), []).append(pid)
        if roles := [one for one in KILLED if one in living]:
            [role] = self.chance.choices(roles, [KILLED[one] for one in roles])
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.chance.choice(living[role]), signal.SIGKILL)
                self.kills[role] += 1

    def turn(self):
        for notebook in [one for one in self.notebooks if one.poll() is not None]:
            notebook.stdout.close()
            self.notebooks.remove(notebook)
        if len(self.notebooks) < NOTEBOOKS and self.chance.random() < 0.5:
            self.submit()
        if self.chance.random() < 0.5:
            self.kill()
        time.sleep(self.chance.uniform(0, 1))

    def look(self):
        """Look at every job, as a front end does, and settle what lost its supervisor."""
        with suppress(ClusterError):  # the queue's lock is held by somebody who is slow
            return [job for job in job_ids(self.local.home) if not self.local.state(job).final]
        return ["not told"]


def sides(folder):
    found = {}
    for path in folder.glob("side-*"):
        found[str(path)] = path.read_text()
    return found


def explained(local, job_id, runs):
    """Check one job's end; return its state."""
    story = local.follow(job_id)
    assert story.status.tasks == () or all(
        task.released or task.held is None for task in story.status.tasks
    )
    if story.state is JobState.SUCCEEDED:
        assert (runs, story.out) == ("ran\n", LOG)
    else:
        assert LOG.startswith(story.out), story.out
        assert story.state in (JobState.LOST, JobState.FAILED), story.status
        assert story.status.reason
    return story.state.value


@pytest.mark.long
@pytest.mark.timeout(DURATION + 900)
def test_kills_at_random_leave_every_promise_kept(local, declare_gpus, capsys):
    declare_gpus(GPUS)
    seed = time.time_ns()
    storm = Storm(local, random.Random(seed))  # noqa: S311 - chance, no secret
    end = time.monotonic() + DURATION
    try:
        while time.monotonic() < end:
            storm.turn()
            storm.look()
    finally:
        for notebook in storm.notebooks:
            notebook.wait(120)
            notebook.stdout.close()
    jobs = list(job_ids(local.home))
    until(lambda: not storm.look(), 300)
    until(lambda: all(gpu.job_id is None for gpu in local.cluster.gpus()), 120)
    until(lambda: not processes_of(local.home), 120)

    runs = sides(local.folder)
    # One that was killed between opening the file and writing has left it empty.
    assert {*runs.values()} <= {"", "ran\n"}, f"seed {seed}"
    states = Counter()
    for job_id in jobs:
        script = (local.paths(job_id).bundle / "script.py").read_text()
        side = re.search(r"os.open\('([^']+)'", script)[1]
        states[explained(local, job_id, runs.get(side, ""))] += 1
    assert len(runs) <= len(jobs)
    assert states["succeeded"]
    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {seed}: {len(jobs)} jobs, {len(runs)} ran, {dict(states)}; "
            f"{sum(storm.kills.values())} kills: {dict(storm.kills)}\n"
        )
