"""What a keeper does to YARN, told as its other effects are, and whom one of them kills with -9."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import skein.core
from submarine_engine.clusters.store import Journal
from submarine_engine.history import default_home

from tests.jobs import _living, _traces
from tests.local import walked

ASKS = {"submit", "addContainer", "killContainer", "shutdown", "SetProgress"}
"""The calls of skein that are no questions; gRPC raises no audit events of its own."""

CONTAINER = re.compile(r"\bCONTAINER_ID=container_\w+_(\d+)\0")
ON_ITS_WAY = 3.0
"""Seconds within which who is to be killed may still come."""

SOON = 0.01
"""Seconds between two looks: a container is to be killed before it has said a word."""

APPLICATION = re.compile(r"application_\d+_\d+")


class Walk(walked.Walk):
    """Kills ``WALK_VICTIM``: the keeper itself, a ``master`` of its home's, or a ``container``."""

    def __init__(self, *arguments):
        self.victim = os.environ["WALK_VICTIM"]
        super().__init__(*arguments)
        tell_of_skein()
        tell_of_events()

    def kill(self):
        if self.victim == "keeper":
            super().kill()
        end = time.monotonic() + ON_ITS_WAY
        while not (found := list(victims(self.victim))) and time.monotonic() < end:
            time.sleep(SOON)
        for pid in found:
            with suppress(ProcessLookupError):  # its parent's end was its own
                os.kill(pid, signal.SIGKILL)
        if found:
            Path(self.folder, "victims").touch()


def victims(kind):
    """Yield the processes of the masters, or of the containers, of this home's applications."""
    noted = "".join(
        path.read_text()
        for pattern in ("jobs/*/yarn.json", "yarn/*/masters.json")
        for path in default_home().glob(pattern)
    )
    ours = set(APPLICATION.findall(noted))
    for pid, _ in list(_living()):
        if kind_of(_traces(pid), ours) == kind:
            yield pid


def kind_of(traces, applications):
    """Return whether a process is of a `master` or another `container` of these applications.

    Its shells are of a container as well; empty for any other process.
    """
    containers = CONTAINER.findall(traces)
    if not containers or applications.isdisjoint(APPLICATION.findall(traces)):
        return ""
    return "master" if int(containers[0]) == 1 else "container"


def tell_of_events():
    real = Journal.append

    def append(journal, *events):
        sys.audit("journal.append", type(events[0]).__name__)
        return real(journal, *events)

    Journal.append = append


def tell_of_skein():
    real = skein.core._ClientBase._call

    def call(client, method, *arguments, **options):
        if method not in ASKS:
            return real(client, method, *arguments, **options)
        sys.audit("skein.ask", method)
        answer = real(client, method, *arguments, **options)
        sys.audit("skein.answered", method)
        return answer

    skein.core._ClientBase._call = call
