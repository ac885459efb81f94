"""A job's logs as a cell's output: a head as it comes, then a rolling tail in one display.

The traceback at the end of a failed job's log is held back: the cell shows it once, as its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from IPython import get_ipython
from IPython.display import clear_output, display, publish_display_data, update_display
from submarine_engine.events import Display
from submarine_engine.logs import PlainDisplays, Renderer, Tail

from submarine_magics import frontend
from submarine_magics.card.display import JOB_TYPE, WIDGET_TYPE

# The traceback at the end of a failed job's log: the cell shows it once, as its own error.
#
# The log keeps it. The cell's error tells the same by the notebook's cells and lines, so that text
# is kept back from the first line of a traceback until it is clear whether the job ended by it.


# Not those within a group, which stand behind bars, nor those of one of several tasks.
_HEAD = re.compile(
    r"(?:  \+ Exception Group |(?<!\| )(?<!\| \x1b\[0m)(?<!Group ))"
    r"Traceback \(most recent call last\):\n"
)
_GROUP = "  + "
_CHAINED = (
    "\n\nDuring handling of the above exception, another exception occurred:\n\n",
    "\n\nThe above exception was the direct cause of the following exception:\n\n",
)
_KEPT_BACK = 1.0
"""Seconds that text waits at most: one that code prints itself is shown after that."""


class HeldTraceback:
    """Gives text to `output`, but for the traceback that a job ends by.

    Parameters
    ----------
    output
        Where text goes.
    """

    def __init__(self, output: Renderer) -> None:
        self._output = output
        self._held: list[tuple[str, str, str] | Display] = []
        self._until = 0.0

    def text(self, task: str, stream: str, text: str) -> None:
        """Take the next text of a log.

        Parameters
        ----------
        task
            Whose log it is.
        stream
            Which one: ``stdout`` or ``stderr``; tracebacks are in the latter.
        text
            What came.
        """
        if not self._held:
            found = _HEAD.search(text) if stream == "stderr" else None
            if found is None:
                self._output.text(task, stream, text)
                return
            if found.start():
                self._output.text(task, stream, text[: found.start()])
            text = text[found.start() :]
            self._until = time.monotonic() + _KEPT_BACK
        self._held.append((task, stream, text))  # what comes after it has to wait, too

    def display(self, item: Display) -> None:
        """Take the next display, `item`: in order with the text."""
        if self._held:
            self._held.append(item)
        else:
            self._output.display(item)

    def tick(self) -> None:
        """Show what has waited long enough."""
        if self._held and time.monotonic() >= self._until:
            self.release()

    def release(self) -> None:
        """Show all of it."""
        held, self._held = self._held, []
        for item in held:
            if isinstance(item, Display):
                self._output.display(item)
            else:
                self._output.text(*item)

    def drop(self, summary: str, notes: Sequence[str] = ()) -> None:
        """Show all of it but for the traceback that ends with `summary`, and then its notes."""
        errors = [item for item in self._held if not isinstance(item, Display)]
        errors = [item for item in errors if item[1] == "stderr"]
        if not errors:
            return
        task = errors[0][0]
        before, after = _without_last("".join(text for _, _, text in errors), summary, notes)
        others = [item for item in self._held if item not in errors]
        self._held = [(task, "stderr", before), *others, (task, "stderr", after)]
        self._held = [item for item in self._held if isinstance(item, Display) or item[2]]
        self.release()


def _without_last(text: str, summary: str, notes: Sequence[str]) -> tuple[str, str]:
    """Return what is before and after the last traceback of `text`, chained ones included.

    All of the text is before where that traceback is not of the exception `summary`.
    """
    heads = [found.start() for found in _HEAD.finditer(text)]
    if not heads or not summary:
        return text, ""
    last = heads[-1]
    # A module's name comes before the type here, and `summary` may be cut.
    bar, rest = (r"  \| ", r"(?: +[|+].*\n?)*") if text.startswith(_GROUP, last) else ("", "")
    # What to do next is no part of a summary: our own errors have it as their last line.
    advice = r"(?:→ .*\n?)?"
    lines = "".join(
        [advice, *(rf"(?:{re.escape(note)}\n?)?" for note in notes)] if not rest else ""
    )
    summary = rf"\n{bar}".join(map(re.escape, summary.split("\n")))
    told = rf"^{bar}(?:[\w.]+\.)?{summary}.*\n?{lines}{rest}"
    end = re.compile(told, re.MULTILINE).search(text, last)
    if end is None:
        return text, ""
    begin = last
    for head in reversed(heads[:-1]):
        if not text[:begin].endswith(_CHAINED):
            break
        begin = head
    return text[:begin], text[end.end() :]


# A job's logs as a cell's output: a head as it comes, then a rolling tail in one display.
#
# stdout and stderr are the cell's own streams. A notebook that stored all of a long log would not
# open again, so a cell keeps about `limit` bytes: once the head is spent, one display shows the
# last part, and ends with the number of lines left out and where the full log is. What the job
# displays stands between, as it does in any cell.


_UPDATE_EVERY = 0.2  # seconds: each update sends the tail again, see `_LIVE_SIZE`
_LEAST_TAIL = 2_000
_LIVE_SIZE = 8_000
"""Characters of the tail while the job runs: five updates a second stay a trickle."""


class CellOutput(Renderer):
    """Writes a job's text to the cell that runs now; only ever used from the cell's own thread.

    Parameters
    ----------
    full_log
        Where the whole log is, in words.
    limit
        Bytes that the cell keeps, about; None keeps all (a terminal's scroll-back is its own).
    """

    def __init__(self, full_log: str, limit: int | None) -> None:
        self._full_log = full_log
        self._limit = limit
        self._head = None if limit is None else limit // 2
        self._tail_size = (limit or 0) // 3
        self._tail: Tail | None = None
        self._display_id = ""
        self._due = 0.0
        self._stale = False
        self._clear = False
        self._plain = PlainDisplays()
        self.cleared: Callable[[], None] = _nothing
        """Called when all of the cell's output was taken away, with what stood above it."""

        self.below_value = False
        """Whether the job's value is this cell's: figures left open come below it, at its end."""

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - told in the text
        """Take the next text of a log: to the stream while the head lasts, then to the tail."""
        self._clear_if_waiting()
        if self._tail is None:
            head, text = self._split(text)
            if head:
                frontend.shared.take(_stored(head) if self._limit else 0)
                _write(stream, head)
        if text:
            if self._tail is None:
                self._tail = Tail(self._tail_size)
            self._tail.add(text)
            self._stale = True

    def display(self, item: Display) -> None:
        """Show what the job shows, below the text before it; in a terminal as text."""
        if self._limit is None:
            if text := self._plain.text(item):
                self.text(item.task, "stdout", _marked(item.mark, text))
            return
        if item.mark and list(item.data) == ["text/plain"]:  # as a line of text: a progress bar
            item = replace(item, data={"text/plain": _marked(item.mark, item.text)}, mark="")
        if item.last and self.below_value:
            self._show_after_value(item)
            return
        if item.kind == "clear":
            self._clear = True
            if not item.wait:
                self._clear_if_waiting()
            return
        if item.kind == "display":
            self._clear_if_waiting()
            if item.mark:
                self.text(item.task, "stdout", f"{item.mark}\n")
            self._end_tail()
        _publish(item)

    def _show_after_value(self, item: Display) -> None:
        """Show a display where a notebook shows it: when the shell has shown the cell's value."""
        events = get_ipython().events

        def show() -> None:
            events.unregister("post_execute", show)
            if item.mark:
                _write("stdout", f"{item.mark}\n")
            _publish(item)

        events.register("post_execute", show)

    def _clear_if_waiting(self) -> None:
        if self._clear:
            self._clear, self._tail, self._display_id, self._stale = False, None, "", False
            self._tail_size = (self._limit or 0) // 3
            self._head = None if self._limit is None else self._limit // 2
            _flush()
            clear_output(wait=True)
            self.cleared()

    def _end_tail(self) -> None:
        """Leave the tail where it is: what comes now stands below it, and so does later text."""
        if self._tail is not None:
            self.flush()
            self._tail, self._display_id = None, ""
            self._tail_size = max(_LEAST_TAIL, self._tail_size // 2)

    def tick(self) -> None:
        """Show the tail where it changed, a few times a second."""
        if self._stale and time.monotonic() >= self._due:
            self._show_tail(_LIVE_SIZE, "so far")

    def flush(self) -> None:
        """Show what is still to be shown; the last part in full."""
        if self._tail is not None:
            self._show_tail(None, "")

    def _split(self, text: str) -> tuple[str, str]:
        """Return what still goes into the head, ending with a line, and what is past it."""
        if self._head is None:
            return text, ""
        size = _stored(text)
        if size <= self._head:
            self._head -= size
            return text, ""
        # Cut by the text's own mean, so that characters that take more room count as such.
        most = len(text) * self._head // size
        self._head = 0
        most = text.rfind("\n", 0, most) + 1 or most
        return text[:most], text[most:]

    def _show_tail(self, size: int | None, so_far: str) -> None:
        if self._tail is None:
            return
        elided, last = self._tail.last(size)
        lines = f"{elided:,} line{'' if elided == 1 else 's'} elided"
        text = f"… {lines}{so_far and ' ' + so_far}, full log: {self._full_log}\n\n{last}"
        bundle = {"text/plain": text}
        frontend.shared.take(_stored(text))
        _flush()
        if self._display_id:
            _raw(update_display, bundle, self._display_id)
        else:
            self._display_id = uuid.uuid4().hex
            _raw(display, bundle, self._display_id)
        self._stale = False
        self._due = time.monotonic() + _UPDATE_EVERY


def _nothing() -> None:
    pass


def _marked(mark: str, text: str) -> str:
    return "".join(f"{mark}{line}" for line in text.splitlines(keepends=True))


def _publish(item: Display) -> None:
    frontend.shared.take(len(json.dumps(item.data)))
    _flush()
    options: dict[str, Any] = {"update": True} if item.kind == "update" else {}
    if item.display_id:
        options["transient"] = {"display_id": item.display_id}
    # Front ends take these for our own word on a job, or for a widget of this kernel.
    ours = (JOB_TYPE, WIDGET_TYPE, frontend.current.log_type)
    shown = {kind: data for kind, data in item.data.items() if kind not in ours}
    publish_display_data(shown, dict(item.metadata), **options)


def in_notebook() -> bool:
    """Return whether output goes to a front end by a kernel, and not to a terminal."""
    return getattr(get_ipython(), "kernel", None) is not None


def has_colour() -> bool:
    """Return whether escape codes of colours are shown as such where the cell's text goes."""
    if in_notebook():
        return frontend.current.colours
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _raw(show: Any, bundle: dict[str, str], display_id: str) -> None:  # noqa: ANN401 - IPython's
    show(bundle, raw=True, display_id=display_id)


def _stored(text: str) -> int:
    """Return the bytes that `text` takes in a notebook file."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))


def _write(stream: str, text: str) -> None:
    """Write and flush, the other stream first: the order on screen is the order of the calls."""
    first, own = (sys.stdout, sys.stderr) if stream == "stderr" else (sys.stderr, sys.stdout)
    first.flush()
    own.write(text)
    own.flush()


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
