"""Jobs that are begun again: after what, how often, with what, and what is told of it."""

from __future__ import annotations

import shutil
import warnings

import pytest

from submarine_engine.clusters.store import read_events
from submarine_engine.errors import JobError, JobFailedError
from submarine_engine.events import Retried, Warned
from submarine_engine.history import read_json
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.testing.jobs import until

LUCK = """
from submarine_runtime import job
print("this is", job.attempt, flush=True)
left = job.attempt
if job.attempt < {needed}:
    raise ValueError(f"no luck with {{job.attempt}}")
job.attempt
"""


def told(cluster, job):
    """Return what a job that is over was told to be begun again for."""
    events = read_events(cluster.paths(job).events)[0]
    return [event for event, _ in events if isinstance(event, Retried)]


def test_a_job_is_begun_again_until_its_code_succeeds(cluster):
    for options in cluster.variants:
        job = cluster.submit(LUCK.format(needed=3), gpus=1, retries=5, outputs=("left",), **options)
        results = job.results(180)
        assert (results.value, results.outputs) == (3, {"left": 3})
        status = job.status()
        assert (status.state, status.reason) == (JobState.SUCCEEDED, "")
        assert (status.attempt, status.failures) == (3, 2)
        assert [(one.attempt, one.counted) for one in told(cluster, job)] == [(2, True), (3, True)]
        files = cluster.paths(job).task("worker-0")
        assert files.stdout.read_text() == "this is 1\nthis is 2\nthis is 3\n"
        errors = files.stderr.read_text()
        for line in (
            "— attempt 2 of 6 begins: ValueError: no luck with 1 —\n",
            "— attempt 3 of 6 begins: ValueError: no luck with 2 —\n",
        ):
            assert errors.count(line) == 1
        seconds = status.ledger.seconds(status.finished)
        pairs = zip(seconds.values(), status.spent, strict=True)
        assert all(now >= former for now, former in pairs)
        assert seconds["busy"] > status.spent[2] > 0
        assert sum(seconds.values()) <= status.submitted.until(status.finished) + 1
        until(lambda: cluster.holders() == {})


def test_where_no_attempt_is_left_the_last_error_counts(cluster):
    job = cluster.submit(LUCK.format(needed=9), retries=1)
    with pytest.raises(JobFailedError, match="no luck with 2"):
        job.result(180)
    status = job.status()
    assert status.state is JobState.FAILED
    assert status.reason == "ValueError: no luck with 2 (attempt 2 of 2)"
    assert cluster.holders() == {}


def test_code_runs_once_unless_it_is_said_otherwise(cluster):
    job = cluster.submit(LUCK.format(needed=9))
    job.wait(180)
    assert (job.status().attempt, job.status().reason) == (1, "ValueError: no luck with 1")
    assert cluster.paths(job).task("worker-0").stdout.read_text() == "this is 1\n"


GANG = """
import os, time
from submarine_runtime import job
print(job.rank, "of", job.world_size, "in", job.attempt, flush=True)
if job.rank == 0:
    open({there!r}, "w").close()
if job.attempt == 1 and job.rank == 1:
    while not os.path.exists({there!r}): time.sleep(0.02)  # who fails first ends the other
    raise ValueError("rank 1 says why")
while job.attempt == 1: time.sleep(0.1)  # it waits for rank 1
job.rank
"""


def test_the_tasks_of_a_job_are_begun_again_together(cluster):
    if not cluster.several:
        return
    each = Resources(gpus=1, memory=256, vcores=1)
    script = GANG.format(there=str(cluster.folder / "there"))
    job = cluster.submit(script, roles=(Role(count=2, resources=each),), retries=1)
    assert job.result(180) == 0
    (again,) = told(cluster, job)
    assert again.reason.startswith("worker-1 on ")
    assert again.reason.endswith(" failed: ValueError: rank 1 says why")
    for rank in range(2):
        out = cluster.paths(job).task(f"worker-{rank}").stdout.read_text()
        assert out == f"{rank} of 2 in 1\n{rank} of 2 in 2\n"
    assert {task.attempt for task in job.status().tasks} == {2}
    until(lambda: cluster.holders() == {})


WAITS = """
import time
from submarine_runtime import job
if job.attempt == 1:
    raise ValueError("once more")
open({flag!r}, "w")
time.sleep(600)
"""


def test_what_is_cancelled_is_not_begun_again(cluster):
    flag = cluster.folder / "flag"
    job = cluster.submit(WAITS.format(flag=str(flag)), gpus=1, retries=5)
    until(flag.exists)
    job.cancel("enough")
    job.wait(180)
    status = job.status()
    assert (status.state, status.reason, status.attempt) == (JobState.CANCELLED, "enough", 2)
    until(lambda: cluster.holders() == {})


LONG = """
import time
try:
    open({flag!r}, "w").close()
    time.sleep(600)
finally:
    print("put in order", flush=True)
"""


def test_at_its_time_limit_a_job_is_asked_to_end(cluster):
    for number, options in enumerate(cluster.variants):
        flag = cluster.folder / f"begun-{number}"
        script = LONG.format(flag=str(flag))
        for limit in (1, 5, 30):  # a busy machine may need as long to come to the code
            job = cluster.submit(script, gpus=1, retries=5, time_limit=float(limit), **options)
            with pytest.raises(JobFailedError) as caught:
                job.result(180)
            if flag.exists():
                break
        assert f"was over its time limit of {limit} s (--time_limit)" in str(caught.value)
        status = job.status()
        assert status.state is JobState.FAILED
        assert status.reason == f"was over its time limit of {limit} s (--time_limit)"
        assert status.attempt == 1
        out = cluster.paths(job).task("worker-0").stdout.read_text()
        assert out == "put in order\n"
        until(lambda: cluster.holders() == {})


