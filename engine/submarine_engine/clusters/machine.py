"""What this machine is and has."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_MIB = 1 << 20


@cache
def host() -> str:
    """Return the machine's name."""
    return os.uname().nodename


@cache
def boot_id() -> str:
    """Return what is new at each start of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def vcores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory() -> int:
    """Return the machine's memory in mebibytes, or that of this container where it is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2, v1
        with suppress(OSError, ValueError):  # no such controller, or "max": no limit
            total = min(total, int(Path("/sys/fs/cgroup", limit).read_text()))
    return total // _MIB


def oom_kills() -> int:
    """Return how many processes the kernel has ended for lack of memory since the machine began."""
    try:
        counters = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    for line in counters.splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0
