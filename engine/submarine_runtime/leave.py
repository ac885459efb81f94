"""Ends a task: writes out what is buffered, runs exit hooks within a second, kills what is left.

`task` calls it last. No clean-up of the user's code can hold the GPUs for longer.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import io
import os
import sys
import time
from _thread import get_native_id, start_new_thread

from submarine_runtime import progress_file
from submarine_runtime.lean import standard, suppress
from submarine_runtime.saving import forget_packed

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

PATIENCE = 1.0
"""Seconds that buffers and exit hooks of the user's code have in all, on a machine with room.

Time that this process waits for a processor does not count: nobody's hook is to blame for it.
"""

_STEP = 0.05  # seconds: waits for a processor are measured, and left out, step by step
_LONGEST = 20
"""So many times `PATIENCE` at most, however busy the machine: a GPU is held meanwhile."""

_SIGKILL = 9
_KILLING_TAKES = 1.0  # seconds at most: who hangs in a system call ends only with that
_REMOVES_TEMPORARY_FOLDER = -100
"""The priority of that finalizer in ``multiprocessing.util.get_temp_dir``."""
_WRITERS = {io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom}
_FILE_TYPES = {0o100000, 0o010000, 0o140000}
"""Files, pipes and sockets, as ``st_mode & 0o170000`` tells them (inode(7))."""


def leave(code: int) -> NoReturn:
    """Write out what is buffered, run exit hooks within `PATIENCE`, end all others, and exit.

    Parameters
    ----------
    code
        What to exit with.
    """
    doing = ["what the job's code has buffered took too long to be written out"]
    start_new_thread(_leave_late, (code, get_native_id(), doing))
    _flush()
    forget_packed()
    _end_children()
    hooks = atexit._ncallbacks()  # noqa: SLF001 - nothing else tells
    doing.append("exit hooks of the job's code took too long and were ended" if hooks else "")
    with suppress(BaseException):
        # Temporary folders and log writers of the user's code are put in order here.
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to have them before os._exit
    doing.append("")
    _flush_streams()
    trackers = [
        module._resource_tracker  # noqa: SLF001 - only a tracker knows what it tracks
        for name, module in list(sys.modules.items())
        if name.endswith(".resource_tracker") and hasattr(module, "_resource_tracker")
    ]
    end_others({getattr(tracker, "_pid", None) for tracker in trackers})
    _finalize()
    for tracker in trackers:
        with suppress(BaseException):
            # It removes shared memory that nobody has unlinked, once its pipe is closed.
            tracker._stop()  # noqa: SLF001 - as above
    os._exit(code)


def die_by(number: int) -> NoReturn:
    """End all others and this process by the signal `number`, as the process it stands for did."""
    end_others()
    with suppress(OSError, ValueError):
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _leave_late(code: int, thread: int, doing: list[str]) -> None:
    left, waited = PATIENCE, _waited(thread)
    until = time.monotonic() + _LONGEST * PATIENCE
    while left > 0 and time.monotonic() < until:
        begun = time.monotonic()
        time.sleep(min(left, _STEP))
        before, waited = waited, _waited(thread)
        # This thread waits for a processor, too: it may sleep much longer than it asked for.
        left -= max(0.0, min(time.monotonic() - begun, 2 * _STEP) - (waited - before))
    if doing[-1]:
        with suppress(OSError):
            os.write(2, f"submarine: {doing[-1]}\n".encode())
    end_others()
    os._exit(code)


def _waited(thread: int) -> float:
    """Return how many seconds a thread has been ready to run, and had no processor to run on."""
    with suppress(OSError, ValueError, IndexError):
        descriptor = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
        try:
            return int(os.read(descriptor, 256).split()[1]) / 1e9
        finally:
            os.close(descriptor)
    return 0.0


def _flush() -> None:
    """Write out what streams, open files and the C library still hold."""
    _flush_streams()
    progress_file.flush()
    if reported := sys.modules.get("submarine_runtime.reported"):
        with suppress(Exception):
            reported.flush()
    # A large library makes hundreds of thousands of objects: look through all of them only where
    # one can be an open file. What writes to an old descriptor is a variable, as a rule.
    variables = getattr(sys.modules.get("__main__"), "__dict__", {})
    for thing in gc.get_objects() if _holds_files() else list(variables.values()):
        if type(thing) in _WRITERS:
            with suppress(BaseException):
                thing.flush()
    with suppress(Exception):
        standard("ctypes", sys.path[0]).CDLL(None).fflush(None)


def _descriptors() -> set[str]:
    with suppress(OSError):
        return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    return set()


_inherited: set[str] = set()


def note_files() -> None:
    """Note which files are open before the user's code runs: they are none of its own."""
    _inherited.update(_descriptors())


