"""A Kubernetes of the tests' own: real daemons on loopback, which Go has built before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.installer.kubernetes import KubernetesCluster
from submarine_engine.installer.kubernetes.cluster import check_machine
from submarine_engine.installer.kubernetes.programs import DEFAULT_VERSION, programs_folder


def require_kubernetes(version: str = DEFAULT_VERSION) -> None:
    """Skip where a Kubernetes cannot be: `make kubernetes` installs and builds what is missing."""
    try:
        check_machine()
    except ClusterError as error:
        pytest.skip(f"{error}")
    if not programs_folder(version).is_dir():
        pytest.skip(f"Kubernetes {version} is not built: make kubernetes")


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """Give a Kubernetes of two nodes with four declared GPUs each."""
    require_kubernetes()
    cluster = KubernetesCluster(tmp_path_factory.mktemp("kubernetes-own"))
    try:
        cluster.up(nodes=2, gpus=4)
        yield cluster
    finally:
        cluster.down()
