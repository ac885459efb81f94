"""Elastic jobs on this machine: GPUs by the worker, and what is kept from attempt to attempt."""

from __future__ import annotations

import json
import os
import signal

import pytest
from submarine_engine.clusters.local.leases import Holder, Leases, release_lease
from submarine_engine.clusters.local.scheduler import Ticket
from submarine_engine.errors import ResourcesError
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.records import list_jobs

from tests.jobs import spec_of, until

STEPS = """
import os, time
from submarine_runtime import job
state, own = {{"seen": []}}, {own}
for step in job.steps(10_000, state, own=own, every=0):
    place = {flag!r} + f"-{{job.attempt}}-{{step}}-"  # ranks go step by step, as in training
    with open(f"{{place}}new-{{job.rank}}", "w") as file:
        file.write("last" if os.path.exists({flag!r}) else "more")
    os.rename(file.name, f"{{place}}{{job.rank}}")
    while not all(os.path.exists(f"{{place}}{{rank}}") for rank in range(job.world_size)):
        time.sleep(0.01)
    if open(f"{{place}}0").read() == "last":
        break
"""

WAITS = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.02)\n"


def workers(least, most, gpus=1):
    return Role(count=most, least=least, resources=Resources(gpus=gpus))


@pytest.fixture(autouse=True)
def four_gpus(declare_gpus, monkeypatch):
    declare_gpus(4)
    monkeypatch.setenv("SUBMARINE_GROW_AFTER", "0")


def held(local):
    return [gpu.id for gpu in local.cluster.gpus() if gpu.job_id]


def runs(local, job_id, count):
    return [task.state.value for task in local.cluster.status(job_id).tasks] == ["running"] * count


def grown(local, tmp_path, own="None"):
    """Return a job that began with two workers beside another one, which is over; and its end."""
    gate, flag = tmp_path / "gate", tmp_path / "flag"
    other = local.submit(WAITS.format(str(gate)), gpus=2)
    job_id = local.submit(STEPS.format(flag=str(flag), own=own), roles=(workers(2, 4),))
    until(lambda: runs(local, job_id, 2))
    gate.touch()
    local.follow(other)
    return job_id, flag


def test_lists_tell_how_many_gpus_it_has_now(local, tmp_path):
    job_id, flag = grown(local, tmp_path)
    until(lambda: local.cluster.status(job_id).attempt > 1 and runs(local, job_id, 4))
    # The summary is written after the event that changes it.
    until(lambda: json.loads(local.paths(job_id).status.read_text())["gpus"] == 4)
    (listed,) = (one for one in list_jobs(local.home) if one.id == job_id)
    assert listed.gpus == 4
    flag.touch()
    assert local.follow_several(job_id).state is JobState.SUCCEEDED


def test_nothing_outlives_a_supervisor_that_was_killed_after_it_grew(local, tmp_path):
    job_id, _ = grown(local, tmp_path)
    until(lambda: local.cluster.status(job_id).attempt > 1 and runs(local, job_id, 4))
    assert len(held(local)) == 4
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    until(lambda: held(local) == [])
    status = local.follow_several(job_id)
    assert status.state is JobState.LOST
    assert all(task.released for task in status.tasks)
    assert local.run("1", gpus=4).state is JobState.SUCCEEDED


def test_what_each_rank_has_of_its_own_does_not_grow(local, tmp_path):
    job_id, flag = grown(local, tmp_path, own='{"shard": [0]}')
    told = local.paths(job_id).events

    def looks():  # the supervisor tells how far it is each time that it looks at all else, too
        return told.read_text().count('"Progressed"')

    before = looks()
    until(lambda: looks() > before + 5)
    flag.touch()
    status = local.follow_several(job_id)
    assert (status.state, status.attempt, len(status.tasks)) == (JobState.SUCCEEDED, 1, 2)


def test_without_gpus_it_begins_with_the_most(local):
    job_id = local.submit(
        "from submarine_runtime import job; print(job.world_size)", roles=(workers(2, 3, gpus=0),)
    )
    status = local.follow_several(job_id)
    assert (status.state, status.attempt, len(status.tasks)) == (JobState.SUCCEEDED, 1, 3)
    assert local.paths(job_id).task("worker-2").stdout.read_text() == "3\n"


def test_other_roles_have_theirs_before_more_workers_come(local, tmp_path):
    gate = tmp_path / "gate"
    other = local.submit(WAITS.format(str(gate)), gpus=1)
    chief = Role(name="chief", resources=Resources(gpus=1))
    job_id = local.submit(WAITS.format(str(gate)), roles=(workers(1, 4), chief))
    until(lambda: runs(local, job_id, 3))
    status = local.cluster.status(job_id)
    assert [task.task for task in status.tasks] == ["worker-0", "worker-1", "chief-0"]
    assert [len(task.gpus) for task in status.tasks] == [1, 1, 1]
    gate.touch()
    assert local.follow_several(job_id).state is JobState.SUCCEEDED
    local.follow(other)


def test_the_fewest_have_to_fit_and_the_most_need_not(local):
    with pytest.raises(ResourcesError, match="asks for 5 GPUs, its 5 tasks together"):
        local.submit("1", roles=(workers(5, 8),))
    job_id = local.submit("1", roles=(workers(2, 8),))
    assert len(local.follow_several(job_id).tasks) == 4


def test_what_it_waits_for_is_told(local, tmp_path):
    gate = tmp_path / "gate"
    other = local.submit(WAITS.format(str(gate)), gpus=3)
    first = local.submit("1", roles=(workers(2, 4),), name="team")
    second = local.submit("1", gpus=1)
    reason = local.cluster.status(second).waiting_reason
    assert reason == "waiting behind team (2 to 4 GPUs, 1 free)"
    gate.touch()
    for job_id in (other, first, second):
        assert local.follow_several(job_id).state is JobState.SUCCEEDED


def test_a_ticket_says_how_many_more_and_by_how_many():
    pool = ("0", "1", "2", "3")
    spec = spec_of(roles=(workers(1, 3, gpus=2), Role(name="ps", resources=Resources(gpus=1))))
    ticket = Ticket.of("20260101-000000-aaaaa", spec, pool)
    assert (ticket.gpus, ticket.more, ticket.step) == (3, 4, 2)
    assert ticket.line == "20260101-000000-aaaaa job 3+4/2 0,1,2,3\n"
    plain = Ticket.of(
        "20260101-000000-aaaaa", JobSpec(roles=(Role(resources=Resources(gpus=2)),)), pool
    )
    assert plain.line == "20260101-000000-aaaaa job 2 0,1,2,3\n"
    for one in (ticket, plain):
        assert Ticket.from_line(one.line) == one


@pytest.mark.parametrize(("free", "taken"), [(2, None), (3, 3), (4, 3), (5, 5), (6, 5), (9, 7)])
def test_leases_are_taken_by_whole_workers(tmp_path, free, taken):
    leases = Leases(tmp_path / "gpus")
    pool = [str(number) for number in range(free)]
    found = leases.take(pool, 3, Holder("", "job"), more=4, step=2)
    assert (found and len(found)) == taken
    assert sum(holder is not None for holder in leases.holders(pool).values()) == (taken or 0)
    release_lease(found or {})
