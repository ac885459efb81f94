"""Reads numbers out of what a trial prints, such as ``loss: 0.12``, for code that reports nothing.

`trials` begins it for ``--metric-from-log``. A thread reads the trial's own log while the code
runs, whoever writes there: Python, native code, another program. Each line with a name that is
searched for counts as a report, so a trial can be pruned by it. The main thread is told so by a
signal, which ends a wait, too.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from _thread import allocate_lock, get_ident, start_new_thread

from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_STDOUT, _STDERR = 1, 2
_LOOK = 0.1  # seconds between two looks
_PIECE = 1 << 20
_LONGEST_LINE = 1 << 16
_BELOW_LAST = 6
"""Which of the signals for programs' own use, counted from the last: beside those of `stacks` and
`peer_failed`, which the main thread keeps back."""

_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_ENDS = re.compile(rb"[\r\n\x08]+")
# Not the first digits of something else, of 1,000 or of 0.12.3; as a tensor prints itself, too.
_NUMBER = r"([-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?![\w.]*\w|,\d)"
_VALUE = rf"[\"']?\s*[:=]\s*[\"']?(?:[a-z][\w.]*\()?{_NUMBER}"


class Lines:
    """Finds numbers behind names in text that comes in pieces.

    A line ends where a terminal would write over it, too: progress bars are drawn so.

    Parameters
    ----------
    names
        What is looked for. Capitals make no difference: ``Loss=1e-3`` is the loss.
    """

    def __init__(self, names: Sequence[str]) -> None:
        # Not a part of another name or path: val_loss is no loss.
        self._patterns = {
            name: re.compile(rf"(?<![\w./-]){re.escape(name)}{_VALUE}", re.IGNORECASE)
            for name in names
        }
        self._begun = b""

    def add(self, data: bytes) -> list[dict[str, float]]:
        """Return the numbers of each line that is complete by now, where it has any.

        Parameters
        ----------
        data
            What came behind the last piece.
        """
        *whole, begun = _ENDS.split(self._begun + data)
        self._begun = begun[-_LONGEST_LINE:]
        return [found for line in whole if (found := self._read(line))]

    def rest(self) -> dict[str, float]:
        """Return the numbers of the line that has no end yet."""
        return self._read(self._begun)

    def _read(self, line: bytes) -> dict[str, float]:
        text = _COLOURS.sub(b"", line[-_LONGEST_LINE:]).decode(errors="replace")
        found = {}
        for name, pattern in self._patterns.items():
            for said in pattern.finditer(text):  # of several the last counts
                found[name] = float(said[1])
        return found


class LogWatcher:
    """Reads the log of a trial while it runs.

    Parameters
    ----------
    names
        What is looked for.
    begin
        The descriptors of the log, and where the trial's own text begins in each.
    tell
        Called from a thread with a step and numbers by name; returns whether to go on.
    told
        Called from the thread; returns the word by which the trial is to end, or nothing.
    end
        Called in the main thread with that word, to raise.
    """

    def __init__(
        self,
        names: Sequence[str],
        begin: Mapping[int, int],
        *,
        tell: Callable[[int, Mapping[str, float]], bool],
        told: Callable[[], str],
        end: Callable[[str], None],
    ) -> None:
        self._lines = {descriptor: Lines(names) for descriptor in begin}
        self._at = dict(begin)
        self._last: dict[int, dict[str, float]] = {descriptor: {} for descriptor in begin}
        self._tell = tell
        self._told = told
        self._end = end
        self._steps = 0
        self._word = ""
        self._open = False
        self._lock = allocate_lock()
        self._number = signal.SIGRTMAX - _BELOW_LAST

    def __enter__(self) -> LogWatcher:
        """Begin to look."""
        self._open = True
        self._before = signal.signal(self._number, self._hear)
        start_new_thread(self._follow, (get_ident(),))
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False  # first: from here on the signal raises nothing
        with self._lock:
            signal.signal(self._number, self._before)

    def last(self) -> Mapping[str, float]:
        """Return the last number behind each name; stdout's where both streams have some."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # one that the code has closed, or a stand-in of its own
                stream.flush()
        with self._lock:
            said = [*self._read_new()]
            for descriptor, lines in self._lines.items():
                if rest := lines.rest():
                    self._last[descriptor].update(rest)
                    said.append(rest)
            self._report(said)
            return {**self._last.get(_STDERR, {}), **self._last.get(_STDOUT, {})}

    def _hear(self, *_: object) -> None:
        if self._open:
            self._end(self._word)

    def _follow(self, main: int) -> None:
        with suppress(Exception):  # nobody hears any more: the trial's own end says so
            while True:
                time.sleep(_LOOK)
                with self._lock:
                    if not self._open:
                        return
                    said = self._read_new()
                    if not self._report(said):
                        return
                    self._obey(said, main)

    def _report(self, said: Sequence[Mapping[str, float]]) -> bool:
        """Report the numbers of lines; return whether to go on."""
        for found in said:
            step, self._steps = self._steps, self._steps + 1
            # The first thousand each, then each tenth, each hundredth ….
            if step % 10 ** max(0, len(str(step)) - 3) == 0 and not self._tell(step, found):
                return False
        return True

    def _obey(self, said: Sequence[Mapping[str, float]], main: int) -> None:
        word = self._told() if self._steps else ""
        # Once more with each line, where the code has caught what was raised.
        if word and (said or word != self._word):
            self._word = word
            signal.pthread_kill(main, self._number)

    def _read_new(self) -> Sequence[Mapping[str, float]]:
        """Return the numbers of the lines that were written since the last call."""
        said = []
        for descriptor, lines in self._lines.items():
            found = []
            # The log is open for writing alone.
            with suppress(OSError), open(f"/proc/self/fd/{descriptor}", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
                file.seek(self._at[descriptor])
                while piece := file.read(_PIECE):
                    self._at[descriptor] += len(piece)
                    found += lines.add(piece)
            for one in found:
                self._last[descriptor].update(one)
            if descriptor == _STDOUT or not self._last.get(_STDOUT):
                said += found
        return said
