"""Slurm's own time limit, and preemption: the job keeps a checkpoint, and goes on from it."""

from __future__ import annotations

import subprocess

import pytest
from submarine_engine.events import Retried
from submarine_engine.job import JobState
from submarine_engine.testing.jobs import until

STEPS = """
import os, time
from submarine_runtime import job
state = {{"seen": []}}
try:
    for step in job.steps(100_000, state, every=3600):
        if os.path.exists({gate!r}):
            break
        state["seen"].append(step)
        open({flag!r} + f"{{job.attempt}}.{{job.rank}}", "w").close()
        time.sleep(0.05)
except KeyboardInterrupt:
    open({flag!r} + f"asked.{{job.rank}}", "w").write(repr(job.notice))
    raise
(step, state["seen"] == list(range(step)), job.attempt)
"""
"""Its only checkpoint is the one that it writes when it is asked to end."""


class Steps:
    """A job that takes steps until its gate is there."""

    def __init__(self, place, **options):
        self.gate, self.flag = place.folder / "gate", place.folder / "flag"
        script = STEPS.format(gate=str(self.gate), flag=str(self.flag))
        kept = (place.folder / "kept").as_uri()
        self.place = place
        self.job = place.submit(script, retries=0, checkpoint_path=kept, **options)

    def until_steps(self, attempt, rank=0):
        until(self.flag.with_name(f"flag{attempt}.{rank}").exists)

    @property
    def asked(self):
        return self.flag.with_name("flagasked.0").read_text()

    def end(self):
        """Let it come to its end; return its value and what its second attempt came of."""
        self.until_steps(2)
        self.gate.touch()
        value = self.job.result(180)
        (again,) = self.place.events(self.job, Retried)
        assert not again.counted
        return value, again.reason


def test_a_job_that_slurm_says_is_almost_over_goes_on_from_a_checkpoint(place):
    steps = Steps(place, gpus=1)
    steps.until_steps(1)
    number = str(place.number(steps.job))
    # What Slurm itself sends by `--signal=B:USR1@…`, with no minute to wait for.
    subprocess.run(["scancel", "--batch", "--signal=USR1", number], check=True)
    (step, whole, attempt), why = steps.end()
    assert (whole, attempt) == (True, 2)
    assert step > 0
    assert why == "Slurm says: the time that Slurm gives the job is over"
    assert steps.asked.startswith("Notice(reason='the time that Slurm gives the job is over'")


@pytest.mark.long
@pytest.mark.parametrize("gpus", [1, 4])
def test_at_the_limit_of_its_partition_a_job_goes_on_from_a_checkpoint(broken, gpus):
    """The partition gives it a minute, of which twenty seconds are for the checkpoint."""
    options = broken.with_gpus(gpus)  # four are tasks on both nodes
    steps = Steps(broken, queue="short", grace=20, time_limit=3600, **options)
    steps.until_steps(1)
    told = broken.told()[f"submarine-{steps.job.id}.1"]
    assert told["time_limit"] == 1  # minutes: no more than the partition gives
    (_, whole, attempt), why = steps.end()
    assert (whole, attempt) == (True, 2)
    assert "the time that Slurm gives the job is over" in why
    assert "the time that Slurm gives the job is over" in steps.asked


@pytest.mark.long
def test_a_job_that_takes_no_notice_is_ended_at_the_limit_and_says_so(broken):
    flag = broken.folder / "flag"
    deaf = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(flag)!r}, 'w').close()\ntime.sleep(600)"
    )
    job = broken.submit(deaf, gpus=1, queue="short", grace=20)
    broken.until_running(job, flag)
    status = job.wait(240)
    assert status.state is JobState.FAILED
    assert "time" in status.reason
    assert "Slurm says: " in status.reason


@pytest.mark.long
def test_a_job_that_is_preempted_goes_on_from_a_checkpoint(broken):
    steps = Steps(broken, queue="low", **broken.with_gpus(4))
    for rank in range(4):
        steps.until_steps(1, rank)
    flag = broken.folder / "urgent"
    urgent = broken.submit(f"open({str(flag)!r}, 'w').close()", gpus=2, queue="high")
    assert urgent.wait(180).state is JobState.SUCCEEDED, urgent.status()
    (step, whole, attempt), why = steps.end()
    assert (whole, attempt) == (True, 2)
    assert step > 0
    assert "Slurm preempted it for a job of a higher priority" in why
