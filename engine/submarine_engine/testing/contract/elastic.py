"""Elastic jobs: how many tasks each attempt has, when that changes, and what is told of it."""

from __future__ import annotations

import re

from submarine_engine.clusters.store import read_events
from submarine_engine.events import Growing, Resized, Retried
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing.jobs import until

EACH = Resources(gpus=1, memory=256)  # as many fit as there are GPUs, however few processors

TOGETHER = """
import os, time
from submarine_runtime import job

def together(step):  # as ranks are that add up gradients; tells whether this is the last step
    place = f"{flag}-{{job.attempt}}-{{step}}-"
    with open(f"{{place}}new-{{job.rank}}", "w") as file:
        file.write("last" if os.path.exists({flag!r}) else "more")
    os.rename(file.name, f"{{place}}{{job.rank}}")
    while not all(os.path.exists(f"{{place}}{{rank}}") for rank in range(job.world_size)):
        time.sleep(0.01)
    return open(f"{{place}}0").read() == "last"
"""

STEPS = (
    TOGETHER
    + """
state = {{"steps": []}}
for step in job.steps(10_000, state, every=0):
    state["steps"].append((job.world_size, step))
    if together(step):
        break
state["steps"], job.rank, job.world_size, job.attempt
"""
)

ONCE = """
import os, time
from submarine_runtime import job
while not os.path.exists({flag!r}):
    time.sleep(0.02)
job.world_size, job.attempt
"""


def told(cluster, job, kind):
    """Return what a job was told of a kind so far."""
    events = read_events(cluster.paths(job).events)[0]
    return [event for event, _ in events if isinstance(event, kind)]


def begin(cluster, script, *, least, most, **options):
    """Submit a job of so many workers with a GPU each, and return it with the file that ends it."""
    flag = cluster.folder / f"enough-{len(cluster.jobs)}"
    roles = (Role(count=most, least=least, resources=EACH),)
    return cluster.submit(script.format(flag=str(flag)), roles=roles, **options), flag


def has(cluster, job, workers):
    """Return whether so many tasks of a job run."""
    states = [task.state.value for task in job.status().tasks]
    return states == ["running"] * workers


def test_an_elastic_job_has_the_most_where_there_is_room(cluster):
    if not cluster.several:
        return
    most = cluster.total()
    job, flag = begin(cluster, ONCE, least=1, most=most)
    until(lambda: has(cluster, job, most))
    assert cluster.holders() == {job.id: most}
    flag.touch()
    assert job.result(180) == (most, 1)
    until(lambda: cluster.holders() == {})


def test_an_elastic_job_begins_with_what_there_is_and_goes_on_with_more(cluster, monkeypatch):
    if not cluster.several:
        return
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "1")
    kept, total = cluster.folder / "kept", cluster.total()
    other, gate = cluster.hold(total - 2)
    cluster.until_running(other)
    job, flag = begin(cluster, STEPS, least=2, most=total, checkpoint_path=kept.as_uri())
    until(lambda: has(cluster, job, 2))
    gate.touch()
    until(lambda: job.status().attempt == 2 and has(cluster, job, total))
    assert cluster.holders() == {job.id: total}
    (growing,) = told(cluster, job, Growing)
    (again,) = told(cluster, job, Retried)
    assert growing.reason == again.reason == f"there is room for {total} workers, and it has 2"
    assert not again.counted
    assert [len(one.tasks) for one in told(cluster, job, Resized)][-1] == total
    flag.touch()
    steps, rank, size, attempt = job.result(180)
    assert (rank, size, attempt) == (0, total, 2)
    assert [step for _, step in steps] == list(range(len(steps)))  # none twice, and none left out
    assert {size for size, _ in steps} == {2, total}
    line = f"— attempt 2 of 2 begins: {again.reason} —\n"
    errors = cluster.paths(job).task("worker-0").stderr.read_text()
    assert line in errors
    # Where a cluster can bring no word before its signal, the reason stands in that line alone.
    reason = f"(: {re.escape(again.reason)})?"
    assert re.search(f"submarine: asked to end{reason}; checkpoint after step ", errors)
    status = job.status()
    assert (status.failures, status.grown, status.gone) == (0, 1, ())
    until(lambda: cluster.holders() == {})


def test_a_job_that_keeps_no_checkpoint_never_grows(cluster, monkeypatch):
    if not cluster.several:
        return
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "0")
    other, gate = cluster.hold(cluster.total() - 2)
    cluster.until_running(other)
    job, flag = begin(cluster, ONCE, least=2, most=3)
    until(lambda: has(cluster, job, 2))
    gate.touch()
    other.wait(180)
    until(lambda: list(cluster.holders()) == [job.id])
    after, through = cluster.hold(1)  # a second look at the job comes after this one has begun
    cluster.until_running(after)
    through.touch()
    after.wait(180)
    flag.touch()
    assert job.result(180) == (2, 1)


def test_a_job_never_grows_while_another_one_waits(cluster, monkeypatch):
    if not cluster.several:
        return
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "0")
    kept, total = cluster.folder / "kept", cluster.total()
    other, gate = cluster.hold(total - 3)
    cluster.until_running(other)
    last, late = cluster.hold(1)
    cluster.until_running(last)
    job, flag = begin(cluster, STEPS, least=2, most=total, checkpoint_path=kept.as_uri())
    until(lambda: has(cluster, job, 2))
    waits, through = cluster.hold(2)
    until(lambda: waits.status().waiting_reason)
    late.touch()  # one is free now, and it is the next one's who waits for more
    last.wait(180)
    seen = kept_steps(kept)
    until(lambda: kept_steps(kept) - seen)
    assert job.status().attempt == 1
    gate.touch()
    cluster.until_running(waits)
    assert (job.status().attempt, job.status().growing) == (1, "")
    through.touch()
    flag.touch()
    job.wait(180)
    assert job.status().state is JobState.SUCCEEDED, job.status().reason


def kept_steps(folder):
    """Return the names of checkpoints: each is another one's than before."""
    return {one.name for one in folder.iterdir() if not one.name.startswith(".")}


HANDLES = (
    TOGETHER
    + """
state = {{"steps": 0}}
try:
    for step in job.steps(10_000, state, every=0):
        state["steps"] += 1
        if together(step):
            break
except KeyboardInterrupt:
    pass  # what there is will do
job.world_size, job.attempt
"""
)


def test_code_that_handles_the_request_goes_on_with_more_all_the_same(cluster, monkeypatch):
    if not cluster.several:
        return
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "0")
    kept, total = cluster.folder / "kept", cluster.total()
    other, gate = cluster.hold(total - 1)
    cluster.until_running(other)
    job, flag = begin(cluster, HANDLES, least=1, most=2, checkpoint_path=kept.as_uri())
    until(lambda: has(cluster, job, 1))  # alone, it needs nobody's address
    gate.touch()
    until(lambda: job.status().attempt == 2 and has(cluster, job, 2))
    flag.touch()
    assert job.result(180) == (2, 2)
