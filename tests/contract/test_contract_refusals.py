"""What no cluster does is refused in words, before anything is on record."""

from submarine_engine.testing.contract.refusals import *  # noqa: F403 - the tests