def note_file(descriptor: int) -> None:
    """Note that the open file `descriptor` is the runtime's, and none of the user's code."""
    _inherited.add(str(descriptor))


def _holds_files() -> bool:
    """Return whether this process has opened anything for writing that it has not closed."""
    for name in _descriptors() - _inherited:
        with suppress(OSError):
            descriptor = os.open(f"/proc/self/fdinfo/{name}", os.O_RDONLY)
            told = os.read(descriptor, 4096).split()
            os.close(descriptor)
            flags = int(told[told.index(b"flags:") + 1], 8)
            if flags & os.O_ACCMODE and os.fstat(int(name)).st_mode & 0o170000 in _FILE_TYPES:
                return True
    return False


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(BaseException):
            stream.flush()  # type: ignore[union-attr]


def _end_children() -> None:
    """End multiprocessing's children, and take its exit hook away.

    That hook shuts pools and managers down with the help of their processes. Those are not there
    any more, or died with a lock in their hands, and so it would wait for ever.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return
    with suppress(BaseException):
        atexit.unregister(sys.modules["multiprocessing.util"]._exit_function)  # noqa: SLF001
    with suppress(BaseException):
        pool = sys.modules.get("multiprocessing.pool")
        for thread in pool.threading.enumerate() if pool else ():
            if getattr(thread, "_state", None) == pool.RUN:  # type: ignore[union-attr] # it has
                thread._state = pool.TERMINATE  # type: ignore[union-attr] # noqa: SLF001 - or it replaces who is killed
    with suppress(BaseException):
        for child in multiprocessing.active_children():
            # Threads of a library that wait for it: what they say of its end is noise.
            sys.modules["threading"].excepthook = lambda _: None  # type: ignore[attr-defined]
            child.kill()


def _finalize() -> None:
    """Remove multiprocessing's semaphores and temporary folder, which its exit hook would."""
    util = sys.modules.get("multiprocessing.util")
    finalizers = getattr(util, "_finalizer_registry", {})
    for (priority, _), finalizer in list(finalizers.items()):
        with suppress(BaseException):
            module = finalizer._callback.__module__  # noqa: SLF001 - nothing else tells what it does
            if priority == _REMOVES_TEMPORARY_FOLDER or module.endswith(".synchronize"):
                finalizer()


def end_others(spared: Iterable[int | None] = ()) -> None:
    """Kill every process of this one's group; where it does not lead the group, its descendants.

    Parameters
    ----------
    spared
        Ids of processes that live on; None among them stands for no process.
    """
    me = os.getpid()
    leads = os.getpgrp() == me
    until = time.monotonic() + _KILLING_TAKES
    while time.monotonic() < until:
        table = _processes()
        if leads:
            others = {pid for pid, (_, group) in table.items() if group == me}
        else:
            others = _below(me, table)
        others -= {me, *spared}
        if not others:
            return
        for pid in others:
            with suppress(OSError):
                os.kill(pid, _SIGKILL)
        time.sleep(0.001)  # the kernel ends them in a moment, and the task's end waits for it


def _processes() -> dict[int, tuple[int, int]]:
    """Return parent and group of every process that lives, by ``/proc/PID/stat`` of proc(5)."""
    table = {}
    with suppress(OSError):
        for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names only
            with suppress(OSError):
                descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
                line = os.read(descriptor, 4096)
                os.close(descriptor)
                # The program's name comes before and may hold anything.
                state, parent, group = line.rpartition(b")")[2].split(maxsplit=3)[:3]
                if state not in (b"Z", b"X"):
                    table[int(name)] = int(parent), int(group)
    return table


def _below(root: int, table: dict[int, tuple[int, int]]) -> set[int]:
    found: set[int] = set()
    fresh = {root}
    while fresh:
        fresh = {pid for pid, (parent, _) in table.items() if parent in fresh} - found
        found |= fresh
    return found
