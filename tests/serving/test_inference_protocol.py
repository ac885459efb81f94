"""The Open Inference Protocol, spoken by MLServer, in an environment that has it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from submarine_engine.records import open_job
from submarine_engine.serving import launching
from submarine_engine.serving.launching import stand, start, wait

from tests.jobs import until
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
    ran = subprocess.run(
        [*pip, "--target", found, *versions, *wanted], check=False, capture_output=True, text=True
    )
    if ran.returncode:  # without a network, or a mirror that lacks one of them
        told = "\n".join(ran.stderr.strip().splitlines()[-5:])
        pytest.fail(f"MLServer, some sixty packages, cannot be installed by pip:\n{told}")
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
    # What is no request, or has numbers of another form, is told in words; the model goes on.
    words = {**tensor, "shape": [1], "datatype": "BYTES", "data": ["no number"]}
    for body in ({"odd": 1}, {"inputs": [words]}, {"inputs": [{**tensor, "shape": [1, 2]}]}):
        refused = ask(record.address, body, "/v2/models/digits/infer")
        assert 400 <= refused.status <= 500
        assert refused.told  # MLServer does not always say why
    again = ask(record.address, {"inputs": [tensor]}, "/v2/models/digits/infer")
    assert again.told["outputs"] == told.told["outputs"]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_mlserver_ends_too_once_its_front_is_killed_for_good(home, digits, site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(launching, "ALONE", 25.0)  # the front speaks every ten seconds
    record = start(str(digits[0]), {"name": "left"})
    (replica,) = wait(record).told.replicas
    assert stand(record).told.server == "mlserver"  # as it is there
    open_job(record.job).kill()
    until(open_job(replica.job).done)
    assert "the front is gone" in open_job(replica.job).status().reason
