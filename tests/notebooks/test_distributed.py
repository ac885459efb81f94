"""Frameworks of several tasks: the examples as they are, and tasks that die while they train.

They need an environment that has all of them: ``make pytest-frameworks``, as `make test-long` does.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import nbformat
import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import bundle_of, end_processes_of, spec_of, until
from tests.kernels import gives_what_it_shows

EXAMPLES = sorted((Path(__file__).parents[2] / "examples/distributed").glob("*.ipynb"))

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]


def test_there_is_one_of_each():
    assert {path.stem.partition("_")[0] for path in EXAMPLES} == {"jax", "tf", "torch", "xgboost"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_gives_what_it_shows(example, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    gives_what_it_shows(example)


ENDLESS = "1_000_000"
ONE_OF_EACH = {"chief": 1, "worker": 2, "ps": 1}
TRAINING = {
    # the length of the training as its cell has it, the tasks, what the log shows when it trains
    "torch_ddp": ("epochs=60", {"worker": 2}, "Epoch 20/"),
    "jax_workers": ("steps=150", {"worker": 2}, "Step 50/"),
    "xgboost_workers": ("rounds=20", {"worker": 2}, "got rank 0"),
    "tf_workers": ("steps=150", {"worker": 2}, "Step 50/"),
    "tf_parameter_server": ("epochs=10", ONE_OF_EACH, "Epoch 1/"),
}


def endless(name):
    """Return an example's cells as a script that trains for ever."""
    path = next(path for path in EXAMPLES if path.stem == name)
    cells = nbformat.read(path, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"][1:]
    last = next(n for n, source in enumerate(sources) if source.startswith("%%submarine"))
    length = TRAINING[name][0]
    assert length in sources[last]
    sources[last] = sources[last].partition("\n")[2]
    name, _, _ = length.partition("=")
    return "\n".join(sources[: last + 1]).replace(length, f"{name}={ENDLESS}")


DEATHS = [
    ("torch_ddp", "worker-0"),
    ("torch_ddp", "worker-1"),
    ("jax_workers", "worker-0"),
    ("jax_workers", "worker-1"),
    ("xgboost_workers", "worker-0"),
    ("xgboost_workers", "worker-1"),
    ("tf_workers", "worker-0"),
    ("tf_workers", "worker-1"),
    ("tf_parameter_server", "chief-0"),
    ("tf_parameter_server", "worker-1"),
    ("tf_parameter_server", "ps-0"),
]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    yield open_cluster("local")
    end_processes_of(home)


@pytest.mark.parametrize(("name", "victim"), DEATHS)
def test_who_is_killed_ends_the_job_and_is_named(cluster, tmp_path, name, victim):
    _, counts, begun = TRAINING[name]
    roles = tuple(
        Role(name=role, count=count, resources=Resources(gpus=int(role == "worker")))
        for role, count in counts.items()
    )
    spec = spec_of(roles=roles, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    job = Job(cluster, cluster.submit(spec, bundle_of(endless(name)), workdir=tmp_path))
    tasks = tmp_path / "home/jobs" / job.id / "tasks"
    leader = tasks / ("chief-0" if "chief" in counts else "worker-0")

    def log():
        return "".join(path.read_text() for path in leader.glob("std*"))

    until(lambda: job.status().state.final or begun in log(), 300)
    assert not job.status().state.final, log()
    pid = json.loads((tasks / victim / "hello.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    job.wait(180)
    status = job.status()
    assert status.state is JobState.FAILED
    assert status.failed_task == victim, status
    assert "kill" in status.reason.lower()
    assert all(task.released for task in status.tasks)
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
