"""The notebook that everybody starts with, unchanged, on every cluster."""

from __future__ import annotations

import re

import pytest

from tests.kernels import run_example

# On the local one `tests/repo/test_examples.py` compares all that it shows.
pytestmark = [pytest.mark.long, pytest.mark.service, pytest.mark.timeout(900)]


def test_the_quickstart_runs_unchanged(cluster, monkeypatch):
    if cluster.name == "kubernetes":  # whose image has no package: the notebook's come with the job
        monkeypatch.delenv("SUBMARINE_KUBERNETES_PYTHON")
        monkeypatch.setenv("SUBMARINE_KUBERNETES_ENVIRONMENT", "pack")
    cells = run_example("quickstart", SUBMARINE_CLUSTER=cluster.name)
    assert "Epoch 20/20" in cells["job"]
    assert re.search(rf"digits: succeeded.* on {cluster.name} ", cells["job"])
    assert re.search(r"released .* after return", cells["job"])
    assert "new pictures read right" in cells["accuracy"]
    assert len(re.findall(r"\bfree$", cells["gpus"], re.MULTILINE)) == 4
