"""Programs and ports inside running tasks, on each cluster."""

from submarine_engine.testing.contract.inside import *  # noqa: F403 - the tests
