"""The processes of a cluster, found by what the kernel shows of them, and ended.

No file remembers a pid: a daemon carries its cluster's folder and its own name among its arguments
(``/proc/PID/cmdline``), a container of a NodeManager its folder in ``LOCAL_DIRS``. So what was
started and what runs cannot differ, wherever a start was interrupted, and a number that was given
to a stranger since is never taken for ours: a process is looked at again once its pidfd is held.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from submarine_engine.errors import ClusterError
from submarine_engine.installer.layout import Layout

_PATIENCE = 30.0


def marks(layout: Layout, daemon: str) -> list[str]:
    """Return the arguments by which a daemon is known."""
    return [f"-Dsubmarine.cluster={layout.root}", f"-Dsubmarine.daemon={daemon}"]


def find_daemons(layout: Layout) -> dict[str, int]:
    """Return the pids of a cluster's daemons by name."""
    found = {}
    for pid in _own_pids():
        if name := _daemon_name(pid, layout):
            found[name] = pid
    return found


def end_daemon(layout: Layout, name: str, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a daemon and wait until it is gone; whether it is.

    With a signal that may be caught, the wait ends after half a minute.
    """
    return all(
        _end(pid, lambda pid: _daemon_name(pid, layout) == name, number)
        for pid in list(_own_pids())
        if _daemon_name(pid, layout) == name
    )


def end_containers(layout: Layout) -> None:
    """Kill what NodeManagers of the cluster have started, and wait until it is gone.

    The daemons are gone by now; a container may start more processes while it is looked at.

    Raises
    ------
    ClusterError
        Some are still there after half a minute.
    """
    end = time.monotonic() + _PATIENCE
    while found := [pid for pid in _own_pids() if _is_container(pid, layout)]:
        if time.monotonic() > end:
            raise ClusterError(
                f"processes of the cluster's containers do not end: {', '.join(map(str, found))}",
                where=str(layout.root),
                fix="see what they wait for (`ps`), then say `submarine cluster down` again",
            )
        for pid in found:
            _end(pid, lambda pid: _is_container(pid, layout))


def _end(pid: int, ours: Callable[[int], bool], number: int = signal.SIGKILL) -> bool:
    """Signal `pid` if it is `ours`, and wait for its end; whether it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not ours(pid):  # the number is another process's by now
            return True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        waiting = select.poll()  # a pidfd can be read when its process has ended
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(_PATIENCE * 1000))
    finally:
        os.close(handle)


def _own_pids() -> Iterator[int]:
    """Yield the processes of this user, but for this one."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):
                if entry.stat().st_uid == os.geteuid() and int(entry.name) != os.getpid():
                    yield int(entry.name)


def _daemon_name(pid: int, layout: Layout) -> str | None:
    arguments = _strings(pid, "cmdline")
    if marks(layout, "")[0] not in arguments:
        return None
    prefix = marks(layout, "")[1]
    return next((a.removeprefix(prefix) for a in arguments if a.startswith(prefix)), None)


def _is_container(pid: int, layout: Layout) -> bool:
    """Whether a process was started by a NodeManager of the cluster.

    Its environment names the container's folders; the shell that is about to set that environment
    has its script in the NodeManager's.
    """
    nodes = f"{layout.data}/nodemanager-"
    if any(entry.startswith(f"LOCAL_DIRS={nodes}") for entry in _strings(pid, "environ")):
        return True
    arguments = _strings(pid, "cmdline")
    shell = bool(arguments) and Path(arguments[0]).name in ("bash", "sh")
    return shell and any(argument.startswith(nodes) for argument in arguments[1:])


def _strings(pid: int, file: str) -> list[str]:
    try:
        content = Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:  # gone, or not ours to see
        return []
    return os.fsdecode(content).split("\0")
