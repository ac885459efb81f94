"""A real kernel process for the tests of a file, and others for tests that break theirs."""

from __future__ import annotations

import pytest

from tests.kernels import TRAIN, Driven


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for all the tests of a file that leave it as they found it."""
    driven = Driven(str(tmp_path_factory.mktemp("home")))
    yield driven
    driven.stop()


@pytest.fixture(scope="module")
def trained(kernel):
    """The kernel has a function to run: `train`."""
    kernel.run(TRAIN)


@pytest.fixture
def driven(tmp_path):
    """Start kernels with one home, with more in their environment."""
    kernels = []

    def start(**options):
        kernels.append(Driven(str(tmp_path), **options))
        return kernels[-1]

    yield start
    for kernel in kernels:
        kernel.stop()


@pytest.fixture
def own_kernel(driven):
    """A kernel that the test may break."""
    return driven()
