"""``input()`` and ``getpass()`` in a job that somebody waits for: they ask that person.

`display_hooks` puts them in the place of Python's own. A question is a frame beside the logs, and a
named pipe ``answer-NUMBER`` in the task's folder. The front end that takes the question opens the
pipe, writes a line at once, and the answer, a line of JSON, when it is given. So an answer never
lies on a disk, and when the front end ends, so does the pipe. The log gets what a terminal would
show: the prompt, and what was typed unless it is secret.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock

from submarine_runtime import lean
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from submarine_runtime.displays import DisplayWriter

PATIENCE = 60.0
"""Seconds that a question waits to be taken. Once it is, the person may take any time."""

SLOWEST = 400_000
"""Bytes of displays a second. A cell shows what came before a question first, no faster than its
server takes it (600 kB/s, `submarine_magics.frontend.RATE`): that time is on top of `PATIENCE`.
"""

_LONGEST_PROMPT = 10_000  # characters shown in a front end; the log has all of it
_NOBODY = "the job asks, and nobody is there to answer: the cell that waited for it is gone"


class Questions:
    """Asks; one a task.

    Parameters
    ----------
    frames
        Where the task's questions are written for those who follow it.
    owner
        The task's own process.
    """

    def __init__(self, frames: DisplayWriter, owner: int) -> None:
        self._frames = frames
        self._owner = owner
        self._lock = allocate_lock()
        self._number = 0

    def ask(self, prompt: str, *, password: bool) -> str:
        """Return what the person answers.

        Parameters
        ----------
        prompt
            What is asked; the log has all of it, a front end its first 10,000 characters.
        password
            Whether the answer is secret: then the log does not show it.

        Raises
        ------
        EOFError
            Nobody is there to answer, or the answer was the end of the input.
        """
        if os.getpid() != self._owner:
            raise EOFError("only the job's own process can ask, not a process that it has forked")
        with self._lock:  # threads ask one after another
            self._number += 1
            path = f"{self._frames.folder}/answer-{self._number}"
            typed = "\n"
            os.mkfifo(path, 0o600)
            try:
                # Not waiting for who writes: the question has to be there first.
                pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    self._frames.ask(self._number, prompt[:_LONGEST_PROMPT], password=password)
                    _write(prompt)
                    answer = _answer(pipe, PATIENCE + self._frames.size() / SLOWEST)
                finally:
                    os.close(pipe)
                typed = "\n" if password else f"{answer}\n"
                return answer
            finally:
                os.unlink(path)  # noqa: PTH108 - pathlib takes long to import
                self._frames.end_question(self._number)
                _write(typed)


def _answer(pipe: int, patience: float) -> str:
    from select import POLLIN, poll  # noqa: PLC0415 - only where somebody is asked

    poller = poll()
    poller.register(pipe, POLLIN)
    until = time.monotonic() + patience
    come = b""
    while True:
        left = None if come else max(0.0, until - time.monotonic()) * 1000
        data = os.read(pipe, 1 << 16) if poller.poll(left) else b""
        if not data:
            raise EOFError(_NOBODY)
        come += data
        # Two may watch the job: each says that it takes the question, and the first answer counts.
        answers = [line for line in come.split(b"\n")[:-1] if line != b"taken"]
        if answers:
            told = lean.loads(answers[0].decode())
            if not isinstance(told, str):
                raise EOFError("the input was ended")
            return told


def _write(text: str) -> None:
    """Write to the log itself: the script may have given `sys.stdout` another meaning."""
    with suppress(Exception):  # a stream of the user's own raises what it likes
        sys.stdout.flush()
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]
