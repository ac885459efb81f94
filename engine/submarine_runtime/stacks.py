"""Writes the stacks of a task's threads when the driver asks for them; `task` begins it.

The question is a file that comes into the folder `ASKED` of the task. The kernel tells of it by a
signal (`F_NOTIFY`, fcntl(2)), which a thread waits for: it takes Python's lock, and tells where all
threads stand. Whoever reads the frames of a thread without that lock, as `faulthandler` does, reads
what changes under its eyes, and that may end the process.

Where a native call holds the lock there is no such answer, and the driver asks once more, by the
folder `MAIN_ASKED`. That signal is the main thread's own, and `faulthandler` tells in C where this
one stands: it is interrupted for that, so its frames keep still.

`os.fork` warns of threads, so there is none while the code forks. On YARN no driver sees the
folders. The process beside the task brings question and answer by the application's master
(`relay`).
"""

from __future__ import annotations

import os
import sys
import time

# The C half of `threading`: the other half takes long to import.
from _thread import get_ident, get_native_id, start_new_thread

from submarine_runtime.lean import mode_in, suppress
from submarine_runtime.leave import note_file

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ASKED = "asked"
"""The folder that questions come into, in the task's own; on YARN in the container's."""

ASK = f"{ASKED}/stacks"
"""The question: who asks calls it by a name of its own."""

MAIN_ASKED = "asked-main"
"""The folder of the question where the main thread stands, for whom `ASK` has had no answer."""

ASK_MAIN = f"{MAIN_ASKED}/stacks"
"""That question. It is not asked of who has answered meanwhile."""

STACKS = "stacks"
"""The answer, in the form of `faulthandler`. Where it is known, the first line is ``cpu SECONDS io
BYTES``: how long processors have worked for the task's processes, and what these have moved.
"""

USED = "used"
"""That line alone, where the launcher asks for the driver."""

LARGEST = 1 << 18
"""Bytes that an answer may have."""

CPU = b"cpu "

_MOST_FRAMES = 100  # of a thread, as `faulthandler` has it
_MOST_TEXT = 500  # characters of a name, likewise
_ENDS_WITHIN = 1.0  # seconds in which the thread is gone before a fork; else the fork warns of it
_LOOK = 0.0002  # seconds: `os.fork` of the job's code waits for this

_WARNS_OF_THREADS = (3, 12)
"""The Python whose `os.fork` began to."""

_BELOW_LAST, _MAIN_BELOW_LAST = 9, 7
"""Which of the signals for programs' own use, counted from the last. Nothing known takes them."""


def begin(folder: str) -> None:
    """Answer from now on in a folder; nothing where the system or the disk has no way to it."""
    with suppress(OSError, ValueError, ImportError, AttributeError, RuntimeError):
        # Here: what runs a command has no need for them.
        import _signal  # type: ignore[import-not-found]  # noqa: PLC0415 - as `task` has it
        import faulthandler  # noqa: PLC0415

        number, main_number = (_signal.SIGRTMAX - at for at in (_BELOW_LAST, _MAIN_BELOW_LAST))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        answer = os.open(f"{folder}/{STACKS}", flags, mode_in(folder))
        note_file(answer)
        # First the answers: without one a signal would end the process. Code that lets all signals
        # through to a thread of its own has this one's stack for an answer to the first question.
        for one in (number, main_number):
            faulthandler.register(one, answer, all_threads=False)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [number])
        waiter = _Waiter(f"{folder}/{STACKS}", number)
        waiter.start()
        if sys.version_info >= _WARNS_OF_THREADS:
            os.register_at_fork(before=waiter.end, after_in_parent=waiter.start)
        _tell_of(f"{folder}/{ASKED}", number)
        _tell_of(f"{folder}/{MAIN_ASKED}", main_number, get_native_id())


def _tell_of(folder: str, number: int, thread: int | None = None) -> None:
    """Have the kernel send a signal, to one thread or whichever, for a file that comes there."""
    import fcntl  # noqa: PLC0415 - as above

    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is slow
    asked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    note_file(asked)
    fcntl.fcntl(asked, fcntl.F_SETSIG, number)
    if thread is not None:
        owner = (0).to_bytes(4, sys.byteorder) + thread.to_bytes(4, sys.byteorder)
        fcntl.fcntl(asked, _F_SETOWN_EX, owner)
    fcntl.fcntl(asked, fcntl.F_NOTIFY, fcntl.DN_RENAME | fcntl.DN_MULTISHOT)


_F_SETOWN_EX = 15
"""See fcntl(2): the owner is a type, 0 for a thread, and its number."""


