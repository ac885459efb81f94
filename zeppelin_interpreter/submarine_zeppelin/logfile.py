"""The interpreter's own log: Zeppelin reads what a process writes only until it has registered."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from submarine_engine.history import default_home, make_private

_LARGEST = 10_000_000


def path_of(group: str) -> Path:
    """Return where the process of an interpreter group writes: ``<home>/zeppelin/logs/``."""
    name = re.sub(r"[^\w-]+", "-", group, flags=re.ASCII)[:80].strip("-") or "interpreter"
    return default_home() / "zeppelin" / "logs" / f"{name}.log"


def begin(group: str) -> None:
    """Let what this process and its children write go there from now on, after what is there.

    One of more than 10 MB is put aside as ``.log.1``. Where the disk refuses, all stays as it is.
    """
    path = path_of(group)
    with suppress(OSError):
        make_private(path.parent)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            for stream in (1, 2):
                os.dup2(descriptor, stream)
        finally:
            os.close(descriptor)
