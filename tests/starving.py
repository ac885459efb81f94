"""Gives random threads that want to run no time for a while: ``python -S starving.py MARK``.

A busy machine does the same, more rarely, and at any instruction. `scripts/delayed` starts it; its
threads are those of the processes whose environment has MARK. A thread of the policy SCHED_IDLE
(sched(7)) gets time only where no other wants any, so this finds most on a machine that is busy.
Only root may take the policy back again.
"""

from __future__ import annotations

import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

PROCESSES, THREADS = 12, 15
"""Of how many processes at a time, and of how many threads of each, it is seen what they do."""

OFTEN = 0.7
"""How often one that wants to run is kept from it."""

PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)  # seconds
_EVERY = 0.03  # seconds between two looks: each takes some milliseconds
_PLAIN = os.sched_param(0)
dice = random.SystemRandom()


def is_ours(pid: str, mark: bytes) -> bool:
    """Return whether a process's environment has the mark."""
    with suppress(OSError):
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def wants_to_run(pid: str, thread: str) -> bool:
    """Return whether a thread runs, or would."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/task/{thread}/stat").read_bytes()
        return stat.rpartition(b")")[2].split()[0] == b"R"
    return False


def sample(found: list[str], most: int) -> list[str]:
    return dice.sample(found, min(most, len(found)))


def starve(mark: bytes) -> None:
    """Do so until this process is ended."""
    starved: dict[str, float] = {}
    while True:
        now = time.monotonic()
        for thread in [one for one, until in starved.items() if until <= now]:
            del starved[thread]
            with suppress(OSError):
                os.sched_setscheduler(int(thread), os.SCHED_OTHER, _PLAIN)
        pids = [one.name for one in Path("/proc").iterdir() if one.name.isdecimal()]
        for pid in sample([pid for pid in pids if is_ours(pid, mark)], PROCESSES):
            threads = []
            with suppress(OSError):
                threads = [one.name for one in Path(f"/proc/{pid}/task").iterdir()]
            for thread in sample(threads, THREADS):
                if thread in starved or dice.random() > OFTEN or not wants_to_run(pid, thread):
                    continue
                with suppress(OSError):
                    os.sched_setscheduler(int(thread), os.SCHED_IDLE, _PLAIN)
                    starved[thread] = now + dice.choice(PAUSES)
        time.sleep(_EVERY)


if __name__ == "__main__":
    if os.geteuid():
        sys.exit("no thread is starved: that is for root alone")
    starve(sys.argv[1].encode())
