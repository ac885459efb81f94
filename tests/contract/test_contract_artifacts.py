"""Files that a job leaves in its folder for them, on each cluster."""

from submarine_engine.testing.contract.artifacts import *  # noqa: F403 - the tests
