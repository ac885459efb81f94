"""What tests of every cluster share: real jobs from the text of a script, followed to their end."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.base import Cursor
from submarine_engine.events import Display, Event, LogChunk
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.lifecycle import fold

LIMIT = 180.0
"""Seconds: no test waits for them unless something is broken. A busy machine is slow, no more."""


def until(condition, limit=LIMIT):
    """Wait for something to become true, and return it.

    Parameters
    ----------
    condition
        Is called until it returns something true.
    limit
        Seconds until the test fails.
    """
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"not true after {limit} s"
        time.sleep(0.01)
    return found


@dataclass
class Story:
    """All that a job's stream told."""

    events: list[Event] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})
    displays: list[Display] = field(default_factory=list)

    @property
    def status(self):
        return fold(self.events)

    @property
    def state(self):
        return self.status.state

    @property
    def out(self):
        return self.logs["stdout"].decode()

    @property
    def kinds(self):
        return [type(event).__name__ for event in self.events]


def follow(cluster, job_id, *, limit=1 << 20, patience=LIMIT):
    """Read the stream of a job of one task to its end; every byte has to come in its place.

    Parameters
    ----------
    cluster
        The job's.
    job_id
        The job's id.
    limit
        Bytes of logs in one batch, at most.
    patience
        Seconds until the test fails.
    """
    cursor, story = Cursor(), Story()
    end = time.monotonic() + patience
    while True:
        batch = cluster.read(job_id, cursor, limit=limit)
        for item in batch.items:
            if isinstance(item, LogChunk):
                assert item.offset == len(story.logs[item.stream])
                story.logs[item.stream] += item.data
            elif isinstance(item, Display):
                story.displays.append(item)
            else:
                story.events.append(item)
        cursor = batch.cursor
        if batch.ended:
            return story
        assert time.monotonic() < end, f"job {job_id} does not end: {story}"
        time.sleep(0 if batch.items else 0.01)


def bundle_of(script, **files):
    """Return a bundle of a script and files beside it.

    Parameters
    ----------
    script
        Its text.
    **files
        Contents by name.
    """
    content = {"script.py": script.encode()}
    content |= {name: text.encode() for name, text in files.items()}
    return Bundle(files=content, manifest=Manifest(entry="script.py", python="3.11"))


def spec_of(*, command=None, roles=None, **options):
    """Return the spec of a job of one worker, without GPUs unless `options` say otherwise.

    Options that only one cluster knows are given as all others: ``spec_of(mode="cold")``.

    Parameters
    ----------
    command
        What runs in place of Python; None for a script.
    roles
        The roles; one worker unless given.
    **options
        Fields of `JobSpec` or `Resources`, and options of clusters.
    """
    if roles is not None:
        return JobSpec(roles=roles, **options)
    resources = {k: options.pop(k) for k in ("gpus", "memory", "vcores") if k in options}
    role = Role(resources=Resources(**{"gpus": 0, **resources}), command=command)
    fields = {k: options.pop(k) for k in JobSpec.__dataclass_fields__ if k in options}
    of_cluster = {k: v for k, v in options.items() if v is not None}
    return JobSpec(roles=(role,), options=of_cluster, **fields)


def processes_of(home):
    """Return the command lines of living processes that belong to this home, by pid.

    Parameters
    ----------
    home
        Where jobs are kept.
    """
    return {pid: command for pid, command in _living() if str(home) in _traces(pid)}


def end_processes_of(home, patience=15):
    """Wait for the processes of a home to end; kill and return those that do not.

    Parameters
    ----------
    home
        Where jobs are kept.
    patience
        Seconds to wait.
    """
    end = time.monotonic() + patience
    while (left := processes_of(home)) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):  # it has ended since
            os.kill(pid, signal.SIGKILL)
    _end_drivers(home)
    return left


def _end_drivers(home):
    """End skein's drivers of a home: each waits for another keeper, and there will be none."""
    for noted in home.glob("yarn/*/skein/driver"):
        pid = json.loads(noted.read_text())["pid"]
        with suppress(OSError):
            if b"com.anaconda.skein.Driver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGTERM)


def _living():
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                state = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0]
                command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if state not in "ZX":
                yield int(entry.name), command


def _traces(pid):
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes() + b"\0"
        text += Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    return text.decode(errors="replace")
