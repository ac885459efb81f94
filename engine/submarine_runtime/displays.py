"""Writes what the user's code shows (figures, tables, HTML) as frames into a file beside the logs.

`display_hooks` and `shell` write by it. A frame is a line of JSON: its kind (``display``,
``update``, ``clear``; ``question`` and ``asked`` of `submarine_runtime.asking`), a MIME bundle, and
how many bytes stdout and stderr had at that moment, so that a reader puts it where it belongs
between their text. It is imported once the code imports IPython or matplotlib.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, get_ident

from submarine_runtime.lean import mode_in, standard, suppress
from submarine_runtime.leave import note_file

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from typing import Any

FILE = "displays"
LARGEST = 10 << 20
"""Bytes of one frame."""

MOST = 64 << 20
"""Bytes of all frames of a task."""

INLINE = "module://matplotlib_inline.backend_inline"
"""The backend that a notebook's kernel asks for; in a job, the sign that it is to be as there."""

FIGURES = "SUBMARINE_FIGURES"
"""Variable with settings of that backend, as JSON, where the notebook has others than usual."""

TABLES = "SUBMARINE_TABLES"
"""Variable that is set where the notebook has tables of its own for data frames."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_REGULAR = 0o100000
"""A file, as ``st_mode & 0o170000`` tells it (inode(7))."""

_ALWAYS = ("question", "asked")
"""Kinds of frames that are written however many there are: somebody waits."""

_PLENTY = MOST // 2
_SHORT = 1 << 16


class DisplayWriter:
    """Writes frames behind what the file holds; for all threads, and for forks too.

    Parameters
    ----------
    folder
        The task's.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._file = -1
        self._broken = False
        self._full = False
        self._lock = allocate_lock()
        self._owner = os.getpid()
        self._began = 0.0
        self.last = False
        """Whether the code is over: what is shown now stands below its value in a notebook."""
        self._regions: dict[int, list[Region]] = {}
        self._held: dict[str, dict[str, Any]] = {}
        self._written: dict[str, float] = {}

    def show(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        display_id: str | None = None,
        *,
        update: bool = False,
    ) -> None:
        """Write a MIME bundle; `update` gives a new state to what stands under `display_id`.

        Parameters
        ----------
        data
            What is shown, by MIME type.
        metadata
            As a kernel sends it beside that; None for nothing.
        display_id
            The name for its later states; None where there are none.
        """
        # Its model lives in a kernel, and here is none: a front end would show an error.
        shown = {kind: value for kind, value in data.items() if kind != _WIDGET}
        kind = "update" if update else "display"
        if _WIDGET in data:
            display_id = display_id or widget_id(data[_WIDGET].get("model_id"))
        elif (region := self._region()) is not None and region.take(shown, display_id, kind):
            kind, display_id, shown = "update", region.display_id, region.data()
        self._add({"kind": kind, "id": display_id, "data": shown, "metadata": metadata or {}})

    def clear(self, *, wait: bool) -> None:
        """Write that all before is to go; with `wait`, when something new comes."""
        region = self._region()
        if region is None:
            self._add({"kind": "clear", "wait": wait})
        elif not region.clear(wait=wait):
            told = {"id": region.display_id, "data": region.data(), "metadata": {}}
            self._add({"kind": "update", **told})

    def ask(self, number: int, prompt: str, *, password: bool) -> None:
        """Write that a question is asked; its prompt is what the log has next.

        Parameters
        ----------
        number
            Which of the task's questions it is: ``answer-NUMBER`` is the pipe for its answer.
        prompt
            As a front end is to show it.
        password
            Whether the answer is secret, and not to be shown as it is typed.
        """
        told = {"number": number, "prompt": prompt, "password": password}
        self._add({"kind": "question", **told})

    def end_question(self, number: int) -> None:
        """Write that question `number` is over; what was typed is what the log has next."""
        self._add({"kind": "asked", "number": number})

    def size(self) -> int:
        """Return how many bytes all frames have."""
        with suppress(OSError):  # there is no file, or the code has closed it
            return os.fstat(self._file).st_size
        return 0

    def enter(self, region: Region) -> None:
        """Let what this thread shows from now on be shown in `region`."""
        self._regions.setdefault(get_ident(), []).append(region)

    def leave(self) -> None:
        """Leave the region that was entered last."""
        entered = self._regions[get_ident()]
        entered.pop()
        if not entered:
            del self._regions[get_ident()]

    def _region(self) -> Region | None:
        entered = self._regions.get(get_ident())
        return entered[-1] if entered else None

    def finish(self) -> None:
        """Write the states that were held back."""
        with self._lock:
            held, self._held = self._held, {}
            for frame in held.values():
                self._write(frame)

    def _add(self, frame: dict[str, Any]) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # a stream of the user's own raises what it likes
                stream.flush()
        if self._owner != os.getpid():  # a fork: who held its parent's lock is not here
            self._owner, self._lock = os.getpid(), allocate_lock()
        if self.last:
            frame["last"] = True
        with self._lock:
            self._held.pop(frame.get("id") or "", None)
            self._write(frame, thin=frame["kind"] == "update")

    def _write(self, frame: dict[str, Any], *, thin: bool = False) -> None:
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(f"{self.folder}/{FILE}", flags, mode_in(self.folder))
            note_file(self._file)  # else the end of the task looks for writers of the code's own
            self._began = time.monotonic()
        line = self._line(frame)
        if len(line) > LARGEST:
            _say(f"a display of {len(line) >> 20} MB is left out: one may take {LARGEST >> 20} MB")
            text = frame["data"].get("text/plain")
            if not isinstance(text, str) or len(text) > _SHORT:
                return
            line = self._line({**frame, "data": {"text/plain": text}, "metadata": {}})
        size = os.fstat(self._file).st_size
        now = time.monotonic()
        if thin and size > _PLENTY:
            # A picture that is drawn anew for hours: the longer, the seldomer, so that it never
            # fills what is left. The last state is always written.
            wait = (now - self._began) * len(line) / max(1, MOST - size)
            if now < self._written.get(frame["id"], 0.0) + wait:
                self._held[frame["id"]] = frame
                return
        if size + len(line) > MOST and frame["kind"] not in _ALWAYS:
            if not self._full:
                _say(f"its displays have {MOST >> 20} MB: no more of them are shown")
            self._full = True
            return
        if frame.get("id"):
            self._written[frame["id"]] = now
        begun, self._broken = self._broken, True
        with suppress(OSError):  # a full disk is no reason to end a training
            whole = b"\n" + line if begun else line
            self._broken = os.write(self._file, whole) != len(whole)

    def _line(self, frame: dict[str, Any]) -> bytes:
        told = {**frame, "stdout": _size(1), "stderr": _size(2)}
        json = standard("json", sys.path[0])
        try:
            text = json.dumps(told, default=_plain, allow_nan=False)
        except ValueError:
            text = json.dumps(_finite(told), default=_plain)
        return f"{text}\n".encode()


