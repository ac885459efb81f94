"""Ending a job: asked first, then made to, and its GPUs free in any case."""

from submarine_engine.testing.contract.ending import *  # noqa: F403 - the tests
