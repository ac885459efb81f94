"""The ``submarine`` command: the same grammar as the magics, for terminals and programs."""

from submarine_engine.cli.app import main

__all__ = ["main"]
