"""Displays: each in its place between the text, live, and again for whoever reads later."""

from submarine_engine.testing.contract.displays import *  # noqa: F403 - the tests
