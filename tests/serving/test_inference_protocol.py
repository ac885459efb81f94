"""The Open Inference Protocol, spoken by MLServer, in an environment that has it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from submarine_engine.serving.launching import start, wait

from tests.serving.conftest import ask

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder with MLServer: it needs older versions of what the tests' own Python has."""
    if sys.version_info >= (3, 13):
        pytest.skip("MLServer has no release for this Python")
    found = tmp_path_factory.mktemp("mlserver") / "site"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    versions = ["--constraint", ROOT / "constraints-serve.txt"]
    wanted = ["mlserver", "mlflow-skinny", "pandas", "scikit-learn"]
    subprocess.run([*pip, "--target", found, *versions, *wanted], check=True)
    return found


@pytest.mark.long
@pytest.mark.timeout(1800)  # it installs some sixty packages
def test_a_model_answers_by_the_protocol(home, digits, site, monkeypatch):
    path, images, labels = digits
    monkeypatch.setenv("PYTHONPATH", str(site))
    record = start(str(path), {"name": "digits", "server": "mlserver", "replicas": 2})
    wait(record)
    with urllib.request.urlopen(f"{record.address}/v2/health/ready", timeout=180) as answer:  # noqa: S310 - of this machine
        assert answer.status == 200
    with urllib.request.urlopen(f"{record.address}/v2/models/digits", timeout=180) as answer:  # noqa: S310 - likewise
        assert json.loads(answer.read())["name"] == "digits"
    values = [value for image in images for value in image]
    tensor = {"name": "x", "shape": [5, 64], "datatype": "FP64", "data": values}
    told = ask(record.address, {"inputs": [tensor]}, "/v2/models/digits/infer")
    assert told.status == 200, told
    (output,) = told.told["outputs"]
    assert (output["data"], output["datatype"]) == (labels, "INT64")
    wrong = ask(record.address, {"inputs": []}, "/v2/models/other/infer")
    assert wrong.status == 404
