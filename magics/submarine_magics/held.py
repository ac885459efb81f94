"""The traceback at the end of a failed job's log: the cell shows it once, as its own error.

The log keeps it. The cell's error tells the same by the notebook's cells and lines, so that text is
kept back from the first line of a traceback until it is clear whether the job ended by it.
"""

from __future__ import annotations

import re
import time

from submarine_engine.events import Display
from submarine_engine.logs import Renderer

_HEAD = re.compile(r"(?<!│ )Traceback \(most recent call last\):\n")
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
        """Take the next text of a log."""
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
        """Take the next display: in order with the text."""
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

    def drop(self, summary: str) -> None:
        """Show all of it but for the traceback that ends with `summary`."""
        errors = [item for item in self._held if not isinstance(item, Display)]
        errors = [item for item in errors if item[1] == "stderr"]
        if not errors:
            return
        task = errors[0][0]
        before, after = _without_last("".join(text for _, _, text in errors), summary)
        others = [item for item in self._held if item not in errors]
        self._held = [(task, "stderr", before), *others, (task, "stderr", after)]
        self._held = [item for item in self._held if isinstance(item, Display) or item[2]]
        self.release()


def _without_last(text: str, summary: str) -> tuple[str, str]:
    """Return what is before and after the last traceback of `text`, chained ones included.

    All of the text is before where that traceback is not of the exception `summary`.
    """
    heads = [found.start() for found in _HEAD.finditer(text)]
    if not heads or not summary:
        return text, ""
    last = heads[-1]
    # A module's name comes before the type here, and `summary` may be cut.
    end = re.compile(rf"^(?:[\w.]+\.)?{re.escape(summary)}.*\n?", re.MULTILINE).search(text, last)
    if end is None:
        return text, ""
    begin = last
    for head in reversed(heads[:-1]):
        if not text[:begin].endswith(_CHAINED):
            break
        begin = head
    return text[:begin], text[end.end() :]
