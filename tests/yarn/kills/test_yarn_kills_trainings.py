"""Real trainings on YARN, real deaths: they go on from their checkpoint, to the same result.

They need an environment that has the frameworks: ``make pytest-frameworks``, as `make test-long`
does. Each test prints a line of what it saw; ``-rP`` shows them.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest
from submarine_engine.job import JobState

from .ground import kill
from .trainings import HELD, STEPS, Training, train_alone

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]

RANKS = ("worker-0", "worker-1")
FOLDERS = ("jax", "tf-workers", "torch", "xgboost")
"""Frameworks whose ranks are all alike, and keep checkpoints by `job.steps`."""

CLOSE = {"rtol": 1e-3, "atol": 1e-4}
"""Between one process and two, which add up the same numbers in another order."""


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """Return what a framework learns in one plain process."""
    return cache(lambda name: train_alone(name, tmp_path_factory.mktemp("alone") / name))


class Whole(dict):
    """What each framework has learnt in two tasks that nobody killed."""


@pytest.fixture(scope="session")
def known():
    return Whole()


@pytest.fixture
def whole(ground, known):
    def learn(name, mode="warm"):
        if name not in known:
            training = Training(ground, name, mode=mode)
            status = training.until_over()
            assert status.state is JobState.SUCCEEDED, status.reason
            assert status.attempt == 1
            known[name] = training.learnt
        return known[name]

    return learn


def is_same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def expect_as_good(name, learnt, alone):
    """Hold what two have learnt to what one learns."""
    if name == "xgboost":  # each has seen half of the rows as it chose where to split
        (one,), (other,) = learnt, alone
        assert (one.argmax(1) == other.argmax(1)).mean() > 0.95
        return
    for one, other in zip(learnt, alone, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


def tell(*words):
    """Print a row of what was seen."""
    print("| seen |", *words)  # noqa: T201 - what the test has seen is for people


@pytest.mark.parametrize("name", FOLDERS)
def test_two_learn_what_one_learns(whole, alone, name):
    expect_as_good(name, whole(name), alone(name))


def go_on(training, at, expected):
    """Wait for the attempt after a death at time `at`; hold it to what is `expected`."""
    first = training.until_at("worker-0", 0, attempt=2)
    status = training.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    assert status.attempt == 2
    began = max(task.busy.wall for task in status.tasks)
    tell(
        training.name,
        f"begun again after {training.told[0].at.wall - at:.1f} s,",
        f"code ran after {began - at:.1f} s,",
        f"next step {first.step} after {first.at - at:.1f} s,",
        f"attempts {status.attempt}, failures {status.failures},",
        f"equal {is_same(training.learnt, expected)}: {training.told[0].reason}",
    )
    assert 0 < first.step <= HELD
    assert [mark.step for mark in training.marks("worker-0", 2)][-1] == STEPS - 1
    assert is_same(training.learnt, expected)
    training.ground.until_free()
    return status


@pytest.mark.parametrize(
    ("name", "victim", "mode"),
    [
        *((name, victim, "warm") for name in FOLDERS for victim in RANKS),
        ("torch", "worker-1", "cold"),
    ],
)
def test_a_killed_rank_is_the_cause_and_all_go_on_from_the_checkpoint(
    ground, whole, name, victim, mode
):
    expected = whole(name)
    training = Training(ground, name, victim, mode=mode, retries=2, name=f"{name}-{victim}-{mode}")
    pid = training.until_at(victim, HELD).pid
    other = next(rank for rank in RANKS if rank != victim)
    training.until_at(other, HELD)
    kill(pid)
    status = go_on(training, time.time(), expected)
    assert status.failures == 1
    # The survivor's broken connection is noise.
    assert training.told[0].reason.startswith(f"{victim} on ")
    assert "SIGKILL" in training.told[0].reason


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_a_lost_node_costs_no_attempt(ground, whole, mode):
    expected = whole("torch")
    training = Training(
        ground, "torch", "worker-1", gpus=3, mode=mode, retries=0, name=f"torch-node-{mode}"
    )
    training.until_at("worker-1", HELD)
    training.until_at("worker-0", HELD)
    master = ground.rm.application(training.noted["app_id"])["amHostHttpAddress"]
    here = [rank for rank in RANKS if training.node_of(rank).name != ground.node_at(master).name]
    node, at = training.kill_node(here[-1])
    status = go_on(training, at, expected)
    assert status.failures == 0
    node.start()
    ground.yarn.wait_ready()
