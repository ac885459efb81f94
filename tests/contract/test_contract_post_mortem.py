"""What the frames of a failed job held, on each cluster."""

from submarine_engine.testing.contract.post_mortem import *  # noqa: F403 - the tests
