"""What to do where the tasks of a job could not meet: by what frameworks say of it.

They name an address at best. The job knows whose it is, and which ports it has for that.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from submarine_engine.history import read_foreign
from submarine_engine.outcome import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from submarine_engine.lifecycle import JobStatus, TaskStatus

_TAIL = 64 * 1024
_LARGEST = 1 << 20
_LONGEST_MESSAGE = 20_000

# torch and Python; gRPC, which is JAX's and TensorFlow's, says it in the log alone.
_TAKEN = re.compile(
    r"EADDRINUSE|address already in use|Failed to add port to server", re.IGNORECASE
)
_PORT = re.compile(r"\bport: (\d{1,5})\b|resolved for '[^'\n]{1,260}:(\d{1,5})'")
_NOT_REACHED = re.compile(
    r"(?:timed out after \d+ ?ms while trying to connect to"
    r"|failed to connect to any network address of) \(([\w.:-]{1,255}), (\d{1,5})\)"
)
_JAX_LATE = re.compile(r"JAX distributed service.{0,400}DEADLINE_EXCEEDED", re.DOTALL)
# Says nothing of why, as a crash does: then the log is read.
_SILENT = ("", "Could not start gRPC server")

_PAGE = "docs/distributed.md has which ports have to be open"


def way_out(status: JobStatus, message: str, folder: Path) -> str:
    """Return what to do about it, in words; empty where a job failed by something else.

    Parameters
    ----------
    status
        The job.
    message
        What the task that failed raised; empty where it raised nothing.
    folder
        That task's.
    """
    if len(status.tasks) == 1:
        return ""
    text = message[:_LONGEST_MESSAGE]
    if message in _SILENT:
        text = _tail(folder / "stderr")
    failed = status.task(status.failed_task)
    place = clean(failed.place) if failed else "the task"
    owners = _owners(folder.parents[1] / "answer.json")
    if _TAKEN.search(text):
        found = _PORT.search(text)
        return _taken(int(found[1] or found[2]) if found else None, place, owners)
    if found := _NOT_REACHED.search(text):
        address, port = clean(found[1]), int(found[2])
        owner = status.task(owners.get(port, ""))
        return _not_reached(f"{address}:{port}", owner, place)
    if _JAX_LATE.search(text):
        return (
            "not all tasks came to jax.distributed.initialize() within its"
            f" initialization_timeout, or a firewall stands between them: {_PAGE}"
        )
    return ""


def _taken(port: int | None, place: str, owners: Mapping[int, str]) -> str:
    which = "a port" if port is None else f"port {port}"
    if port is not None and owners and port not in owners:
        return (
            f"{which} is taken there, and none of those that the job holds: let {place} open the"
            " one that MASTER_PORT and its kin name"
        )
    return (
        f"{which} of {place} is taken: the task opens it twice (two servers, or the framework"
        " begun twice), or another program of that machine has it; --retries 1 tries once more,"
        " with other ports"
    )


def _not_reached(address: str, owner: TaskStatus | None, place: str) -> str:
    if owner is None:
        return (
            f"{place} found nobody at {address}, which is no address that the job has for its"
            " tasks: leave MASTER_ADDR and its kin as they are set"
        )
    return (
        f"{place} waited for {clean(owner.place)}, at {address}: that one did not come to"
        f" it in time (--task {owner.task} of its log says what it did), or a firewall stands"
        f" between: {_PAGE}"
    )


def _owners(answer: Path) -> dict[int, str]:
    """Return whose each port is that the job holds."""
    found: dict[int, str] = {}
    with suppress(OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        for task, one in json.loads(read_foreign(answer, _LARGEST))["tasks"].items():
            found.update({int(port): task for port in one["ports"]})
    return found


def _tail(log: Path) -> str:
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read(_TAIL).decode(errors="replace")
    return ""
