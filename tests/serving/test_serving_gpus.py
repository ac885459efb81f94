"""Replicas with GPUs, of which there are no more than the old ones have."""

from __future__ import annotations

import pytest
from submarine_engine.records import open_job
from submarine_engine.serving.launching import stand, start, update, wait
from submarine_engine.serving.record import ServingRecord

from tests.jobs import until
from tests.serving.conftest import ask, quiet
from tests.serving.test_update import Load


@pytest.fixture
def seeing(tmp_path):
    """Return a function that makes a model which answers with a number and the GPUs it sees."""
    with quiet():
        import mlflow.pyfunc

        class Seeing(mlflow.pyfunc.PythonModel):
            def __init__(self, number, go):
                self.number, self.go = number, go

            def load_context(self, context):  # noqa: ARG002 - as MLflow calls it
                import os
                import time

                while self.go and not os.path.exists(self.go):  # noqa: PTH110 - it is pickled
                    time.sleep(0.05)

            def predict(self, context, model_input, params=None):  # noqa: ARG002 - as MLflow calls it
                import os

                return [f"{self.number} on {os.environ['CUDA_VISIBLE_DEVICES']}"] * len(model_input)

    def make(number, go=""):
        path = tmp_path / f"seeing-{number}"
        with quiet():
            mlflow.pyfunc.save_model(
                str(path), python_model=Seeing(number, go), pip_requirements=[]
            )
        return str(path)

    return make


def answers(record, number):
    """Return all that is answered, once there are so many different ones."""
    seen = set()

    def more():
        seen.update(ask(record.address, {"inputs": [[1]]}).told["predictions"])
        return len(seen) == number

    with Load(record.address, clients=2):  # the one that has nothing to do is asked
        until(more)
    return seen


@pytest.mark.long
@pytest.mark.service
def test_an_update_of_the_only_replica_waits_for_a_gpu_and_says_so(home, seeing, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    record = start(seeing(1), {"name": "one", "gpus": 1})
    first = wait(record)
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": ["1 on 0"]}
    update("one", seeing(2), {})
    until(lambda: stand(record).told.held_up)
    assert "version 2 waits for a GPU: version 1 has the only one" in stand(record).words
    until(lambda: "version 2 waits for a GPU" in open_job(record.job).status().tasks[0].message)
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": ["1 on 0"]}
    assert first.told.replicas[0] in stand(record).told.replicas


@pytest.mark.long
def test_an_update_takes_the_gpus_of_the_old_replicas_one_by_one(
    home, seeing, monkeypatch, tmp_path
):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    record = start(seeing(1), {"name": "two", "gpus": 1, "replicas": 2})
    wait(record)
    assert answers(record, 2) == {"1 on 0", "1 on 1"}  # each has its own
    said, go = [], tmp_path / "go"

    def tell(line):
        said.append(line)
        if "one by one" in line:  # until then none of the new ones is ready
            go.touch()

    with Load(record.address, clients=2) as load:
        load.goes_on()
        wait(update("two", seeing(2, str(go)), {}), tell)
        load.goes_on()
    assert load.failed == []
    assert any("version 2 takes the GPUs of version 1 one by one" in line for line in said), said
    assert answers(record, 2) == {"2 on 0", "2 on 1"}
    now = stand(record).told
    assert (now.serves, now.failures, now.held_up) == (2, 0, "")
    until(lambda: len(stand(record).told.replicas) == 2)
    # More replicas than GPUs, with a new model: as many of it answer as there are GPUs.
    update("two", seeing(3), {"replicas": 3})
    until(lambda: stand(record).told.serves == 3)
    assert answers(record, 2) == {"3 on 0", "3 on 1"}
    told = "two: ready, 2 of 3 ready, version 3"
    # Whoever answers is told of a moment later.
    until(lambda: stand(ServingRecord.read(record.folder)).words.startswith(told))


@pytest.mark.long
def test_an_update_that_does_not_load_gives_the_gpus_back_to_the_old_replicas(
    home, seeing, monkeypatch, tmp_path
):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    record = start(seeing(1), {"name": "back", "gpus": 1, "replicas": 2})
    wait(record)
    broken = seeing(2)
    (tmp_path / "seeing-2" / "python_model.pkl").write_bytes(b"no pickle")
    with Load(record.address, clients=2) as load:
        load.goes_on()
        with pytest.raises(Exception, match="load key"):
            wait(update("back", broken, {}))
        until(lambda: stand(record).told.ready == 2)
        load.goes_on()
    assert load.failed == []
    assert answers(record, 2) == {"1 on 0", "1 on 1"}
