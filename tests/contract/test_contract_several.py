"""Jobs of several tasks: they begin together, and each knows where the others are."""

from submarine_engine.testing.contract.several import *  # noqa: F403 - the tests
