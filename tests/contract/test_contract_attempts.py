"""Jobs that are begun again: after what, how often, with what, and what is told of it."""

from submarine_engine.testing.contract.attempts import *  # noqa: F403 - the tests
