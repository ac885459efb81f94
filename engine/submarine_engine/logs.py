"""Logs as people read them: bytes become text, what is too long is cut, the end is kept."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from submarine_engine.asking import EchoFilter
from submarine_engine.clusters.base import Cursor
from submarine_engine.errors import CommandError, SubmarineError
from submarine_engine.events import Display, Event, LogChunk, Question
from submarine_engine.lifecycle import JobStatus, apply

if TYPE_CHECKING:
    from submarine_engine.future import Job


# From the bytes of a job's logs to text for people: decode, fold progress bars, follow.
#
# The files keep every byte as it was written; what happens here is for showing only. `shown` is the
# one loop behind the cell, the terminal and `launch`. `follow` makes text of it for a `Renderer`,
# and a front end is one; the terminal writes bytes as they are.


_MOST_GATHERED = 1 << 20
"""Bytes gathered before the renderer is called early, so that memory stays flat."""


class TextDecoder:
    """UTF-8 in pieces: a character may be split over chunks, an invalid byte becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, final: bool = False) -> str:  # noqa: FBT001, FBT002 - as in codecs
        """Return the text of `data`; `final` also gives up waiting for a split character."""
        return self._decoder.decode(data, final)


class BarFolder:
    r"""Folds progress bars: of a line that rewrites itself only the last state goes on.

    A bar that began in an earlier piece goes on as ``\r`` and its last state, so that the front
    end overwrites what it shows. ``\r\n`` is a newline. A ``\r`` at the end of a piece waits for
    the next one: what follows decides what it means.
    """

    def __init__(self) -> None:
        self._waiting = ""

    def feed(self, text: str) -> str:
        """Return what is to be shown for `text`, the next piece of a log."""
        text = self._waiting + text
        self._waiting = "\r" if text.endswith("\r") else ""
        if "\r" not in text:
            return text
        text = text.removesuffix("\r").replace("\r\n", "\n")
        first, *rest = text.split("\n")
        goes_on, _, states = first.partition("\r")
        # What comes before the first \r goes on with what is shown; a state after it replaces that.
        first = f"\r{state}" if (state := last_state(states)) else goes_on
        return "\n".join([first, *map(last_state, rest)])


def last_state(line: str) -> str:
    r"""Return what is left on screen of a line that rewrites itself by ``\r``."""
    states = line.split("\r")
    return next((state for state in reversed(states) if state), "")


FIRST = "first"
"""Stands for the task of rank 0, where one says whose log is to be shown."""

ALL = "all"
"""Stands for all tasks, likewise."""

_MOST_NAMED = 8
_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_PLAIN = "\x1b[0m"


class TaskMarks:
    """What stands before the lines of each of several tasks: ``worker-1 | ``.

    All that a job has are of one width, and a task keeps its colour for as long as the job lives,
    also where the job gets more tasks, or fewer.

    Parameters
    ----------
    colour
        Whether what they are shown on has colours.
    """

    def __init__(self, *, colour: bool = False) -> None:
        self._colour = colour
        self._places: dict[str, int] = {}
        self._width = 0

    def of(self, task: str, status: JobStatus) -> str:
        """Return the mark of `task`; where it is new, `status` tells of what others it is one."""
        if task not in self._places:
            for one in (*status.logged, task):
                self._places.setdefault(one, len(self._places))
            self._width = max(map(len, self._places))
        mark = f"{task:<{self._width}} | "
        if not self._colour:
            return mark
        return f"\x1b[{_COLOURS[self._places[task] % len(_COLOURS)]}m{mark}{_PLAIN}"


def is_shown(task: str, which: str, status: JobStatus) -> bool:
    """Return whether the log of a task is asked for.

    Parameters
    ----------
    which
        `FIRST`, `ALL`, or a task's name.
    status
        Of the task's job.
    """
    if which == ALL or len(status.logged) <= 1:
        return True
    return task == (status.ranked[0].task if which == FIRST else which)


def check_task(
    which: str | None,
    tasks: Sequence[str],
    where: str = "--logs",
    words: Sequence[str] = (FIRST, ALL),
) -> None:
    """Refuse a task that the job does not have.

    Parameters
    ----------
    which
        As `is_shown`; None where nobody asked.
    tasks
        The names of the job's.
    where
        Where it was asked.
    words
        What may stand there besides.

    Raises
    ------
    CommandError
        There is no such task.
    """
    if which is None or which in words or which in tasks:
        return
    there = [*words, *tasks[:_MOST_NAMED], *(["…"] if len(tasks) > _MOST_NAMED else [])]
    what = f"the job has no task {which!r}"
    raise CommandError(what, where=where, fix=f"say one of {', '.join(there)}")


