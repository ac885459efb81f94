"""Real trainings on YARN, real deaths: they go on from their checkpoint, to the same result.

They need an environment that has the frameworks: ``make pytest-frameworks``, as `make test-long`
does. Each test prints a line of what it saw; ``-rP`` shows them.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from submarine_engine.job import JobState

from tests.jobs import processes_of, until
from tests.kernels import OF_A_RUNNER

from .ground import kill
from .trainings import HELD, PATIENCE, STEPS, Training, train_alone

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]

RANKS = ("worker-0", "worker-1")
FOLDERS = ("jax", "tf-workers", "torch", "xgboost")
"""Frameworks whose ranks are all alike, and keep checkpoints by `job.steps`."""

KEEPER = "submarine_engine.clusters.keeper"

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


EACH_AND_COLD = [*((name, "warm") for name in FOLDERS), ("torch", "cold")]


@pytest.mark.parametrize(("name", "mode"), EACH_AND_COLD)
def test_a_lost_node_costs_no_attempt(ground, whole, name, mode):
    expected = whole(name)
    training = Training(
        ground, name, "worker-1", gpus=3, mode=mode, retries=0, name=f"{name}-node-{mode}"
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


def kill_keeper(training):
    """Kill the keeper, wait for the next one, and return when it was killed."""
    before = training.ground.keeper
    kill(before)
    at = time.time()

    def another():
        training.job.status()  # whoever looks sees to it that a keeper lives
        found = processes_of(training.ground.home).items()
        return [pid for pid, words in found if KEEPER in words and pid != before]

    until(another, PATIENCE)
    return at


@pytest.mark.parametrize(("name", "mode"), EACH_AND_COLD)
def test_the_keeper_dies_and_nothing_is_begun_again(ground, whole, name, mode):
    expected = whole(name)
    training = Training(
        ground, name, "worker-0", mode=mode, retries=2, name=f"{name}-keeper-{mode}"
    )
    training.until_at("worker-0", HELD)
    at = kill_keeper(training)
    (training.place / "go").touch()
    first = training.until_at("worker-0", HELD + 1)
    status = training.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    same = is_same(training.learnt, expected)
    tell(training.name, f"next step after {first.at - at:.1f} s, attempts {status.attempt}, {same}")
    assert status.attempt == 1
    assert same
    ground.until_free()


@pytest.fixture
def with_grace(monkeypatch):
    """Let all ranks come to the step after which they end, on a busy machine too."""
    monkeypatch.setenv("SUBMARINE_GRACE", "120")


@pytest.mark.usefixtures("with_grace")
@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_a_cancelled_one_is_run_again_from_its_last_step(ground, whole, mode):
    """It is not begun again by itself; `job retry` goes on where it was, to the same result."""
    expected = whole("torch")
    training = Training(
        ground, "torch", "worker-0", mode=mode, retries=2, name=f"torch-cancel-{mode}"
    )
    training.until_at("worker-0", HELD)
    training.job.cancel("enough")
    (training.place / "go-asked").touch()
    status = training.until_over()
    assert (status.state, status.reason) == (JobState.CANCELLED, "enough")
    assert status.attempt == 1
    last = training.marks("worker-0")[-1].step
    assert last < STEPS - 1
    status = training.job.retry().wait(PATIENCE)
    assert status.state is JobState.SUCCEEDED, status.reason
    tell(training.name, f"cancelled in step {last}, equal {is_same(training.learnt, expected)}")
    assert [mark.step for mark in training.marks("worker-0")] == [*range(STEPS)]
    assert is_same(training.learnt, expected)
    ground.until_free()


@pytest.mark.usefixtures("with_grace")
def test_at_its_time_limit_it_keeps_its_last_step(ground, whole):
    expected = whole("torch")
    kept = {"checkpoint_path": (ground.folder / "kept").as_uri(), "retries": 2}
    training = Training(ground, "torch", "worker-0", name="torch-limit", time_limit=120.0, **kept)
    training.until_at("worker-0", HELD)
    until(lambda: training.job.status().cancelling, PATIENCE)
    (training.place / "go-asked").touch()
    status = training.until_over()
    assert status.state is JobState.FAILED
    assert status.reason == "was over its time limit of 2 min (--time_limit)"
    assert status.attempt == 1
    last = training.marks("worker-0")[-1].step
    second = Training(ground, "torch", name="torch-after-limit", **kept)
    status = second.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    tell(training.name, f"ended in step {last}, equal {is_same(second.learnt, expected)}")
    assert second.marks("worker-0")[0].step == last + 1
    assert is_same(second.learnt, expected)
    ground.until_free()


CAST = {"chief": 1, "worker": 2, "ps": 1}


@pytest.mark.parametrize("victim", [pytest.param("", id="none"), "chief-0", "worker-1", "ps-0"])
def test_parameter_servers_go_on_from_tensorflows_own_checkpoint(ground, alone, victim):
    """Workers and servers never end by themselves: they are ended as the chief is through."""
    kept = (ground.folder / "kept").as_uri()
    training = Training(
        ground,
        "tf-ps",
        "chief-0" if victim else "",
        roles=CAST,
        gpus=0,
        retries=2,
        checkpoint_path=kept,
        name=f"tf-{victim}",
    )
    if victim:
        held = training.until_at("chief-0", HELD)
        pid = held.pid if victim == "chief-0" else training.until_at(victim, -1).pid
        kill(pid)
        at = time.time()
        first = training.until_at("chief-0", 0, attempt=2)
        tell(training.name, f"step {first.step} after {first.at - at:.1f} s: {training.told[0]}")
        assert first.step == HELD
        assert training.told[0].reason.startswith(f"{victim} on ")
    status = training.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    assert (status.attempt, status.failures) == ((2, 1) if victim else (1, 0))
    expect_near(training, alone)
    ground.until_free()


def expect_near(training, alone):
    # Two workers add to the same weights in no certain order.
    pairs = list(zip(training.learnt, alone("tf-ps"), strict=True))
    tell(training.name, "apart by", max(abs(one - other).max() for one, other in pairs))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=0.1)


def test_parameter_servers_outlive_the_keeper(ground, alone):
    kept = (ground.folder / "kept").as_uri()
    training = Training(
        ground, "tf-ps", "chief-0", roles=CAST, gpus=0, checkpoint_path=kept, name="tf-keeper"
    )
    training.until_at("chief-0", HELD)
    kill_keeper(training)
    (training.place / "go").touch()
    status = training.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    assert status.attempt == 1
    expect_near(training, alone)


def test_parameter_servers_lose_a_node_and_it_costs_no_attempt(ground, alone):
    """With three GPUs each, of four that a node has, each of the three is on a node of its own."""
    kept = (ground.folder / "kept").as_uri()
    training = Training(
        ground,
        "tf-ps",
        "chief-0",
        roles=CAST,
        gpus=3,
        retries=0,
        checkpoint_path=kept,
        name="tf-node",
    )
    training.until_at("chief-0", HELD)
    training.until_at("worker-0", -1)
    training.until_at("worker-1", -1)
    master = ground.rm.application(training.noted["app_id"])["amHostHttpAddress"]
    here = [rank for rank in RANKS if training.node_of(rank).name != ground.node_at(master).name]
    node, at = training.kill_node(here[-1])
    until(lambda: training.told, PATIENCE)
    node.start()  # two nodes have no room for all three
    first = training.until_at("chief-0", 0, attempt=2)
    status = training.until_over()
    assert status.state is JobState.SUCCEEDED, status.reason
    assert (status.attempt, status.failures) == (2, 0)
    tell(training.name, f"step {first.step} after {first.at - at:.1f} s: {training.told[0]}")
    expect_near(training, alone)
    ground.yarn.wait_ready()


EXAMPLES = sorted((Path(__file__).parents[3] / "examples/distributed").glob("*.ipynb"))
SAYS = re.compile(r"the same weights: True|the same answers: (9\d|100)%|as good: True")


def test_there_are_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("ground")
def test_the_example_learns_on_yarn_what_one_process_learns(path):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        **{**OF_A_RUNNER, "timeout": 600},
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    client.execute(env={**os.environ, "SUBMARINE_CLUSTER": "yarn"})
    said = "".join(output.get("text", "") for output in notebook.cells[-2].outputs)
    tell(path.stem, said)
    assert SAYS.search(said)
