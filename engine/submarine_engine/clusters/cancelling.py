"""How somebody says that a job shall end: ``cancel.json``, and a ring of the supervisor's bell.

No signal is sent to the supervisor, so none can hit a stranger that has got its number since.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from submarine_engine.history import JobPaths, read_json, write_json


class Wanted(NamedTuple):
    """What ``cancel.json`` says; `kill` for at once, without grace."""

    reason: str
    kill: bool


def bell(paths: JobPaths) -> Path:
    """Return the path of the named pipe at which the job's supervisor listens."""
    return paths.root / "bell"


def ask(paths: JobPaths, reason: str, *, kill: bool) -> None:
    """Say that the job shall end.

    Raises
    ------
    OSError
        The folder is gone. On a full disk the request is told by an empty file.
    """
    try:
        write_json(paths.cancel, {"reason": reason, "kill": kill})
    except FileNotFoundError:
        raise
    except OSError:
        paths.cancel.touch(mode=0o600)
    with suppress(OSError):  # nobody listens
        descriptor = os.open(bell(paths), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def wanted(paths: JobPaths) -> Wanted | None:
    """Return what somebody wants, None where nobody wants the job to end."""
    try:
        data = read_json(paths.cancel)
    except (OSError, ValueError):
        return Wanted("", kill=False)
    if data is None:
        return None
    if not isinstance(data, dict):
        return Wanted("", kill=False)
    return Wanted(str(data.get("reason") or ""), kill=data.get("kill") is True)