class Renderer:
    """What shows a job to a person; this one shows nothing.

    `follow` calls `status`, `text` and `display` as the job goes on, `tick` all the while, and
    `end` once.
    """

    def status(self, status: JobStatus) -> None:
        """Take `status`, the job as it stands after a change."""

    def text(self, task: str, stream: str, text: str) -> None:
        """Take the next text of ``stdout`` or ``stderr`` of `task`.

        Parameters
        ----------
        task
            Which task's.
        stream
            ``stdout`` or ``stderr``.
        text
            What it wrote.
        """

    def display(self, item: Display) -> None:
        """Take `item`, which a task showed; the text before it has been given."""

    def question(self, item: Question) -> str | None:  # noqa: ARG002 - of those that ask
        """Take the question `item`, see `submarine_engine.asking.Asker.take`; here it is text."""
        return None

    def tick(self) -> None:
        """Take a chance to do what is due; comes at least about every 0.1 s."""

    def end(self, status: JobStatus) -> None:
        """Take `status` as the last word: the job is over, all its text has been given."""


def shown(  # noqa: PLR0913 - as `follow`
    job: Job,
    ask: Callable[[Question], str | None],
    start: Cursor | None = None,
    *,
    offset: int = 0,
    idle: float = 0.1,
    wait: bool = True,
) -> Iterator[tuple[Event | LogChunk | Display | None, JobStatus]]:
    """Yield what is to be shown of a job, and the job as it stands; None where nothing is new.

    Parameters
    ----------
    ask
        Takes a task's question; what it returns stands on the screen already and is left out of the
        text that follows.
    start
        Where to begin (default: at the first event and byte).
    offset
        Leave out what each log has before that byte, and displays of that time.
    idle
        Seconds between two looks.
    wait
        Whether to go on until the job is over; False ends where nothing is new.
    """
    status, asked = JobStatus(), EchoFilter()
    for item, _ in job.stream(start or Cursor(), idle=idle if wait else 0):
        if isinstance(item, LogChunk):
            yield asked.without(item.after(offset)), status
        elif isinstance(item, Question):
            asked.hide(item, ask(item) or "")
        elif isinstance(item, Display):
            if max(item.stdout, item.stderr) >= offset:
                yield item, status
        elif item is not None:
            status = apply(status, item)
            yield item, status
        else:
            yield None, status
            if not wait:
                return


def follow(  # noqa: PLR0913 - how to follow, each by its name
    job: Job,
    renderer: Renderer,
    cursor: Cursor | None = None,
    *,
    offset: int = 0,
    interval: float = 0.1,
    wait: bool = True,
    which: str = ALL,
    colour: bool = False,
) -> JobStatus:
    r"""Show a job until it is over.

    Text is gathered and given to `renderer` at most every `interval` seconds a log (earlier only
    where a job floods its log, so that memory stays flat), with progress bars folded. The last
    text and the final status always arrive. Where several tasks are shown, whole lines are given,
    each after its task: ``worker-1 | epoch 3``. What a task shows is given in order with its text;
    of states that follow one another faster only the last.

    Parameters
    ----------
    cursor
        Where to begin in the logs (default: byte 0). Events are read from the beginning always, so
        that the status is whole.
    offset
        Show each log from that byte on; of a log that is shorter, nothing (no cursor can say so).
        Displays are shown that came where one of the two logs had as much.
    interval
        Seconds.
    wait
        Whether to go on until the job is over; False shows what is there now, and calls
        `Renderer.end` only where the job is over already.
    which
        Whose log to show of several tasks: `FIRST`, `ALL`, or a task's name.
    colour
        Whether the tasks before lines are to have colours.

    Returns
    -------
    JobStatus
        As the job ended, or as it stands.

    Raises
    ------
    JobNotFoundError, ClusterError
        The job cannot be read any more; what had been read was given to `renderer`.
    KeyboardInterrupt
        Passes through; the job goes on.
    """
    show = _Show(renderer, interval, which, colour=colour)
    start = Cursor(0, cursor.logs if cursor else {})
    try:
        items = shown(job, show.ask, start, offset=offset, idle=interval / 4, wait=wait)
        for item, status in items:
            show.take(item, status)
    except SubmarineError:
        show.deliver()
        raise
    show.finish()
    status = show.status if show.status.state.final else job.status()
    if wait or status.state.final:
        renderer.end(status)
    return status


class _Log:
    """One log of one task on its way to the renderer."""

    def __init__(self) -> None:
        self._decoder = TextDecoder()
        self._folder = BarFolder()
        self._gathered: list[bytes] = []
        self._begun = ""

    def gather(self, data: bytes) -> None:
        self._gathered.append(data)

    def text(self, *, final: bool = False) -> str:
        data, self._gathered = b"".join(self._gathered), []
        return self._folder.feed(self._decoder.feed(data, final))

    def lines(self, mark: str, *, final: bool = False) -> str:
        """Return whole lines, each after `mark`, its task: lines of many tasks stand mixed."""
        *lines, self._begun = (self._begun + self.text(final=final)).split("\n")
        # A bar rewrites its line for hours: what it has overwritten is not kept.
        self._begun = self._begun[self._begun.rfind("\r", 0, -1) + 1 :]
        if final and self._begun:
            lines.append(self._begun)
        return "".join(f"{mark}{last_state(line)}\n" for line in lines)


