"""The stacks of a task's threads, told when the driver asks for them.

The question is a file that comes into the folder `ASKED` of the task. The kernel tells of it by a
signal (`F_NOTIFY`, fcntl(2)), and `faulthandler` answers that in C: it writes all threads' stacks
without Python's lock. So code that holds the lock in a native call is seen, too, and a job that
nobody asks has neither a thread nor a process for it: `os.fork` warns of threads.

On YARN no driver sees the folder. The process beside the task brings question and answer by the
application's master (`relay`).
"""

from __future__ import annotations

import os

from submarine_runtime.lean import mode_in, suppress
from submarine_runtime.leave import note_file

ASKED = "asked"
"""The folder that questions come into, in the task's own; on YARN in the container's."""

ASK = f"{ASKED}/stacks"
"""The question: who asks calls it by a name of its own."""

STACKS = "stacks"
"""The answer: as `faulthandler` writes it. Where it is known, the first line is ``cpu SECONDS io
BYTES``: how long processors have worked for the task's processes, and what these have moved.
"""

LARGEST = 1 << 18
"""Bytes that an answer may have: `faulthandler` writes 100 threads of 100 lines at most."""

CPU = b"cpu "

_answers: list[int] = []
"""The descriptor of the answer, once it is there."""

_BELOW_LAST = 7
"""Which of the signals for programs' own use, counted from the last. Nothing known takes it."""


def begin(folder: str) -> None:
    """Answer from now on in a folder; nothing where the system or the disk has no way to it."""
    with suppress(OSError, ValueError, ImportError, AttributeError, RuntimeError):
        # Here: what runs a command has no need for them.
        import _signal  # type: ignore[import-not-found]  # noqa: PLC0415 - as `task` has it
        import faulthandler  # noqa: PLC0415
        import fcntl  # noqa: PLC0415

        number = _signal.SIGRTMAX - _BELOW_LAST
        with suppress(FileExistsError):
            os.mkdir(f"{folder}/{ASKED}", 0o700)  # noqa: PTH102 - pathlib is slow
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        answer = os.open(f"{folder}/{STACKS}", flags, mode_in(folder))
        note_file(answer)
        # First the answer: without one the signal would end the process.
        faulthandler.register(number, answer)
        _answers[:] = [answer]
        asked = os.open(f"{folder}/{ASKED}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        note_file(asked)
        fcntl.fcntl(asked, fcntl.F_SETSIG, number)
        fcntl.fcntl(asked, fcntl.F_NOTIFY, fcntl.DN_RENAME | fcntl.DN_MULTISHOT)


def tell_only_of_main() -> None:
    """Answer with the main thread's stack alone from now on.

    `faulthandler` reads the stacks of other threads while these run, and what changes under its
    eyes may end the process. So whoever runs beside the main thread and must not be lost says this.
    """
    with suppress(OSError, ValueError, ImportError, AttributeError, RuntimeError):
        import _signal  # noqa: PLC0415 - as above
        import faulthandler  # noqa: PLC0415 - as above

        for answer in _answers:
            faulthandler.register(_signal.SIGRTMAX - _BELOW_LAST, answer, all_threads=False)


def forget_last(folder: str) -> None:
    """Empty the last answer, before somebody asks anew; OSError where there is none yet."""
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    answer = os.open(f"{folder}/{STACKS}", flags)
    try:
        os.ftruncate(answer, 0)  # refused for what is no plain file
    finally:
        os.close(answer)


def used(roots: list[int]) -> list[tuple[float, int]]:
    """Return what each process and all below it have used, by proc(5).

    Parameters
    ----------
    roots
        The processes.

    Returns
    -------
    list of tuple
        Of each: the seconds that processors have worked, and the bytes that were read and written
        (of files, pipes and sockets). Bytes of other programs do not count: a monitor that a
        library starts moves some as long as it lives.
    """
    times: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names only
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
            # The program's name comes before and may hold anything.
            fields = file.read().rpartition(b")")[2].split()
            # Its own in user and system mode, and of the children that it has waited for.
            times[int(name)] = sum(map(int, fields[11:15]))
            children.setdefault(int(fields[1]), []).append(int(name))
    found = []
    for root in roots:
        ticks, moved, todo, program = 0, 0, [root], _program(root)
        while todo:
            pid = todo.pop()
            ticks += times.get(pid, 0)
            moved += _moved(pid) if _program(pid) == program else 0
            todo += children.get(pid, ())
        found.append((ticks / os.sysconf("SC_CLK_TCK"), moved))
    return found


def _program(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - as above
    return ""


def _moved(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/io", "rb") as file:  # noqa: PTH123 - as above
        read, wrote = file.read().split()[1:4:2]
        return int(read) + int(wrote)
    return 0


def with_use(seconds: float, moved: int, told: bytes) -> bytes:
    """Return an answer with the line that says what the task has used, as `used` has it."""
    return b"%b%.2f io %d\n%b" % (CPU, seconds, moved, told)
