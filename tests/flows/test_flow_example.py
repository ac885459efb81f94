"""The example that goes from cells to a nightly flow, and to a model that answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import folder, submarine  # noqa: F401 - fixtures
from tests.serving.conftest import ask, home  # noqa: F401 - fixtures

EXAMPLE = Path(__file__).parents[2] / "examples/nightly.ipynb"


@pytest.mark.long
@pytest.mark.service
def test_a_notebook_runs_as_a_flow_and_its_model_is_served(home, submarine, tmp_path):  # noqa: F811 - fixtures
    notebook = shutil.copy(EXAMPLE, tmp_path / "nightly.ipynb")
    flow = tmp_path / "nightly.flow"

    def call(*words):
        ran = submarine(*map(str, words))
        assert ran.returncode == 0, ran.stdout.decode() + ran.stderr.decode()
        return ran.stdout.decode()

    call("flow", "build", notebook, "--schedule", "0 2 * * *", "--to", "airflow", "--output", flow)
    assert (flow / "nightly.py").exists()
    call("flow", "run", flow, "--run", "monday")
    call("serve", "start", "job:publish", "--name", "digits")
    first = json.loads(call("serve", "list", "--json"))

    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    right = ask(first["address"], {"inputs": (images[:20] / 16).tolist()}).told["predictions"]
    assert sum(a == b for a, b in zip(right, labels[:20], strict=True)) >= 18

    call("flow", "run", flow, "--run", "tuesday", "--param", "strength=0.5")
    call("serve", "update", "digits", "job:publish")
    assert json.loads(call("serve", "list", "--json"))["version"] == 2
    assert ask(first["address"], {"inputs": (images[:1] / 16).tolist()}).status == 200

    # A model that is too weak is not published: the one of before stays.
    weak = submarine("flow", "run", str(flow), "--run", "wednesday", "--param", "strength=1e-09")
    assert weak.returncode == 1
    assert b"the model of before stays" in weak.stdout + weak.stderr
    assert b"nightly.ipynb, In [" in weak.stdout + weak.stderr
    states = [json.loads(line) for line in call("flow", "status", flow, "--json").splitlines()]
    assert {one["node"]: one["state"] for one in states}["publish"] == "skipped"
