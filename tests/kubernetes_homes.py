"""Homes for jobs on the tests' own Kubernetes, and a folder that their pods see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from submarine_engine.testing.jobs import end_processes_of

PATIENCE = 60.0
CLAIM = "shared"
"""The volume claim of the tests' own Kubernetes: a folder of this machine."""


@pytest.fixture(scope="session")
def home_on_kubernetes(kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home for jobs on that Kubernetes, which is there until their keeper has ended."""
    home = tmp_path_factory.mktemp("kubernetes-home")
    yield home
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def kubernetes_home(kubernetes, home_on_kubernetes: Path, monkeypatch) -> Path:
    """Have this test's jobs on one node of that Kubernetes, with its four GPUs."""
    monkeypatch.setenv("SUBMARINE_HOME", str(home_on_kubernetes))
    for name, value in kubernetes.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SUBMARINE_KUBERNETES_IMAGE", kubernetes.image)
    monkeypatch.setenv("SUBMARINE_KUBERNETES_NODE_SELECTOR", "kubernetes.io/hostname=n1")
    return home_on_kubernetes


@pytest.fixture
def kubernetes_folder(kubernetes, tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """Give a folder that pods see at the same path, by a volume claim, and may write in."""
    folder = Path(kubernetes.shared) / tmp_path.name
    monkeypatch.setenv("SUBMARINE_KUBERNETES_VOLUMES", f"{CLAIM}:{kubernetes.shared}")
    before = os.umask(0)  # the pods' user is another than that of the tests
    folder.mkdir()
    yield folder
    os.umask(before)
    shutil.rmtree(folder, ignore_errors=True)
