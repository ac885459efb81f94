"""A job's ``events.jsonl`` and ``status.json``, written by whoever holds the supervisor's lock."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_engine.events import Event, Finished, Granted, Started, event_from_json
from submarine_engine.history import JobPaths, write_json
from submarine_engine.job import JobState

STATUS_VERSION = 1
RESERVE = "reserve"
RESERVE_SIZE = 16384


class Journal:
    """Appends events; the summary in ``status.json`` follows them.

    The file stays open, so that a deleted folder or a full disk is no surprise half-way.

    Parameters
    ----------
    record
        The content of the job's ``record.json``.

    Raises
    ------
    OSError
        The file cannot be opened.
    """

    def __init__(self, paths: JobPaths, record: Mapping[str, Any]) -> None:
        self._paths = paths
        self._record = record
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(paths.events, flags, 0o600)
        self._cut_torn_line()

    def append(self, *events: Event) -> None:
        """Write events, all or none.

        Raises
        ------
        OSError
            The disk is full; nothing was written.
        """
        lines = [json.dumps(event.to_json(), ensure_ascii=False) + "\n" for event in events]
        data = "".join(lines).encode(errors="replace")
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                os.write(self._descriptor, data[written:])  # tells why by raising
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise
        self._summarise(events)

    def append_last(self, *events: Event) -> None:
        """Write a job's last events, in the room that was kept for them on a full disk.

        Raises
        ------
        OSError
            Even that is not enough.
        """
        with suppress(OSError):
            (self._paths.root / RESERVE).unlink(missing_ok=True)
        self.append(*events)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _summarise(self, events: tuple[Event, ...]) -> None:
        for event in reversed(events):
            if (state := _state_after(event)) is not None:
                reason = event.reason if isinstance(event, Finished) else ""
                finished = [event.at.wall, event.at.mono] if state.final else None
                # The events are the truth: a summary that cannot be written is only old.
                with suppress(OSError):
                    write_json(
                        self._paths.status, summary(self._record, state, reason, finished=finished)
                    )
                return

    def _cut_torn_line(self) -> None:
        """Drop a line that a former writer did not live to end; no reader has taken it yet."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, RESERVE_SIZE, max(0, size - RESERVE_SIZE))
        torn = len(tail) - (tail.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(self._descriptor, size - torn)


def summary(
    record: Mapping[str, Any],
    state: JobState = JobState.QUEUED,
    reason: str = "",
    *,
    finished: list[float] | None = None,
) -> dict[str, Any]:
    """Return the content of ``status.json``."""
    resources = [role["resources"]["gpus"] * role["count"] for role in record["spec"]["roles"]]
    return {
        "version": STATUS_VERSION,
        "id": record["id"],
        "name": record["spec"]["name"],
        "cluster": record["cluster"],
        "state": state.value,
        "reason": reason.encode(errors="replace").decode(),
        "gpus": sum(resources),
        "created": record["created"],
        "finished": finished,
    }


def read_events(path: Path, offset: int = 0) -> tuple[list[tuple[Event, int]], int]:
    """Read whole lines from `offset`.

    Returns
    -------
    events : list of (Event, int)
        Each with the offset of its line; lines that are damaged are passed over.
    end : int
        Where to go on.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    data = data[: data.rfind(b"\n") + 1]
    found = []
    place = offset
    for line in data.splitlines(keepends=True):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            found.append((event_from_json(json.loads(line)), place))
        place += len(line)
    return found, offset + len(data)


def _state_after(event: Event) -> JobState | None:
    if isinstance(event, Finished):
        return event.state
    if isinstance(event, Granted):
        return JobState.STARTING
    return JobState.RUNNING if isinstance(event, Started) else None