class Region:
    """A part of the output that is cleared and filled by itself, as an `ipywidgets.Output` is.

    Parameters
    ----------
    display_id
        The display whose state is all that is in it.
    """

    def __init__(self, display_id: str) -> None:
        self.display_id = display_id
        self._items: list[tuple[str | None, dict[str, Any]]] = []
        self._clear = False

    def take(self, data: dict[str, Any], display_id: str | None, kind: str) -> bool:
        """Take a display; False for a new state of one that stands elsewhere.

        Parameters
        ----------
        data
            What is shown, by MIME type.
        display_id
            The name for its later states; None where there are none.
        kind
            ``display``, or ``update`` for a new state.
        """
        if kind == "update":
            mine = [name == display_id for name, _ in self._items]
            self._items = [(name, data if name == display_id else old) for name, old in self._items]
            return any(mine)
        if self._clear:
            self.clear(wait=False)
        self._items.append((display_id, data))
        return True

    def clear(self, *, wait: bool) -> bool:
        """Take all away, with `wait` when something new comes; return whether that is later."""
        self._clear = wait
        if not wait:
            self._items = []
        return wait

    def data(self) -> dict[str, Any]:
        """Return all of it as one MIME bundle."""
        if len(self._items) == 1:
            return self._items[0][1]
        texts = [data.get("text/plain", "") for _, data in self._items]
        found = {"text/plain": "\n".join(map(str, texts))}
        if any("text/html" in data or "image/png" in data for _, data in self._items):
            found["text/html"] = "\n".join(_html(data) for _, data in self._items)
        return found


def widget_id(model_id: object) -> str:
    """Return under which display id the widget of the model `model_id` is shown."""
    return f"widget-{model_id}"


def _html(data: dict[str, Any]) -> str:
    if isinstance(html := data.get("text/html"), str):
        return html
    if isinstance(png := data.get("image/png"), str):
        return f'<img src="data:image/png;base64,{png}">'
    text = str(data.get("text/plain", ""))
    return f"<pre>{text.replace('&', '&amp;').replace('<', '&lt;')}</pre>"


def _size(descriptor: int) -> int | None:
    """Return how many bytes a log has, where it is a file."""
    with suppress(OSError):
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 == _REGULAR:
            return status.st_size
    return None


def _plain(value: Any) -> Any:  # noqa: ANN401 - what a foreign bundle holds
    """Return what JSON has no word for as a kernel sends it."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        import binascii  # noqa: PLC0415 - only here

        return binascii.b2a_base64(value, newline=False).decode()
    for convert in ("item", "isoformat"):  # a number of NumPy's, a date
        with suppress(Exception):
            return getattr(value, convert)()
    with suppress(Exception):
        return list(value)
    return str(value)


def _finite(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):  # noqa: PLR0124 - NaN
        return repr(value)
    return value


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"submarine: {text}\n".encode())
