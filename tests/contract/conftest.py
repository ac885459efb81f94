"""The clusters that the contract is tested on; `submarine_engine.testing` has the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from submarine_engine.testing import Place
from submarine_engine.testing.place import PATIENCE

from tests.jobs import end_processes_of


@pytest.fixture(scope="session")
def home_of_hosts(tmp_path_factory):
    """Give a home for jobs on hosts: one keeper serves many tests."""
    home = tmp_path_factory.mktemp("hosts-home")
    yield home
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def hosts_home(home_of_hosts, tmp_path, monkeypatch):
    """Have the tests' own backend installed, as a package outside the project would be."""
    plugin = tmp_path / "site"
    use_backend(monkeypatch, plugin, "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_HOME", str(home_of_hosts))
    return home_of_hosts


def use_backend(monkeypatch, site, entry_point, options=""):
    """Install a backend of `tests/clusters` for this process and those that it starts."""
    info = site / "submarine_hosts-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: submarine-hosts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[submarine.clusters]\n{entry_point}\n[submarine.options]\n{options}\n"
    )
    paths = [str(site), str(Path(__file__).parents[1] / "clusters")]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture(
    params=[
        "local",
        pytest.param("hosts", marks=pytest.mark.service),  # `make check` has tests/clusters
        pytest.param("yarn", marks=pytest.mark.xdist_group("the cluster")),
    ]
)
def cluster(request, tmp_path, monkeypatch):
    """Give a cluster with four GPUs; afterwards no job of the test is left on it."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    home = tmp_path / "home"
    if request.param != "local":
        home = request.getfixturevalue(
            {"yarn": "shared_home", "hosts": "hosts_home"}[request.param]
        )
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "4")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # a job that is asked to end is given time to
    modes = ("auto", "cold") if request.param == "yarn" else ("auto",)
    variants = [{"mode": mode} for mode in modes]
    place = Place(request.param, home, folder, variants=variants)
    yield place
    place.clean_up()
    left = end_processes_of(home, PATIENCE) if request.param == "local" else {}
    assert not left, f"left running: {left}"
