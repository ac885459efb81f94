"""A Kubernetes of the tests' own: real daemons on loopback, which Go has built before."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.installer.kubernetes import KubernetesCluster
from submarine_engine.installer.kubernetes.cluster import check_machine
from submarine_engine.installer.kubernetes.programs import (
    DEFAULT_VERSION,
    check_version,
    device_plugin,
    programs_folder,
)

VERSION = os.environ.get("SUBMARINE_TEST_KUBERNETES") or DEFAULT_VERSION
"""The version that tests run on; `make test-long` tries some of them on each that is pinned."""


def require_kubernetes(version: str = VERSION) -> None:
    """Skip where a Kubernetes cannot be: `make kubernetes` installs and builds what is missing."""
    try:
        check_machine()
    except ClusterError as error:
        pytest.skip(f"{error}")
    if not (programs_folder(check_version(version)).is_dir() and device_plugin(version).exists()):
        pytest.skip(f"Kubernetes {version} is not built: make kubernetes")


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """Give a Kubernetes of two nodes with four declared GPUs each."""
    require_kubernetes()
    cluster = KubernetesCluster(tmp_path_factory.mktemp("kubernetes-own"))
    try:
        cluster.up(nodes=2, gpus=4, version=VERSION)
        yield cluster
    finally:
        cluster.down()
