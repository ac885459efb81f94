"""Keeps a Zeppelin for a test process, and ends all of it when that is done or gone, however.

``python caretaker.py COMMAND…`` is told on its stdin, a word a line: ``start`` (it answers the
pid), ``stop`` and ``kill`` (it answers when the server is gone). When its stdin ends, which is when
the test process closes it or dies, it ends the server and whatever that has started: orphans become
the caretaker's own children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE = 180
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def children() -> list[int]:
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def end(server: subprocess.Popen[bytes] | None, number: int) -> None:
    if server is None:
        return
    server.send_signal(number)
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def end_all() -> None:
    """Kill children until there are none: those of the killed come to us."""
    stop = time.monotonic() + PATIENCE
    while children() and time.monotonic() < stop:
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def main() -> None:
    assert ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) == 0
    server: subprocess.Popen[bytes] | None = None
    try:
        for line in sys.stdin:
            word = line.strip()
            if word == "start":
                server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
            else:
                end(server, signal.SIGKILL if word == "kill" else signal.SIGTERM)
            sys.stdout.write(f"{server.pid if server else 0}\n")
            sys.stdout.flush()
    finally:
        end(server, signal.SIGTERM)
        end_all()


main()
