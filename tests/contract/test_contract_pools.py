"""Calls of one function, by workers on each cluster."""

from submarine_engine.testing.contract.pools import *  # noqa: F403 - the tests