# It writes what the process beside it writes where NVML is: a double of that.
IDLE = """
import json, os, time
import submarine_runtime

@submarine_runtime.on_save
def save(folder):
    (folder / "weights").write_text("learned")

try:
    with open(os.environ["SUBMARINE_TASK_DIR"] + "/metrics", "a") as rows:
        while True:
            rows.write(json.dumps({"at": time.time(), "gpu0": 0}) + "\\n")
            rows.flush()
            time.sleep(0.25)
finally:
    print("put in order", flush=True)
"""


def test_a_job_whose_gpu_does_nothing_is_saved_and_ended(cluster):
    job = cluster.submit(IDLE, gpus=1, retries=5, idle=2.0)
    with pytest.raises(JobFailedError, match="did nothing for 2 s") as caught:
        job.result(180)
    assert "--idle" in caught.value.fix
    saved = cluster.paths(job).saved
    status = job.status()
    assert (status.state, status.attempt) == (JobState.FAILED, 1)
    assert status.reason == f"its GPU did nothing for 2 s (--idle); its model is saved in {saved}"
    assert (saved / "weights").read_text() == "learned"
    events = [event for event, _ in read_events(cluster.paths(job).events)[0]]
    assert any("did nothing for" in one.text for one in events if isinstance(one, Warned))
    assert cluster.paths(job).task("worker-0").stdout.read_text() == "put in order\n"
    until(lambda: cluster.holders() == {})


STEPS = """
from submarine_runtime import job
state = {"sum": 0, "steps": []}
for step in job.steps(10, state, every=0):
    if step == 6 and job.attempt == 1:
        raise OSError("the data set is not there")
    state["sum"] += step
    state["steps"].append((job.attempt, step))
state
"""


def test_the_next_attempt_goes_on_from_the_last_checkpoint(cluster):
    kept = cluster.folder / "kept"
    job = cluster.submit(STEPS, retries=1, checkpoint_path=kept.as_uri())
    state = job.result(180)
    assert state["sum"] == sum(range(10))
    assert state["steps"] == [(1 + (step >= 6), step) for step in range(10)]


LATER = """
import os
from submarine_runtime import job
state = {{"steps": []}}
for step in job.steps(10, state, every=0):
    if step == 6 and not os.path.exists({flag!r}):
        raise OSError("the data set is not there")
    state["steps"].append(step)
print("run by", os.environ["RETRY_TOKEN"])
state["steps"], job.attempt
"""


def test_a_job_that_failed_is_run_again_as_a_new_one(cluster, monkeypatch):
    flag, kept = cluster.folder / "flag", cluster.folder / "kept"
    monkeypatch.setenv("RETRY_TOKEN", "the-first-token-of-all")
    options = {"secrets": ("RETRY_TOKEN",), "name": "later", "gpus": 1, "retries": 0}
    job = cluster.submit(LATER.format(flag=str(flag)), checkpoint_path=kept.as_uri(), **options)
    with pytest.raises(JobFailedError, match="the data set is not there"):
        job.result(180)
    flag.touch()
    monkeypatch.setenv("RETRY_TOKEN", "another-token-since")
    again = job.retry()
    cluster.jobs.append(again)
    assert again.id != job.id
    assert again.result(180) == (list(range(10)), 1)
    story = cluster.follow(again)
    assert "run by" in story.out
    assert "another-token-since" not in story.out
    first, second = (JobSpec.from_json(read_json(cluster.paths(one).record)["spec"])
                     for one in (job, again))  # fmt: skip
    assert (second.name, second.roles, second.retries) == (first.name, first.roles, 0)
    assert job.status().state is JobState.FAILED  # and stays so
    with pytest.raises(JobError, match="it has succeeded") as caught:
        again.retry()
    assert caught.value.job_id == again.id


def test_a_job_that_runs_is_not_run_again(cluster):
    job, gate = cluster.hold(0)
    with pytest.raises(JobError, match="it is not over yet"):
        job.retry()
    gate.touch()
    job.wait(180)


def test_a_job_whose_script_is_gone_is_not_run_again(cluster):
    job = cluster.submit("raise ValueError('no')")
    job.wait(180)
    shutil.rmtree(cluster.paths(job).bundle)
    with pytest.raises(JobError, match="its script cannot be read"):
        job.retry()


ONCE_MORE = """
import os, random
random.seed(int(os.environ["SEED"]))
print("seen by", os.environ["RERUN_TOKEN"])
[random.random().hex() for _ in range(3)]
"""


def test_a_job_is_run_once_more_from_the_start(cluster, monkeypatch):
    monkeypatch.setenv("RERUN_TOKEN", "the-first-token-of-all")
    job = cluster.submit(ONCE_MORE, name="exact", env={"SEED": "7"}, secrets=("RERUN_TOKEN",))
    first = job.result(180)
    monkeypatch.setenv("RERUN_TOKEN", "another-token-since")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tests may note no packages
        again = job.rerun(time_limit="1h")
    cluster.jobs.append(again)
    assert again.result(180) == first
    story = cluster.follow(again)
    assert "seen by" in story.out
    assert "another-token-since" not in story.out
    record = read_json(cluster.paths(again).record)
    assert record["rerun_of"] == job.id
    assert record["bundle_hash"] == read_json(cluster.paths(job).record)["bundle_hash"]
    assert JobSpec.from_json(record["spec"]).time_limit == 3600
