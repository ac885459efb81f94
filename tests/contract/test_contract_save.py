"""The model of a running job, brought to the user's path while training goes on."""

from submarine_engine.testing.contract.save import *  # noqa: F403 - the tests