class _Show:
    """Gathers what comes and hands it on when it is due."""

    def __init__(self, renderer: Renderer, interval: float, which: str, *, colour: bool) -> None:
        self._which = which
        self._marks = TaskMarks(colour=colour)
        self.status = JobStatus()
        self._shown = self.status
        self._renderer = renderer
        self._interval = interval
        self._logs: dict[tuple[str, str], _Log] = {}
        self._fresh: dict[tuple[str, str], None] = {}  # a set that keeps the order of arrival
        self._displays: list[Display] = []  # what came after all that is fresh
        self._size = 0
        self._due = 0.0  # the first text goes on at once

    def ask(self, item: Question) -> str | None:
        self.deliver()
        return self._renderer.question(item)

    def take(self, item: Event | LogChunk | Display | None, status: JobStatus) -> None:
        mine = isinstance(item, (LogChunk, Display))
        if mine and not is_shown(item.task, self._which, status):  # type: ignore[union-attr]
            item = None
        if isinstance(item, LogChunk):
            if self._displays:
                self.deliver()
            self._gather((item.task, item.stream), item.data)
        elif isinstance(item, Display):
            # A job of one task clears what it shows itself; several share one place.
            alone = len(status.logged) <= 1 or self._which != ALL
            if alone or item.kind != "clear":
                _queue(self._displays, item)
        elif item is not None:
            self.status = status
            if status.state is not self._shown.state:
                self._show_status()
        if self._size >= _MOST_GATHERED or time.monotonic() >= self._due:
            self.deliver()

    def deliver(self) -> None:
        if self._fresh or self._displays or self.status is not self._shown:
            self._due = time.monotonic() + self._interval
        self._show_status()
        fresh, self._fresh, self._size = self._fresh, {}, 0
        for key in fresh:
            self._give(key)
        displays, self._displays = self._displays, []
        for display in displays:
            self._renderer.display(replace(display, mark=self._mark_of(display.task)))
        self._renderer.tick()

    def finish(self) -> None:
        self.deliver()
        for key in self._logs:
            self._give(key, final=True)

    def _gather(self, key: tuple[str, str], data: bytes) -> None:
        self._logs.setdefault(key, _Log()).gather(data)
        self._fresh[key] = None
        self._size += len(data)

    def _show_status(self) -> None:
        # A final status is for `end`: text may still follow it.
        if self.status is not self._shown and not self.status.state.final:
            self._shown = self.status
            self._renderer.status(self.status)

    def _give(self, key: tuple[str, str], *, final: bool = False) -> None:
        log, mark = self._logs[key], self._mark_of(key[0])
        text = log.lines(mark, final=final) if mark else log.text(final=final)
        if text:
            self._renderer.text(*key, text)

    def _mark_of(self, task: str) -> str:
        """Return what stands before what `task` shows; nothing where no other is shown."""
        if self._which != ALL or len(self.status.logged) <= 1:
            return ""
        return self._marks.of(task, self.status)


def _queue(queue: list[Display], item: Display) -> None:
    """Put a display behind those that wait; what it replaces need not be shown."""
    if item.kind == "clear":
        queue[:] = [other for other in queue if other.kind == "update"]
    elif item.kind == "update":
        for place in reversed(range(len(queue))):
            other = queue[place]
            if (other.display_id, other.task) == (item.display_id, item.task):
                if other.kind == "update":
                    queue[place] = item
                    return
                break
    queue.append(item)


class PlainDisplays:
    """What is shown, as text for a terminal: a state that reads as the one before is left out."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], str] = {}

    def text(self, item: Display) -> str:
        """Return the lines of the display `item`; empty where there is nothing to say."""
        text = item.text if item.kind != "clear" else ""
        if item.display_id is not None and item.kind != "clear":
            key = (item.task, item.display_id)
            if item.kind == "update" and self._last.get(key) == text:
                return ""
            self._last[key] = text
        return f"{text}\n" if text else ""


# The end of a long log as it is kept in a cell: the last part, and how much is left out.


class Tail:
    """Keeps the last part of a text; the beginning falls off, line by line.

    Parameters
    ----------
    limit
        Characters to keep; up to twice as many are held in between.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._text = ""
        self._elided = 0

    def add(self, text: str) -> None:
        r"""Append `text`; where it begins with ``\r`` it overwrites the last line kept."""
        if text.startswith("\r"):
            self._text = self._text[: self._text.rfind("\n") + 1]
            text = BarFolder().feed(text[1:])
        self._text += text
        if len(self._text) > 2 * self._limit:
            self._elided, self._text = self.last()

    def last(self, size: int | None = None) -> tuple[int, str]:
        """Return the number of lines left out, and the last `size` characters (default: all kept).

        The text begins with a whole line where one ends within `size`.
        """
        start = self._cut(self._limit if size is None else min(size, self._limit))
        return self._elided + self._text.count("\n", 0, start), self._text[start:]

    def _cut(self, size: int) -> int:
        """Return where the last `size` characters begin, moved on to the next whole line."""
        start = max(0, len(self._text) - size)
        if start == 0 or self._text[start - 1] == "\n":
            return start
        newline = self._text.find("\n", start)
        return start if newline in (-1, len(self._text) - 1) else newline + 1