def start_without_signals(work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """Start a thread that no signal interrupts, from its first moment on.

    Whatever comes is the main thread's, or waited for. A thread that keeps signals back by itself
    is late where the processor is busy: what came before then was its own, an answer without a line
    of the code's, say.

    Parameters
    ----------
    work, arguments
        What the thread calls, and with what.

    Raises
    ------
    RuntimeError
        The system has no more threads.
    """
    import _signal  # noqa: PLC0415 - as above

    kept = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        start_new_thread(work, arguments)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, kept)


class _Waiter:
    """The thread that answers; begun by the main one.

    Parameters
    ----------
    path
        Of the answer.
    number
        The signal that it waits for, kept back from all threads.
    """

    def __init__(self, path: str, number: int) -> None:
        self._path, self._number = path, number
        self._main = get_ident()
        self._ident = self._native = 0
        self._is_asked = False
        # Holds one while the thread is asked to end. Who takes it out, at once as `list.pop` does,
        # decides: the thread ends, or stays. A lock could be held as the code forks.
        self._end: list[None] = []

    def start(self) -> None:
        """Wait from now on, unless it does."""
        if self._native and self._is_asked:  # it took longer than the fork waited for
            self._is_asked = False
            if self._takes_end():
                return
            self._native = 0
        if not self._native:
            self._native = -1
            with suppress(RuntimeError):  # no more threads: nobody answers
                start_without_signals(self._wait, ())

    def _takes_end(self) -> bool:
        with suppress(IndexError):
            self._end.pop()
            return True
        return False

    def end(self) -> None:
        """Have no thread where this is the only one beside the caller's."""
        import _signal  # noqa: PLC0415 - as above

        until = time.monotonic() + _ENDS_WITHIN
        with suppress(OSError):
            while self._native and time.monotonic() < until:
                others = os.listdir("/proc/self/task")  # noqa: PTH208 - names only
                if len(others) > 2:  # noqa: PLR2004 - a thread of the code's: the fork warns of it
                    return
                if self._native > 0 and not self._is_asked:
                    self._is_asked = True
                    self._end.append(None)
                    _signal.pthread_kill(self._ident, self._number)
                elif self._is_asked and str(self._native) not in others:
                    self._native, self._is_asked = 0, False
                time.sleep(_LOOK)

    def _wait(self) -> None:
        import _signal  # noqa: PLC0415 - as above

        self._ident, self._native = get_ident(), get_native_id()
        while True:
            _signal.sigwait([self._number])
            if self._takes_end():
                return
            with suppress(BaseException):  # no room, say; the next one may be answered
                self._answer()

    def _answer(self) -> None:
        """Write where all threads stand, unless the main one has told that meanwhile."""
        # Who has just had Python's lock keeps it for some milliseconds, so this is one moment.
        places = {
            thread: _places(frame)
            for thread, frame in sys._current_frames().items()  # noqa: SLF001 - there is no other way to them
            if thread != get_ident()
        }
        main = _text(self._main, places.pop(self._main))
        others: list[bytes] = []
        room = LARGEST - len(main)
        for thread, found in places.items():
            text = _text(thread, found)
            room -= len(text)
            if room < 0:
                break
            others.append(text)
        answer = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not os.fstat(answer).st_size:
                os.write(answer, b"\n".join([*others, main]))
        finally:
            os.close(answer)


def _places(frame: FrameType | None) -> list[tuple[str, int, str]]:
    """Return file, line and function of a frame and of those around it."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        found.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return found


def _text(thread: int, places: list[tuple[str, int, str]]) -> bytes:
    """Return a thread as `faulthandler` writes it."""
    lines = [f"Thread 0x{thread:016x} (most recent call first):\n"]
    lines += [
        f'  File "{_plain(file)}", line {line} in {_plain(name)}\n' for file, line, name in places
    ]
    return "".join(lines).encode("ascii", "backslashreplace")


def _plain(text: str) -> str:
    text = text[:_MOST_TEXT]
    if text.isprintable():
        return text
    return text.encode("unicode_escape").decode("ascii")


def forget_last(folder: str) -> None:
    """Empty the last answer, before somebody asks anew; OSError where there is none yet.

    Parameters
    ----------
    folder
        The one that `begin` was given.
    """
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    answer = os.open(f"{folder}/{STACKS}", flags)
    try:
        os.ftruncate(answer, 0)  # refused for what is no plain file
    finally:
        os.close(answer)


def has_answered(folder: str) -> bool:
    """Return whether something is told since the last question; OSError where none was asked.

    Parameters
    ----------
    folder
        The one that `begin` was given.
    """
    return os.stat(f"{folder}/{STACKS}", follow_symlinks=False).st_size > 0  # noqa: PTH116 - pathlib is slow


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
    """Return an answer with the line that says what the task has used, as `used` has it.

    Parameters
    ----------
    seconds, moved
        How long processors have worked, and the bytes that were read and written.
    told
        The answer without that line.
    """
    return b"%b%.2f io %d\n%b" % (CPU, seconds, moved, told)
