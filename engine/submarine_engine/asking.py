"""What a job asks a person is answered where somebody waits for it, see `submarine_runtime.asking`.

Only who follows a job from its submission takes its questions. For all others they are text of the
log, and so they are once they are answered.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable
from select import POLLERR, POLLIN, poll, select
from types import FrameType
from typing import TYPE_CHECKING

from submarine_engine.clusters.base import AnswerPipe
from submarine_engine.errors import SubmarineError
from submarine_engine.events import LogChunk, Question

if TYPE_CHECKING:
    from submarine_engine.future import Job

_LOOK = 0.05  # seconds until a signal is seen that came between two looks

Read = Callable[[str, bool], str]
"""Asks a person: takes the prompt, and whether it is a password; as `input` does otherwise."""


class Asker:
    """Puts a job's questions to the person, one at a time.

    Parameters
    ----------
    read
        How the front end asks.
    """

    def __init__(self, job: Job, read: Read) -> None:
        self._job = job
        self._read = read
        self._line: AnswerPipe | None = None
        self._typed: dict[int, str] = {}

    def take(self, item: Question) -> str | None:
        """Ask, or take note of the end of a question.

        An interrupt leaves the question open, after the handler of interrupts that is in force
        was called: what it means is for that one to say.

        Parameters
        ----------
        item
            What came by the log: a question, or the end of one.

        Returns
        -------
        str or None
            What the front end has shown by itself, and stands in the log from there on; None
            where the question is not asked here.
        """
        if item.kind != "question":
            return self._typed.pop(item.number, None)
        try:
            line = self._job.cluster.take_question(self._job.id, item.task, item.number)
        except SubmarineError:
            return None
        if line is None:
            return None
        self.close()
        self._line = line
        self._typed[item.number] = "\n"
        prompt = item.prompt
        if len(self._job.status().tasks) > 1:  # each of them may ask the same
            prompt = f"{item.task} | {prompt}"
        try:
            answer = _read_until_over(line.pipe, lambda: self._read(prompt, item.password))
        except EOFError:
            line.answer(None)
        else:
            if answer is not None:
                self._typed[item.number] = "\n" if item.password else f"{answer}\n"
                line.answer(answer)
        return item.prompt

    def close(self) -> None:
        """Leave: a question that is still open gets no answer."""
        if self._line is not None:
            self._line.close()
            self._line = None


class EchoFilter:
    """Takes out of a log what the front end has shown by itself."""

    def __init__(self) -> None:
        self._hidden: list[tuple[str, int, bytes]] = []

    def hide(self, item: Question, text: str) -> None:
        """Hide `text` where it comes right after `item`."""
        if text:
            self._hidden.append((item.task, item.stdout, text.encode("utf-8", "replace")))

    def without(self, chunk: LogChunk) -> LogChunk:
        """Return the chunk without what is hidden; all of it where something else stands there."""
        if not self._hidden or chunk.stream != "stdout":
            return chunk
        data, end = bytearray(chunk.data), chunk.offset + len(chunk.data)
        for task, begin, text in reversed(self._hidden):
            first = max(begin, chunk.offset) - chunk.offset
            last = min(begin + len(text), end) - chunk.offset
            expected = text[first + chunk.offset - begin : last + chunk.offset - begin]
            if task == chunk.task and first < last and data[first:last] == expected:
                del data[first:last]
        self._hidden = [one for one in self._hidden if one[1] + len(one[2]) > end]
        return LogChunk(task=chunk.task, stream=chunk.stream, offset=chunk.offset, data=bytes(data))


def read_at_terminal(prompt: str, password: bool) -> str:  # noqa: FBT001 - as `Read`
    """Ask at this process's terminal.

    Not by `input`: a signal that comes right before that waits for a key would wait with it.

    Parameters
    ----------
    prompt
        What is written before the answer.
    password
        Whether what is typed stays unseen.

    Raises
    ------
    EOFError
        The input was ended.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]] if password else before
    line = ""
    try:
        termios.tcsetattr(terminal, termios.TCSADRAIN, quiet)
        sys.stdout.write(prompt)
        sys.stdout.flush()
        while not select([terminal], [], [], _LOOK)[0]:
            pass
        line = sys.stdin.readline()
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        if password or not line:
            sys.stdout.write("\n")
            sys.stdout.flush()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


def _read_until_over(pipe: int, read: Callable[[], str]) -> str | None:
    """Call `read` in the main thread; end it by Ctrl-C, and when the job does not wait any more.

    Returns
    -------
    str or None
        What it read; None where it was ended.
    """
    former = signal.getsignal(signal.SIGINT)
    main = threading.main_thread().ident or 0
    over = threading.Event()
    reading = left = False

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal left
        if not over.is_set() and callable(former):
            former(number, frame)
        if reading:
            left = True
            raise KeyboardInterrupt

    def watch() -> None:
        poller = poll()
        poller.register(pipe, POLLERR)
        poller.register(ended, POLLIN)
        if pipe in dict(poller.poll()):
            over.set()
            # A signal, and to this very thread: it has to wake what waits in a system call.
            signal.pthread_kill(main, signal.SIGINT)

    ended, end = os.pipe()
    watcher = threading.Thread(target=watch, name="submarine-question", daemon=True)
    signal.signal(signal.SIGINT, interrupted)
    try:
        try:
            reading = True
            watcher.start()
            return read()
        finally:
            reading = False
    except KeyboardInterrupt:
        if not left:  # the former handler's own
            raise
        return None
    finally:
        os.write(end, b"\0")
        watcher.join()
        signal.signal(signal.SIGINT, former)
        os.close(ended)
        os.close(end)
