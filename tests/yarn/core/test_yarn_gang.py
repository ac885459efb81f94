"""When a job of several containers may ask for them, and when it gives them back."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.yarn import allocator
from submarine_engine.clusters.yarn.allocator import Gang, is_owed, jobs_ahead, room_for
from submarine_engine.clusters.yarn.hadoop_json import GPU, MEMORY, VCORES
from submarine_engine.clusters.yarn.scheduler import (
    Node,
    Queue,
    Scheduler,
    fits,
    masters_that_fit,
)
from submarine_engine.job import JobSpec, Resources, Role


def spec(count, gpus=1, memory=256):
    return JobSpec(
        roles=(Role(count=count, resources=Resources(gpus=gpus, memory=memory, vcores=1)),)
    )


def node(name, gpus, memory=8192):
    return Node(id=name, host=name, total={GPU: gpus, MEMORY: memory, VCORES: 64})


def scheduler(most=100, used=0):
    every = {MEMORY: 1 << 20, VCORES: 1000}
    queue = Queue(path="root.default", most={GPU: most, **every}, used={GPU: used})
    return Scheduler("capacity", (queue,))


def test_what_is_free_in_all_but_scattered_is_no_room():
    nodes = [node("a", 3), node("b", 1)]
    assert fits(spec(2, gpus=2), [node("a", 4)], scheduler())
    assert not fits(spec(2, gpus=2), nodes, scheduler())
    assert fits(spec(4), nodes, scheduler())
    assert not fits(spec(5), nodes, scheduler())
    assert not fits(spec(4), nodes, scheduler(most=4, used=1))
    assert not fits(spec(4, memory=6000), nodes, scheduler())


@given(st.lists(st.integers(0, 4), max_size=5), st.integers(1, 6), st.integers(1, 4))
def test_one_that_fits_has_its_containers_on_nodes(free, count, gpus):
    nodes = [node(str(n), one) for n, one in enumerate(free)]
    room = sum(one // gpus for one in free)
    assert fits(spec(count, gpus), nodes, scheduler()) == (room >= count)


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(value=1000.0)
    monkeypatch.setattr(allocator.time, "monotonic", lambda: now.value)
    return now


def test_a_part_is_held_for_seconds_only(clock):
    one = Gang(None, spec(3))
    assert not one.is_late(0)
    clock.value += 1000
    assert not one.is_late(1)
    clock.value += 14
    assert not one.is_late(1)
    assert not one.is_late(2)
    clock.value += 14
    assert not one.is_late(2)
    clock.value += 2
    assert one.is_late(2)
    assert "all 3 containers" in one.note
    assert not one.may_ask()  # its time has not come; nobody was asked
    clock.value += 1000
    assert not one.is_late(0)
    assert not one.is_late(3)
    clock.value += 1000
    assert not one.is_late(3)


def test_a_job_of_one_container_asks_at_once():
    alone = Gang(None, spec(1))
    assert alone.may_ask()
    assert not alone.is_late(1)
    assert alone.note == ""


def elastic(least, most):
    resources = Resources(gpus=1, memory=256, vcores=1)
    workers = Role(count=most, least=least, resources=resources)
    chief = Role(name="chief", resources=Resources(gpus=0, memory=256, vcores=1))
    return JobSpec(roles=(workers, chief))


class Manager:
    """What the ResourceManager says of one node with so many free GPUs; no real protocol."""

    def __init__(self, free):
        self.free = free

    def get(self, path):
        if "scheduler" in path:
            return {}
        amounts = [
            {"name": "yarn.io/gpu", "value": self.free},
            {"name": "memory-mb", "value": 9000},
            {"name": "vcores", "value": 9},
        ]
        total = {"resourceInformations": {"resourceInformation": amounts}}
        one = {"id": "a", "nodeHostName": "a", "state": "RUNNING", "totalResource": total}
        return {"nodes": {"node": [one]}}


@pytest.mark.parametrize(("free", "workers"), [(9, 4), (4, 4), (3, 3), (2, 2)])
def test_an_elastic_job_asks_for_as_many_as_would_fit(clock, free, workers):
    gang = Gang(Manager(free), elastic(2, 4))
    assert gang.may_ask()
    assert (gang.workers, gang.size) == (workers, workers + 1)
    assert gang.spec.elastic is None
    gang.forget()  # what came was given back
    assert (gang.workers, gang.size) == (None, 3)


def test_with_fewer_than_it_needs_an_elastic_job_waits(clock):
    manager = Manager(1)
    gang = Gang(manager, elastic(2, 4))
    assert not gang.may_ask()
    assert gang.note == "it takes 3 to 5 containers at once"
    manager.free = 3
    clock.value += 1
    assert gang.may_ask()
    assert gang.workers == 3


def test_one_worker_of_several_waits_for_room_too(clock):
    gang = Gang(Manager(0), JobSpec(roles=elastic(1, 2).roles[:1]))
    assert not gang.may_ask()


def test_who_has_just_given_back_waits_a_moment_for_that_to_be_free(clock):
    manager = Manager(2)
    gang = Gang(manager, elastic(2, 4), again=True)
    assert not gang.may_ask()
    clock.value += 2
    manager.free = 4
    assert gang.may_ask()
    assert gang.workers == 4
    late = Gang(Manager(2), elastic(2, 4), again=True)
    clock.value += 6
    assert late.may_ask()
    assert late.workers == 2


def test_what_was_asked_for_before_is_not_counted_anew(clock):
    gang = Gang(Manager(4), elastic(2, 4), workers=2)
    assert gang.may_ask()
    assert gang.workers == 2


def test_room_is_for_workers_alone_and_nobodys_who_waits():
    assert room_for(elastic(2, 4), [node("a", 3)], scheduler()) == 3
    assert room_for(elastic(2, 4), [node("a", 0)], scheduler()) == 0
    assert room_for(spec(4), [node("a", 3)], scheduler()) == 0
    waits = Queue(path="root.default", leaf=True, waiting={GPU: 1})
    assert room_for(elastic(2, 4), [node("a", 3)], Scheduler("capacity", (waits,))) == 0
    calm = Queue(path="root.default", leaf=True, waiting={GPU: 0})
    assert room_for(elastic(2, 4), [node("a", 3)], Scheduler("capacity", (calm,))) == 3


def queues(*, loses=True, used=0, share=25.0):
    whole = {GPU: 4, MEMORY: 8192, VCORES: 16}
    return Scheduler(
        "capacity",
        (
            Queue(path="root", leaf=False, most=whole, used=whole),
            Queue(path="root.default", most=whole, used={GPU: 3}, share=75.0, loses=loses),
            Queue(path="root.ml", most=whole, used={GPU: used}, share=share),
        ),
    )


def test_what_a_queue_is_owed_is_asked_for_where_others_are_preempted_for_it():
    ml = replace(spec(2), queue="ml")
    assert is_owed(ml, queues(share=50.0))
    assert not is_owed(ml, queues())  # a quarter of four GPUs is one
    assert not is_owed(ml, queues(share=50.0, used=1))
    assert not is_owed(ml, queues(share=50.0, loses=False))
    assert not is_owed(ml, queues(share=None))
    assert not is_owed(replace(spec(2), queue="nobody"), queues())
    assert not is_owed(replace(ml, options={"node_label": "big"}), queues(share=50.0))
    assert not is_owed(replace(spec(1), queue="default"), queues())  # ml's would have to be


def test_it_waits_longer_for_those_that_are_preempted(clock, monkeypatch):
    gang = Gang(SimpleNamespace(get=lambda _: {}), replace(spec(2), queue="ml"))
    monkeypatch.setattr(allocator, "read_scheduler", lambda _: queues(share=50.0))
    assert gang.may_ask()
    assert not gang.is_late(1)
    clock.value += 50
    assert not gang.is_late(1)
    clock.value += 20
    assert gang.is_late(1)


def containers(**states):
    return [SimpleNamespace(id=name, state=state) for name, state in states.items()]


def test_a_gang_that_waits_is_one_job_ahead():
    seen = containers(a0="RUNNING", b0="REQUESTED", b1="WAITING", c0="REQUESTED", d0="WAITING")
    asked_by = {"a0": "a", "b0": "b", "b1": "b", "c0": "c", "d0": "d"}
    assert jobs_ahead(seen, {"c0"}, asked_by) == 1
    assert jobs_ahead(seen, {"d0"}, asked_by) == 2
    assert jobs_ahead(seen, (), asked_by) == 3
    assert jobs_ahead(seen, {"d0"}, {}) == 1  # asked for by a keeper that was killed


def test_what_a_queue_does_not_limit_keeps_no_master_out():
    memory = 512
    queue = Queue(path="root.default", am_used={MEMORY: 0, VCORES: 3})
    assert masters_that_fit(replace(queue, am_limit={MEMORY: 1 << 20}), memory) > 1
    assert masters_that_fit(replace(queue, am_limit={GPU: 0}), memory) > 1
    limits = {"am_limit": {MEMORY: 1 << 20, VCORES: 100}, "users": {"ana": {MEMORY: 1024}}}
    free = replace(queue, **limits, user_am_limit={GPU: 0})
    assert masters_that_fit(free, memory, "ana") == masters_that_fit(free, memory) > 1
    assert masters_that_fit(replace(free, user_am_limit={MEMORY: 1024}), memory, "ana") == 0
