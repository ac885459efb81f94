"""The verbs of remembered results: list them, forget them."""

from __future__ import annotations

import time

from submarine_engine.amounts import clock, size
from submarine_engine.cache import Cache, forget
from submarine_engine.cli.output import OK, Output, visible
from submarine_engine.command.parser import Command


def list_(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """List on `output` what is remembered; `command` says nothing."""
    cache = Cache()
    entries = cache.entries()
    if output.json:
        for entry in entries:
            output.data(entry.to_json())
        return OK
    if not entries:
        output.note("no result is remembered")
        return OK
    rows = [
        (entry.job, entry.name, clock(max(0.0, time.time() - entry.used)), visible(entry.origin))
        for entry in entries
    ]
    output.table(("job", "name", "last used", "of"), rows)
    output.note(f"{size(cache.size())} of notes; the results are in their jobs' folders")
    return OK


def clear(command: Command, output: Output) -> int:
    """Forget the results of the jobs that `command` names, or all; tell `output` how many."""
    gone = forget(command.values.get("jobs", ()))
    if output.json:
        output.data({"forgotten": gone})
    else:
        output.line(f"forgotten: {gone}")
    return OK
