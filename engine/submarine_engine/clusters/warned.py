"""What went wrong beside a job itself, noted in its folder: ``warnings.json``."""

from __future__ import annotations

from contextlib import suppress

from submarine_engine.history import JobPaths, read_json, write_json

_FILE = "warnings.json"


def add_warning(paths: JobPaths, text: str) -> None:
    """Note a warning, once; for the one process that sees the job through.

    Raises
    ------
    OSError
        The disk is full, or the job's folder is gone.
    """
    noted = read_warnings(paths)
    if text not in noted:
        write_json(paths.root / _FILE, {"version": 1, "warnings": [*noted, text]})


def read_warnings(paths: JobPaths) -> list[str]:
    """Return what `add_warning` noted, oldest first; nothing where that cannot be read."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        noted = read_json(paths.root / _FILE) or {}
        return [str(text) for text in noted.get("warnings", ())]
    return []
