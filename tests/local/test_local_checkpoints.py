"""Checkpoints of jobs on this machine: where they lie, what a cancelled or killed job leaves."""

import os
import signal

from submarine_engine import Job
from submarine_engine.clusters.saving import can_save
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import until

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


def test_at_its_time_limit_a_job_comes_to_the_end_of_its_step(local):
    script = STEPS.replace('os.path.exists("go on")', "checkpoints.notice.given")
    script = f"from submarine_runtime import checkpoints{script}"
    for limit in (1, 5, 30):  # a busy machine may need as long to come to the step
        job_id = local.submit(script.replace("EVERY", "3600"), time_limit=limit)
        ended = local.follow(job_id)
        assert ended.state is JobState.FAILED
        assert "time limit" in ended.status.reason
        if (local.folder / "again").exists():
            break
    assert checkpoints_of(local, job_id) == ["step-000000000004"]


LONG = """
import os, time
from submarine_runtime import job
for step in job.steps(1000, {"n": 0}, every=3600):
    time.sleep(1.5)
    open(f"{step}-{job.rank}", "w").close()  # step by step, as ranks that train together
    while not os.path.exists(f"{step}-{1 - job.rank}"): time.sleep(0.01)
"""


def test_ranks_with_long_steps_have_the_time_to_end_after_the_same_one(local, monkeypatch):
    monkeypatch.setenv("SUBMARINE_GRACE", "0.2")
    role = Role(count=2, resources=Resources(gpus=0))
    job_id = local.submit(LONG, roles=(role,))
    until(lambda: all(task.progress for task in local.cluster.status(job_id).tasks))
    local.cluster.cancel(job_id, "enough")
    assert local.follow_several(job_id).state is JobState.CANCELLED
    ends = [local.paths(job_id).task(f"worker-{n}").stderr.read_text() for n in range(2)]
    # Who has heard of it by the other one alone knows no reason.
    assert ends[0].replace(": enough", "") == ends[1].replace(": enough", "")
    said = "submarine: asked to end: enough; checkpoint after step "
    assert any(end.startswith(said) for end in ends)
    assert "step-" in checkpoints_of(local, job_id)[-1]


def test_the_next_attempt_finds_the_folder_of_the_job(local):
    script = STEPS.replace("EVERY", "0").replace(
        'not os.path.exists("again"):', "job.attempt == 1: os.kill(os.getpid(), 9)\n    if False:"
    )
    job_id = local.submit(script, retries=1)
    ended = local.follow(job_id)
    assert ended.state is JobState.SUCCEEDED
    assert ended.status.attempt == 2
    assert "through [0, 1, 2, 3, 4, 5]" in ended.out
    assert checkpoints_of(local, job_id)[-1] == "step-000000000006"


def test_a_model_is_saved_of_the_jobs_own_checkpoints(local, tmp_path):
    job_id = stopped_in_its_step(local, 0)
    job = Job(local.cluster, job_id)
    until(lambda: can_save(local.paths(job_id), job.status()))
    saved = job.save(tmp_path / "model")
    assert (saved.by, saved.source) == ("checkpoint", "step-000000000003")
    (local.folder / "go on").touch()
    assert local.follow(job_id).state is JobState.SUCCEEDED
    assert (local.paths(job_id).root / "checkpoints").stat().st_mode & 0o077 == 0


RANKS = """
import os, random, signal, time
from submarine_runtime import job
random.seed(job.rank)
mine, kill = [], os.environ.get("KILL")
for step in job.steps(12, {}, own=mine, every=0):
    mine.append(random.random())
    if step == 7 and job.rank == 1 and kill and job.attempt == 1:
        while not str(job.latest_checkpoint()).endswith("07"): time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
print("through", mine)
"""


def test_ranks_of_a_gang_go_on_with_what_is_their_own(local):
    def run(**options):
        role = Role(name="worker", count=2)
        job_id = local.submit(RANKS, roles=(role,), **options)
        until(lambda: local.state(job_id).final)
        logs = [local.paths(job_id).task(f"worker-{rank}").stdout for rank in range(2)]
        return local.state(job_id), [log.read_text() for log in logs]

    state, whole = run()
    assert state is JobState.SUCCEEDED
    assert whole[0] != whole[1]
    state, _ = run(checkpoint_path="kept", env={"KILL": "1"})
    assert state is JobState.FAILED
    newest = max((local.folder / "kept").glob("step-*"))
    assert newest.name == "step-000000000007"
    assert run(checkpoint_path="kept") == (JobState.SUCCEEDED, whole)


def test_ranks_that_are_begun_again_go_on_with_what_is_their_own(local):
    def run(**options):
        job_id = local.submit(RANKS, roles=(Role(name="worker", count=2),), **options)
        until(lambda: local.state(job_id).final)
        logs = [local.paths(job_id).task(f"worker-{rank}").stdout for rank in range(2)]
        return local.state(job_id), [log.read_text() for log in logs]

    whole = run()
    assert run(retries=1, env={"KILL": "1"}) == whole


LATER = """
import os
from submarine_runtime import job
state = {"steps": []}
for step in job.steps(10, state, every=0):
    if step == 6 and not os.path.exists("mended"):
        raise OSError("the data set is not there")
    state["steps"].append(step)
print(job.attempt, state["steps"], "from", job.checkpoint_path())
"""


def test_a_job_that_is_run_again_goes_on_in_the_folder_of_the_old_one(local):
    former = local.submit(LATER)
    assert local.follow(former).state is JobState.FAILED
    for _ in range(2):  # the second is the retry of a retry
        former = local.cluster.retry(former)
        assert local.follow(former).state is JobState.FAILED
    (local.folder / "mended").touch()
    story = local.follow(local.cluster.retry(former))
    assert story.state is JobState.SUCCEEDED, story.status.reason
    assert story.out.startswith(f"1 {list(range(10))} from ")
    assert len(set((local.home / "jobs").glob("*/checkpoints"))) == 1
