"""What tests of every cluster share, as `submarine_engine.testing` ships it."""

from submarine_engine.testing.jobs import *  # noqa: F403 - all of it
from submarine_engine.testing.jobs import _living, _traces  # noqa: F401 - of tests that kill
