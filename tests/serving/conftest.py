"""Models that are served, for real: by a scoring server in jobs on the local cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import warnings
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from submarine_engine.serving.launching import servings, stop

from tests.jobs import LIMIT, end_processes_of


class Answered(NamedTuple):
    status: int
    told: object


def ask(address, body, path="/invocations", patience=120):
    """POST to what is served; answer as JSON."""
    request = urllib.request.Request(  # noqa: S310 - of this machine
        f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=patience) as answer:  # noqa: S310 - likewise
            return Answered(answer.status, json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        with error:
            return Answered(error.code, error.read().decode())


@contextmanager
def quiet():
    """Let MLflow warn of itself, as it does at its import and as it saves."""
    with warnings.catch_warnings(record=True):  # what it shows whatever the filters say, too
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a home whose servings, and all of their processes, end with the test."""
    found = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(found))
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    yield found
    for one in servings():
        stop(one.name)
    assert not end_processes_of(found, LIMIT)


@pytest.fixture(scope="session")
def constant(tmp_path_factory):
    """Return a function that makes a model in MLflow's format, which answers with one number."""
    with quiet():
        import mlflow.pyfunc

        class Constant(mlflow.pyfunc.PythonModel):
            def __init__(self, number):
                self.number = number

            def predict(self, context, model_input, params=None):  # noqa: ARG002 - as MLflow calls it
                return [self.number] * len(model_input)

    root = tmp_path_factory.mktemp("models")

    def make(number):
        path = root / str(number)
        if not path.exists():
            with quiet():
                mlflow.pyfunc.save_model(
                    str(path), python_model=Constant(number), pip_requirements=[]
                )
        return path

    return make


@pytest.fixture
def digits(tmp_path):
    """Return a folder with a real model of scikit-learn, and images with what it says of them."""
    with quiet():
        import mlflow.sklearn
    from sklearn.datasets import load_digits
    from sklearn.naive_bayes import GaussianNB

    images, labels = load_digits(return_X_y=True)
    model = GaussianNB().fit(images, labels)
    path = tmp_path / "digits"
    with quiet():
        mlflow.sklearn.save_model(
            model, str(path), pip_requirements=[], serialization_format="cloudpickle"
        )
    return path, images[:5].tolist(), model.predict(images[:5]).tolist()
