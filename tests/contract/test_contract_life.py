"""A job from its submission to its last event, and what stays of it."""

from submarine_engine.testing.contract.life import *  # noqa: F403 - the tests
