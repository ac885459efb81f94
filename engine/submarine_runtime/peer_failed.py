"""Keeps the values of this task's frames when another task of the job has failed, for the debugger.

`task` begins it in jobs of several tasks. The driver asks by a file in the folder `ASKED`; the
kernel tells of it by a signal (`F_NOTIFY`, fcntl(2)), as of a question for the stacks. A thread
waits for that signal, and copies what the frames of the main thread hold, wherever that one is:
most often in native code that waits for the very task that failed. A signal handler of Python's
would run in the main thread, once that is back.
"""

from __future__ import annotations

import os
import sys

# The C half of `signal`: the other half imports enum, and the first line would wait for it.
from _thread import allocate_lock, get_ident

from submarine_runtime.lean import suppress
from submarine_runtime.leave import die_by, end_others, note_file
from submarine_runtime.stacks import start_without_signals

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

ASKED = "peer-failed"
"""The folder that the question comes into, in the task's own; on YARN in the container's."""

ASK = f"{ASKED}/frames"
"""The question. What it says does not matter: it is there."""

_BELOW_LAST = 8
"""Which of the signals for programs' own use, counted from the last: beside that of `stacks`."""

_SIGKILL = 9

_ending = allocate_lock()


def begin(folder: str, keep: Callable[[FrameType], None], *, shell: bool = False) -> None:
    """Wait for the question from now on; nothing where the system or the disk has no way to it.

    Parameters
    ----------
    folder
        Where `ASKED` is: the task's own; on YARN the container's.
    keep
        Writes what the frames of the main thread held.
    shell
        Whether a shell waits for this process: it would tell of a signal in the job's log.
    """

    def end() -> NoReturn:
        if shell:
            end_others()
            os._exit(128 + _SIGKILL)
        die_by(_SIGKILL)

    with suppress(OSError, ValueError, ImportError, AttributeError, RuntimeError):
        import _signal  # type: ignore[import-not-found]  # noqa: PLC0415 - of jobs of several tasks
        import fcntl  # noqa: PLC0415 - likewise

        number = _signal.SIGRTMAX - _BELOW_LAST
        with suppress(FileExistsError):
            os.mkdir(f"{folder}/{ASKED}", 0o700)  # noqa: PTH102 - pathlib is slow
        # Kept back from all threads: those of the code have the mask of the one that starts them.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [number])
        start_without_signals(_wait, (f"{folder}/{ASK}", number, get_ident(), keep, end))
        asked = os.open(f"{folder}/{ASKED}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        note_file(asked)
        fcntl.fcntl(asked, fcntl.F_SETSIG, number)
        fcntl.fcntl(asked, fcntl.F_NOTIFY, fcntl.DN_RENAME | fcntl.DN_MULTISHOT)


def over() -> None:
    """Note that the code has come to its own end, which is told as such.

    Where its frames are being kept it is not: this process is ended, and this call does not return.
    """
    _ending.acquire()


def _wait(
    path: str,
    number: int,
    main: int,
    keep: Callable[[FrameType], None],
    end: Callable[[], NoReturn],
) -> None:
    import _signal  # noqa: PLC0415 - as above

    while True:
        _signal.sigwait([number])
        if os.path.exists(path):  # noqa: PTH110 - pathlib is slow
            break
    if not _ending.acquire(blocking=False):
        return
    with suppress(BaseException):
        frame = sys._current_frames().get(main)  # noqa: SLF001 - there is no other way to them
        if frame is not None:
            keep(frame)
    end()
