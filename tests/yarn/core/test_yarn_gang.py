"""When a job of several containers may ask for them, and when it gives them back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.yarn import allocator
from submarine_engine.clusters.yarn.allocator import Gang, fits
from submarine_engine.clusters.yarn.hadoop_json import GPU, MEMORY, VCORES
from submarine_engine.clusters.yarn.scheduler import Node, Queue, Scheduler
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
