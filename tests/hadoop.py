"""A real YARN cluster: one for all test processes of a run, and others to be broken.

The fixtures give a `Yarn`; ``yarn.environment`` is what programs need to find it, and `on_yarn`
sets that for a test. Clusters are started when the first test asks for one, and a caretaker process
takes them down at the end, also where the tests are killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from submarine_engine.clusters.driver import KeptCluster
from submarine_engine.history import default_home
from submarine_engine.installer import Daemon, HadoopCluster, Wanted, sites

from tests.jobs import end_processes_of

CARETAKER = Path(__file__).with_name("yarn") / "caretaker.py"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
REAL = {
    "the cluster",
    "the secure cluster",
    "the cluster, without its GPUs",
    "clusters of their own",
}
MEMORY = 32_768
"""MiB that the shared node declares: what tests wait for on it are GPUs, and nothing else."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a test on a real cluster longer: a busy machine starts daemons and jobs slowly."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group and REAL & {*group.args} and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


class Yarn(NamedTuple):
    """A running cluster: 4 declared GPUs a node, queues `default` (all) and `small` (a quarter).

    `conf` is its ``HADOOP_CONF_DIR``; `rm`, `namenode` are web addresses.
    """

    cluster: HadoopCluster
    conf: Path
    environment: Mapping[str, str]
    rm: str
    namenode: str

    def daemon(self, name: str) -> Daemon:
        """Return ``resourcemanager``, ``namenode``, ``datanode`` or ``nodemanager-N``."""
        return self.cluster.daemon(name)

    def wait_ready(self) -> None:
        """Wait until a job could run, after daemons were started again."""
        self.cluster.wait_ready()


def yarn_cluster(home: Path | None = None, conf: object = None) -> KeptCluster:
    """Return YARN as front ends call it, with another home or configuration than they have."""
    from submarine_engine.clusters.yarn import YarnBackend

    return KeptCluster(YarnBackend(home or default_home(), conf))


def start(home: Path, name: str, nodes: int, *, secure: bool | None = None) -> Yarn:
    """Start a cluster, or what of it does not run."""
    cluster = HadoopCluster(home, name)
    plan = cluster.up(Wanted(gpus=4, nodes=nodes, secure=secure))
    return Yarn(cluster, cluster.layout.conf, cluster.environment(), plan.rm_web, plan.namenode_web)


@contextmanager
def looked_after(folder: Path) -> Iterator[Path]:
    """Give a home for clusters that are taken down when the last test process has left it."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, CARETAKER, folder / "users", folder]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as caretaker:
        assert caretaker.stdout.readline() == b"here\n"
        yield folder
        caretaker.stdin.close()
        assert caretaker.wait(180) == 0


@pytest.fixture(scope="session")
def yarn(tmp_path_factory) -> Iterator[Yarn]:
    """Return the cluster that all tests of the run share; leave its daemons alone."""
    own = tmp_path_factory.getbasetemp()
    with looked_after(
        (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "yarn"
    ) as home:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sites, "NODE_MEMORY", MEMORY)
            shared = start(home, "shared", 1)
        yield shared


@pytest.fixture(scope="session")
def home_of_its_own(tmp_path_factory) -> Iterator[Path]:
    with looked_after(tmp_path_factory.mktemp("yarn-own")) as home:
        yield home


@pytest.fixture
def yarn_of_its_own(home_of_its_own) -> Yarn:
    """Return a cluster of one node that no other test uses meanwhile: kill its daemons as you like.

    Tests of one process follow one another on it; what one has killed is up again for the next.
    """
    return start(home_of_its_own, "one", 1)


@pytest.fixture
def yarn_of_three(home_of_its_own) -> Yarn:
    """Return one of three nodes, likewise."""
    return start(home_of_its_own, "three", 3)


def use(yarn: Yarn, monkeypatch: pytest.MonkeyPatch) -> Yarn:
    """Let this test's process, and what it starts, find the cluster."""
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    # What a test leaves is not in the way of the next: masters that are warm fill a queue's limit.
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "20")
    for name in PROXIES:  # of the machine that the tests run on; loopback needs none
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return yarn


@pytest.fixture
def on_yarn(yarn, monkeypatch) -> Yarn:
    """Return the shared cluster, with the environment set for it."""
    return use(yarn, monkeypatch)


@pytest.fixture(scope="session")
def secure_yarn(tmp_path_factory) -> Iterator[Yarn]:
    """Return a cluster that asks for Kerberos; whoever runs the tests has a ticket for a day."""
    with looked_after(tmp_path_factory.mktemp("yarn-secure")) as home:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sites, "NODE_MEMORY", MEMORY)
            secure = start(home, "secure", 1, secure=True)
        yield secure


@pytest.fixture
def on_secure_yarn(secure_yarn, monkeypatch) -> Yarn:
    """Return that cluster, with the environment set for it."""
    return use(secure_yarn, monkeypatch)


@pytest.fixture(scope="session")
def home_on_yarn(tmp_path_factory) -> Iterator[Path]:
    """Give a home for jobs on YARN: its keeper, driver and warm masters serve many tests."""
    with _home_of_many(tmp_path_factory.mktemp("yarn-home")) as home:
        yield home


@pytest.fixture(scope="session")
def home_on_secure_yarn(tmp_path_factory) -> Iterator[Path]:
    """Give one for jobs on the cluster that asks for Kerberos, likewise."""
    with _home_of_many(tmp_path_factory.mktemp("secure-home")) as home:
        yield home


@contextmanager
def _home_of_many(home: Path) -> Iterator[Path]:
    yield home
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another


@pytest.fixture
def shared_home(on_yarn, home_on_yarn, monkeypatch) -> Path:
    """Return that home, set for this test.

    A test that changes a setting of the keeper (``SUBMARINE_YARN_…``) needs one of its own: take
    `on_yarn` alone.
    """
    return _share(home_on_yarn, monkeypatch)


@pytest.fixture
def secure_home(on_secure_yarn, home_on_secure_yarn, monkeypatch) -> Path:
    """Return the home on the cluster that asks for Kerberos, set for this test."""
    return _share(home_on_secure_yarn, monkeypatch)


def _share(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    # The next tests need the same masters, and starting one is most of a job's time.
    monkeypatch.setenv("SUBMARINE_YARN_IDLE", "120")
    return home
