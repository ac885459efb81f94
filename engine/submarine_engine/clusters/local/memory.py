"""A job's memory: what all its processes use together, against what was asked for."""

from __future__ import annotations

from pathlib import Path

from submarine_engine.clusters.processes import Stat, is_driver, pids, stat

_GIB = 1 << 30
_MIB = 1 << 20


def over_limit(root: int, limit: int) -> str | None:
    """Return in words that the processes below `root` use more than `limit` bytes, else None.

    Pages that processes share are counted once: data loaders forked from a large parent do not
    make it larger.
    """
    tree = _descendants(root)
    if sum(seen.rss for seen in tree.values()) <= limit:
        return None
    used = sum(_proportional(pid, seen.rss) for pid, seen in tree.items())
    if used <= limit:
        return None
    return f"used {_words(used)} of {_words(limit)} of memory asked for"


def _descendants(root: int) -> dict[int, Stat]:
    """Return the processes below `root`, but not supervisors of other jobs."""
    everything = {pid: seen for pid in pids() if (seen := stat(pid))}
    children: dict[int, list[int]] = {}
    for pid, seen in everything.items():
        children.setdefault(seen.parent, []).append(pid)
    found: dict[int, Stat] = {}
    todo = children.get(root, [])
    while todo:
        pid = todo.pop()
        if pid not in found and not is_driver(pid):
            found[pid] = everything[pid]
            todo += children.get(pid, [])
    return found


def _proportional(pid: int, rss: int) -> int:
    """Return the process's share in bytes (Pss of proc(5)); `rss` where the kernel hides it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return rss
    kib = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return next(kib, rss // 1024) * 1024


def _words(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"
