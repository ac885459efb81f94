"""Data frames as plain rows: what the runtime has of them, for front ends with their own tables."""

from submarine_runtime.tables import TYPE, add_frames, table

__all__ = ["TYPE", "add_frames", "table"]
