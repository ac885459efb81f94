"""Checkpoints of jobs on this machine: where they lie, what a cancelled or killed job leaves."""

import os
import signal

from submarine_engine import Job
from submarine_engine.job import JobState

STEPS = """
import os, time
from submarine_runtime import job
state = {"done": []}
for step in job.steps(6, state, every=EVERY):
    if step == 3 and not os.path.exists("again"):
        open("again", "w").close()
        while not os.path.exists("go on"): time.sleep(0.01)
    state["done"].append(step)
print("through", state["done"])
"""


def stopped_in_its_step(local, every, script=STEPS, **options):
    job_id = local.submit(script.replace("EVERY", str(every)), **options)
    local.until_running(job_id, local.folder / "again")
    return job_id


def checkpoints_of(local, job_id):
    return sorted(path.name for path in (local.paths(job_id).root / "checkpoints").iterdir())


def test_a_killed_job_goes_on_in_the_next(local):
    kept = {"checkpoint_path": "kept"}
    first = stopped_in_its_step(local, 0, **kept)
    os.killpg(local.session(first), signal.SIGKILL)
    assert local.follow(first).state is JobState.FAILED
    second = local.run(STEPS.replace("EVERY", "0"), **kept)
    assert second.state is JobState.SUCCEEDED
    assert "through [0, 1, 2, 3, 4, 5]" in second.out
    third = local.run(STEPS.replace("EVERY", "0"), **kept)
    assert "through [0, 1, 2, 3, 4, 5]" in third.out


def test_a_cancelled_job_comes_to_the_end_of_its_step(local):
    script = STEPS.replace('os.path.exists("go on")', "checkpoints.notice.given")
    job_id = stopped_in_its_step(
        local, 3600, script=f"from submarine_runtime import checkpoints{script}"
    )
    local.cluster.cancel(job_id, "enough")
    assert local.follow(job_id).state is JobState.CANCELLED
    assert checkpoints_of(local, job_id) == ["step-000000000004"]


def test_a_model_is_saved_of_the_jobs_own_checkpoints(local, tmp_path):
    job_id = stopped_in_its_step(local, 0)
    saved = Job(local.cluster, job_id).save(tmp_path / "model")
    assert (saved.by, saved.source) == ("checkpoint", "step-000000000003")
    (local.folder / "go on").touch()
    assert local.follow(job_id).state is JobState.SUCCEEDED
    assert (local.paths(job_id).root / "checkpoints").stat().st_mode & 0o077 == 0
