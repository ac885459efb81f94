"""Where the tasks of a running job stand, on each cluster."""

from submarine_engine.testing.contract.stacks import *  # noqa: F403 - the tests
