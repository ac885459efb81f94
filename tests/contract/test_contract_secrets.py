"""Secrets by name: the job has their values, and what is kept or shown of it has not."""

from submarine_engine.testing.contract.secrets import *  # noqa: F403 - the tests
