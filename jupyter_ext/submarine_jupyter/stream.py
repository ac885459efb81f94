"""A job's stream as server-sent events; the id of the last one of a batch is a cursor."""

from __future__ import annotations

import base64
import json

from submarine_engine.clusters.base import Batch, Cursor
from submarine_engine.errors import CommandError
from submarine_engine.events import Display, Event, LogChunk

_LONGEST = 1 << 16


def first_cursor(text: str) -> Cursor:
    """Return where a reader wants to begin; the beginning where it says nothing.

    Raises
    ------
    CommandError
        `text` is no cursor.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(len(text))  # noqa: TRY301 - one answer for both
        return Cursor.from_json(text) if text else Cursor()
    except (ValueError, RecursionError) as error:
        raise CommandError(
            "this is no cursor",
            where="Last-Event-ID or ?cursor=",
            fix="send the id of an event, or nothing to begin at the beginning",
        ) from error


def message(batch: Batch) -> str:
    """Return a batch as events; only the last one has an id, since a cursor is a batch's end."""
    found = [_event(item) for item in batch.items]
    if batch.ended:
        found.append(("end", {}))
    lines = [f"event: {kind}\ndata: {json.dumps(data)}\n" for kind, data in found]
    if lines:
        lines[-1] = f"id: {batch.cursor.to_json()}\n{lines[-1]}"
    return "".join(f"{line}\n" for line in lines)


def _event(item: Event | LogChunk | Display) -> tuple[str, dict[str, object]]:
    if isinstance(item, Event):
        return "job", item.to_json()
    if isinstance(item, Display):
        return "display", item.to_json()
    data = base64.b64encode(item.data).decode()
    return "log", {
        "task": item.task, "stream": item.stream, "offset": item.offset, "data": data,
    }  # fmt: skip
