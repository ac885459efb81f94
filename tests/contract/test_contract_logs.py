"""Logs: every byte once, in its place, for every reader, from every cursor."""

from submarine_engine.testing.contract.logs import *  # noqa: F403 - the tests
