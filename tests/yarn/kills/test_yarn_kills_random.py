"""Minutes of kills at random on YARN: of keepers, drivers, masters, containers and submitters.

What holds after each of them holds after all of them: no code ran twice, no GPU was given to two,
none is left in use, every log is what the code wrote, and every job has an end in words.
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
from submarine_engine.history import JobPaths, job_ids
from submarine_engine.job import JobState

from tests.hadoop import use
from tests.jobs import _living, _traces, end_processes_of, until
from tests.local.test_local_random_kills import CODE, DURATION, LINES, LOG, sides

from .conftest import Kernel
from .ground import PATIENCE, Ground
from .walked import kind_of

NOTEBOOKS = 3
KILLED = {"submitter": 1, "keeper": 2, "driver": 1, "master": 2, "container": 6}
"""How often of all kills."""

ENDS = (JobState.FAILED, JobState.CANCELLED)


class Storm:
    """Submits jobs and kills processes of theirs, as chance has it."""

    def __init__(self, ground, chance):
        self.ground, self.chance = ground, chance
        self.kernels, self.kills, self.submitted = [], Counter(), 0

    def submit(self):
        mode = self.chance.choice(["warm", "warm", "cold"])
        jobs = []
        for _ in range(self.chance.randint(1, 3)):
            self.submitted += 1
            code = CODE.format(
                side=str(self.ground.folder / f"side-{self.submitted}"),
                folder=self.ground.folder,
                helper=self.chance.random() < 0.3,
                lines=LINES,
                pause=self.chance.choice([0, 0.1, 0.5]),
            )
            options = {"notebook": "k.ipynb", "memory": 256, "mode": mode}
            jobs.append((code, {**options, "gpus": self.chance.randint(0, 2)}))
        self.kernels.append(Kernel(*jobs))

    def living(self):
        """Return the processes that may be killed, by what they are."""
        found = {"submitter": [one.process.pid for one in self.kernels]}
        home = str(self.ground.home)
        apps = set(self.ground.alive())
        for pid, command in list(_living()):
            traces = _traces(pid)
            if role := kind_of(traces, apps):
                found.setdefault(role, []).append(pid)
            elif home in traces:
                for role, word in (("keeper", "clusters.keeper"), ("driver", "skein.Driver")):
                    if word in command:
                        found.setdefault(role, []).append(pid)
        return {role: pids for role, pids in found.items() if pids}

    def kill(self):
        """Kill one process of a role that chance has chosen; -9, at whatever it does."""
        if living := self.living():
            roles = list(living)
            [role] = self.chance.choices(roles, [KILLED[one] for one in roles])
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.chance.choice(living[role]), signal.SIGKILL)
                self.kills[role] += 1

    def turn(self):
        for kernel in [one for one in self.kernels if one.process.poll() is not None]:
            kernel.process.stdout.close()
            self.kernels.remove(kernel)
        if len(self.kernels) < NOTEBOOKS and self.chance.random() < 0.3:
            self.submit()
        if self.chance.random() < 0.15:  # more often, and no job would come to run
            self.kill()
        time.sleep(self.chance.uniform(0, 2))

    def left(self):
        """Look at every job, as a front end does; return those that are not over."""
        status = self.ground.seam.status
        return [job for job in job_ids(self.ground.home) if not status(job).state.final]

    def end(self):
        for kernel in self.kernels:
            kernel.process.kill()
            kernel.process.wait()
            kernel.process.stdout.close()


def explained(ground, job_id, runs):
    """Check one job's end; return its state."""
    story = ground.follow(job_id)
    if story.state is JobState.SUCCEEDED:
        assert (runs, story.out) == ("ran\n", LOG), job_id
    else:
        assert LOG.startswith(story.out), story.out
        assert story.state in ENDS, (job_id, story.status)
        assert story.status.reason
    return story.state.value


@pytest.mark.long
@pytest.mark.timeout(DURATION + 1800)
def test_kills_at_random_leave_every_promise_kept(yarn_of_its_own, tmp_path, monkeypatch, capsys):
    yarn = use(yarn_of_its_own, monkeypatch)
    monkeypatch.setenv("SUBMARINE_YARN_LEASE", "5")
    home, folder = tmp_path / "home", tmp_path / "notebooks"
    folder.mkdir()
    ground = Ground(yarn, home, folder)
    seed = time.time_ns()
    storm = Storm(ground, random.Random(seed))  # noqa: S311 - chance, no secret
    end = time.monotonic() + DURATION
    try:
        while time.monotonic() < end:
            storm.turn()
            storm.left()
        until(lambda: not storm.left(), 2 * PATIENCE)
        until(lambda: ground.gpus_in_use() == 0, PATIENCE)
        for one in storm.kernels:  # what they are still submitting is on record then
            one.until_submitted()
        until(lambda: not storm.left(), 2 * PATIENCE)
        runs, states = sides(folder), Counter()
        # One that was killed between its open and its write has left nothing there.
        assert {*runs.values()} <= {"", "ran\n"}, f"seed {seed}"
        jobs = list(job_ids(home))
        for job_id in jobs:
            script = (JobPaths(home, job_id).bundle / "script.py").read_text()
            side = re.search(r"os.open\('([^']+)'", script)[1]
            states[explained(ground, job_id, runs.get(side, ""))] += 1
        assert states["succeeded"]
    finally:
        storm.end()
        (home / "yarn").rename(tmp_path / "over")  # so that keepers end
        end_processes_of(home, patience=30)
    with capsys.disabled():
        sys.stdout.write(
            f"\nseed {seed}: {len(jobs)} jobs, {len(runs)} ran, {dict(states)}; "
            f"{sum(storm.kills.values())} kills: {dict(storm.kills)}\n"
        )
