"""What lies in HDFS, as WebHDFS tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in HDFS.

    Parameters
    ----------
    path
        Absolute, without ``hdfs://``.
    size
        Bytes; 0 for a folder.
    used
        When it was written or last touched, seconds since the epoch.
    modified
        When it was written; of a file that is being written, when that began.
    """

    path: str
    size: int
    used: float
    folder: bool
    modified: float = 0.0


def read_entry(path: str, status: Mapping[str, Any]) -> Entry:
    """Return the entry of a ``FileStatus``."""
    used = max(status["accessTime"], status["modificationTime"]) / 1000
    modified = status["modificationTime"] / 1000
    return Entry(path, status["length"], used, status["type"] == "DIRECTORY", modified)
