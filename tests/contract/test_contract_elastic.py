"""Elastic jobs: how many tasks each attempt has, when that changes, and what is told of it."""

from submarine_engine.testing.contract.elastic import *  # noqa: F403 - the tests
