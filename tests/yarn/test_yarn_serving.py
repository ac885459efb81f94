"""A model that is served by replicas in containers of a real YARN cluster."""

from __future__ import annotations

import pytest
from submarine_engine.events import Moment
from submarine_engine.records import open_job
from submarine_engine.serving import launching
from submarine_engine.serving.launching import servings, stand, start, stop, update, wait

from tests.jobs import until
from tests.serving.conftest import ask, constant, quiet  # noqa: F401 - a fixture, and what it uses

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def served(shared_home, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    yield
    for one in servings():
        stop(one.name)


@pytest.mark.usefixtures("served")
def test_replicas_are_containers_and_are_replaced(constant):  # noqa: F811 - the fixture
    record = start(str(constant(1)), {"name": "on-yarn", "cluster": "yarn", "memory": "1G"})
    first = wait(record)
    (replica,) = first.told.replicas
    job = open_job(replica.job)
    assert job.cluster.name == "yarn"
    assert job.status().tasks[0].container.startswith("container_")
    assert ask(record.address, {"inputs": [[1], [2]]}).told == {"predictions": [1, 1]}
    wait(update("on-yarn", str(constant(2)), {}))
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [2]}
    until(job.done)
    until(lambda: len(stand(record).told.replicas) == 1)
    assert stop("on-yarn")


@pytest.mark.usefixtures("served")
def test_a_container_hears_its_front_and_ends_without_it(constant, monkeypatch):  # noqa: F811 - the fixture
    monkeypatch.setattr(launching, "ALONE", 40.0)
    record = start(str(constant(1)), {"name": "left-on-yarn", "cluster": "yarn", "memory": "1G"})
    (replica,) = wait(record).told.replicas
    job = open_job(replica.job)
    began = job.status().tasks[0].busy
    until(lambda: began.until(Moment.now()) > 60)
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
    assert [one.job for one in stand(record).told.replicas] == [replica.job]
    open_job(record.job).kill()
    until(job.done)
    assert "the front is gone" in job.status().reason
