"""Progress bars of tqdm in a job of a notebook: each is text in a display of its own.

`display_hooks` calls it when the code imports tqdm. The display is updated as the bar moves.
"""

from __future__ import annotations

import time
from functools import wraps

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from submarine_runtime.displays import DisplayWriter

_BAR_EVERY = 0.2  # seconds: each state shown is one more frame of the displays' file
_FILE = 4
"""Which of a bar's arguments, by position, is the file that it is written to."""

NESTED = "submarine_nested"
"""In the metadata of a bar below another: the other one tells how far it all is."""

_free: list[str] = []
"""Displays of bars that have gone: the next one takes such a place, as it would on a terminal."""


class _BarFile:
    """The file that a bar writes itself to, again and again; what it shows is its last state."""

    encoding = "utf-8"

    def __init__(self, frames: DisplayWriter) -> None:
        self._frames = frames
        self._display_id = ""
        self._shown = self._state = ""
        self._due = 0.0
        self._moved = self._nested = False

    def write(self, text: str) -> int:
        """Take what a bar writes: a state behind each return, and moves between lines."""
        if "\r" in text:
            self._nested, self._moved = self._moved, False
            self._state = text.rpartition("\r")[2].rstrip()
            if time.monotonic() >= self._due:
                self.flush(now=True)
        elif text and not text.strip("\n"):  # down to its line: there is another bar above it
            self._moved = True
        return len(text)

    def flush(self, *, now: bool = False) -> None:
        """Show the last state, where it is told to: bars ask for it at each write."""
        if not now or self._state == self._shown:
            return
        begins = not self._display_id
        if begins:
            self._display_id = (
                _free.pop() if _free else f"tqdm-{id(self):x}-{time.monotonic_ns():x}"
            )
            begins = self._display_id not in _known
            _known.add(self._display_id)
        self._shown, self._due = self._state, time.monotonic() + _BAR_EVERY
        data, metadata = {"text/plain": self._state}, {NESTED: True} if self._nested else None
        self._frames.show(data, metadata, self._display_id, update=not begins)

    def close(self) -> None:
        """Show the last state of all; one that has gone leaves its place to the next."""
        self.flush(now=True)
        if self._display_id and not self._state:
            _free.append(self._display_id)
            self._display_id = ""


_known: set[str] = set()


def show_lines(module: ModuleType, frames: DisplayWriter) -> None:
    """Have the bars of ``tqdm.auto`` show themselves in displays.

    Without a kernel that is the class of ``tqdm.asyncio``. Other modules may hold it already, so it
    is changed in place.

    Parameters
    ----------
    module
        ``tqdm.asyncio``, just imported.
    frames
        Where the displays are written.
    """
    bar: Any = module.tqdm_asyncio
    begin, close = bar.__init__, bar.close

    @wraps(begin)
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401, N807 - tqdm's
        own = options.get("file") is None and len(args) <= _FILE and not options.get("gui")
        if own:
            options["file"] = self.submarine_line = _BarFile(frames)
        begin(self, *args, **options)

    @wraps(close)
    def close_line(self: Any) -> None:  # noqa: ANN401 - tqdm's
        close(self)
        if line := getattr(self, "submarine_line", None):
            line.close()

    bar.__init__, bar.close = __init__, close_line


def show_bars(module: ModuleType, frames: DisplayWriter) -> None:
    """Have ``tqdm.notebook`` show its bars as text in their displays: here are no live widgets.

    Parameters
    ----------
    module
        ``tqdm.notebook``, just imported.
    frames
        Where the displays are written.
    """
    bar = module.tqdm_notebook
    display = bar.display

    def shown(container: Any) -> None:  # noqa: ANN401 - tqdm's
        container.submarine_id = f"tqdm-{id(container):x}-{time.monotonic_ns():x}"
        frames.show({"text/plain": container.__repr__(True)}, display_id=container.submarine_id)

    @wraps(display)
    def display_text(self: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401 - tqdm's
        display(self, *args, **options)
        container = self.container
        display_id = getattr(container, "submarine_id", None)
        if display_id is None:
            return
        last = bool(options.get("close") or options.get("bar_style"))
        now = time.monotonic()
        if not last and now < getattr(container, "submarine_due", 0.0):
            return
        container.submarine_due = now + _BAR_EVERY
        gone = options.get("close") and not self.leave
        text = "" if gone else container.__repr__(True)
        frames.show({"text/plain": text}, display_id=display_id, update=True)

    bar.display = display_text
    module.display = shown  # type: ignore[attr-defined] # what the bar is shown by, once
