"""Homes for jobs on the tests' own Kubernetes, and a folder that their pods see."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from submarine_engine.installer.kubernetes import KubernetesCluster, files
from submarine_engine.testing.jobs import end_processes_of, processes_of, until

PATIENCE = 150.0
"""Seconds for a keeper to end: it stays for pods whose creation nobody has seen answered."""

CLAIM = "shared"
"""The volume claim of the tests' own Kubernetes: a folder of this machine."""


def declare_gpus(cluster: KubernetesCluster, node: str, count: int) -> None:
    """Have a node tell of so many GPUs; return when the cluster knows."""
    names = cluster.root / "nodes" / node / files.GPU_NAMES
    aside = names.with_suffix(".aside")
    aside.write_text("".join(f"GPU-{node}-{number}\n" for number in range(count)))
    aside.replace(names)
    told = f"jsonpath={{.status.allocatable.{files.GPU.replace('.', chr(92) + '.')}}}"
    words = [cluster.layout.bin / "kubectl", "get", "node", node, "-o", told]
    environment = {**os.environ, **cluster.environment()}

    def knows() -> bool:
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        return done.stdout == str(count)

    until(knows)


def install(folder: Path, *packages: str) -> Path:
    """Make an environment with packages of this one, and all that they need; return its Python."""
    if (python := folder / "bin/python").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    left, seen = list(packages), set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # of another system
            continue
        for file in found.files or ():
            if ".." not in file.parts and (source := Path(str(file.locate()))).is_file():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, site / file)
        wanted = (one for one in found.requires or () if "extra ==" not in one)
        left += [re.split(r"[^A-Za-z0-9._-]", one)[0] for one in wanted]
    return python


@pytest.fixture(scope="session")
def python_on_kubernetes(kubernetes) -> Path:
    """Give an interpreter that pods see, with what some tests of the contract import."""
    before = os.umask(0o022)  # the pods' user is another than that of the tests
    try:
        return install(Path(kubernetes.shared) / "venv", "ipython", "numpy")
    finally:
        os.umask(before)


@pytest.fixture(scope="session")
def home_on_kubernetes(kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home for jobs on that Kubernetes, which is there until their keeper has ended."""
    home = tmp_path_factory.mktemp("kubernetes-home")
    declare_gpus(kubernetes, "n2", 0)  # four in all
    yield home
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def kubernetes_home(
    kubernetes, home_on_kubernetes: Path, python_on_kubernetes: Path, monkeypatch
) -> Path:
    """Have this test's jobs on that Kubernetes, whose four GPUs are one node's."""
    monkeypatch.setenv("SUBMARINE_HOME", str(home_on_kubernetes))
    for name, value in kubernetes.environment().items():
        monkeypatch.setenv(name, value)
    from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE

    monkeypatch.setenv("SUBMARINE_KUBERNETES_IMAGE", PYTHON_IMAGE)
    monkeypatch.setenv("SUBMARINE_KUBERNETES_PYTHON", str(python_on_kubernetes))
    monkeypatch.setenv("SUBMARINE_KUBERNETES_VOLUMES", f"{CLAIM}:{kubernetes.shared}")
    return home_on_kubernetes


@pytest.fixture
def kubernetes_folder(kubernetes, tmp_path: Path) -> Iterator[Path]:
    """Give a folder that pods see at the same path, by a volume claim, and may write in."""
    folder = Path(kubernetes.shared) / tmp_path.name
    before = os.umask(0)  # the pods' user is another than that of the tests
    folder.mkdir()
    yield folder
    os.umask(before)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def walked_home(kubernetes_home, tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """Give a home of a test's own, whose keeper is walked."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    end_keeper(home)


def end_keeper(home: Path) -> None:
    """Kill a keeper that has nothing to do, and wait until all of a home's processes are gone."""
    for pid, command in processes_of(home).items():
        if "submarine_engine.clusters.keeper" in command:
            with suppress(ProcessLookupError):  # it waits for more for a few seconds alone
                os.kill(pid, signal.SIGKILL)
    assert not end_processes_of(home)
