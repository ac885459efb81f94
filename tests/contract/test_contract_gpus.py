"""GPUs: exactly those granted, all or none, first come first served, and free at the job's end."""

from submarine_engine.testing.contract.gpus import *  # noqa: F403 - the tests
