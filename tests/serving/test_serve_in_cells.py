"""``%submarine serve`` in a real kernel: a variable of the notebook, out to users."""

from __future__ import annotations

import json
import re

import pytest
from submarine_engine.serving.launching import servings

from tests.kernels import Driven
from tests.serving.conftest import ask

FIT = """
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB
images, labels = load_digits(return_X_y=True)
model = GaussianNB().fit(images, labels)
said = model.predict(images[:5]).tolist()
nothing = object()
"""


@pytest.fixture
def kernel(home):
    home.mkdir(mode=0o700)
    driven = Driven(str(home))
    yield driven
    driven.stop()


@pytest.mark.long
@pytest.mark.service
def test_a_variable_is_served_and_outlives_its_notebook(home, kernel):
    kernel.run(FIT)
    refused = kernel.run("%submarine serve nothing --name digits")
    assert "object is no model that MLflow keeps" in refused.error
    assert "has no file MLmodel" in kernel.run("%submarine serve . --name digits").error
    served = kernel.run("%submarine serve model --name digits")
    assert served.reply["status"] == "ok", served.error
    told = served.stream("stdout")
    (address,) = set(re.findall(r"http://127.0.0.1:\d+", told))
    assert "digits: ready, 1 of 1 ready, version 1 (model)" in told
    listed = kernel.run("%submarine serve list").value
    assert "ready" in listed
    assert address in listed
    images = json.loads(str(kernel.value("images[:5].tolist()")))
    said = json.loads(str(kernel.value("said")))
    assert ask(address, {"inputs": images}) == (200, {"predictions": said})
    kernel.stop()
    assert ask(address, {"inputs": images}) == (200, {"predictions": said})
    assert [one.state for one in servings()] == ["ready"]
