"""What the command writes, and where: results to stdout, words about them to stderr.

Its exit code is the job's own where a job ran; ours are those of ``sysexits.h``, which jobs leave
be. A script can tell "my code failed with 3" from "the cluster refused": no code means two things.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from submarine_engine.errors import (
    BundleError,
    ClusterError,
    CommandError,
    ConfigError,
    FlowError,
    JobCancelledError,
    JobError,
    JobFailedError,
    JobLostError,
    JobNotFoundError,
    ProgramError,
    SubmarineError,
    SubmissionError,
)
from submarine_engine.job import JobState

if TYPE_CHECKING:  # a quarter of the time in which `job list` starts
    from submarine_engine.lifecycle import JobStatus

OK = 0
FAILED = 1
USAGE = 64  # EX_USAGE
NOT_BUNDLED = 65  # EX_DATAERR
NO_SUCH_JOB = 66  # EX_NOINPUT
REFUSED = 69  # EX_UNAVAILABLE
INTERNAL = 70  # EX_SOFTWARE
LOST = 71  # EX_OSERR
TRY_AGAIN = 75  # EX_TEMPFAIL
NOT_POSSIBLE = 76  # EX_PROTOCOL: what was asked for is "not possible"
CONFIGURATION = 78  # EX_CONFIG
TIMED_OUT = 124  # as timeout(1)
INTERRUPTED = 130  # as a shell says of SIGINT
PIPE_CLOSED = 141  # as a shell says of SIGPIPE
CANCELLED = 143  # as a shell says of SIGTERM

_BY_ERROR: tuple[tuple[type[SubmarineError], int], ...] = (
    (CommandError, USAGE),
    (ConfigError, CONFIGURATION),
    (BundleError, NOT_BUNDLED),
    (FlowError, NOT_BUNDLED),
    (SubmissionError, REFUSED),
    (JobNotFoundError, NO_SUCH_JOB),
    (JobCancelledError, CANCELLED),
    (JobLostError, LOST),
    (JobFailedError, FAILED),  # where the job's own code is not known
    (JobError, NOT_POSSIBLE),
    (ClusterError, TRY_AGAIN),
)

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# States of jobs and of tasks, by word.
_STATES = {
    "queued": "yellow", "pending": "yellow", "starting": "cyan", "running": "cyan",
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "killed": "yellow", "lost": "red",
}  # fmt: skip


class Output:
    """The two streams of the command.

    Parameters
    ----------
    json
        Whether a program reads: objects, one a line, in place of text.
    out, err
        Text streams; ``sys.stdout`` and ``sys.stderr`` unless given.
    """

    def __init__(
        self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.json = json
        self.out = out or _open(sys.stdout)
        self.err = err or _open(sys.stderr)
        for stream in (self.out, self.err):
            if isinstance(stream, io.TextIOWrapper):
                # A terminal without Unicode shows "?" where it would end the program otherwise.
                stream.reconfigure(errors="replace")
        self.live = not json and _is_terminal(self.err)
        self._colours = {id(stream): _has_colour(stream) for stream in (self.out, self.err)}

    def line(self, text: str = "") -> None:
        """Write `text` as a line of the result."""
        self.out.write(f"{text}\n")

    def note(self, text: str) -> None:
        """Write `text` as a line about the result, for people only."""
        if not self.json:
            self.out.flush()
            self.err.write(f"{text}\n")
            self.err.flush()

    def warning(self, text: str) -> None:
        """Write `text` to stderr, what people and programs have to know of what comes next."""
        if self.json:
            self.err.write(json.dumps({"warning": text}) + "\n")
            self.err.flush()
        else:
            self.note(text)

    def data(self, value: Mapping[str, Any]) -> None:
        """Write `value` as one JSON object on a line, at once."""
        self.out.write(json.dumps(value) + "\n")
        self.out.flush()

    def raw(self, stream: str, data: bytes) -> None:
        """Write `data`, bytes of a job's `stream` (``stdout``, ``stderr``) as they are, at once."""
        target = self.err if stream == "stderr" else self.out
        target.flush()
        target.buffer.write(data)
        target.buffer.flush()

    def error(self, error: SubmarineError) -> None:
        """Write what, where and the fix of `error` to stderr."""
        if self.json:
            record = {"error": type(error).__name__, "what": error.what}
            self.err.write(json.dumps({**record, "where": error.where, "fix": error.fix}) + "\n")
        else:
            self.err.write(f"{self.style('submarine:', 'red', self.err)} {visible(str(error))}\n")
        self.err.flush()

    def has_colour(self, stream: str) -> bool:
        """Return whether `stream` (``stdout``, ``stderr``) shows colours."""
        return self._colours[id(self.err if stream == "stderr" else self.out)]

    def style(self, text: str, colour: str, stream: TextIO | None = None) -> str:
        """Return `text` in a colour where the stream shows any (stdout unless given).

        Parameters
        ----------
        text
            What is shown.
        colour
            Its name, as ``red`` or ``dim``.
        stream
            Where it is shown.
        """
        if not self._colours[id(stream or self.out)]:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def state(self, state: JobState, stream: TextIO | None = None) -> str:
        """Return `state` as a word, in its colour where `stream` (stdout if None) shows any."""
        return self.style(state.value, _STATES[state.value], stream)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write `rows` below `headings`, as wide as they need to be."""
        cells = [[visible(cell, line=True) for cell in row] for row in rows]
        widths = [
            max(width(heading), *(width(row[i]) for row in cells)) if cells else width(heading)
            for i, heading in enumerate(headings)
        ]
        head = [
            _padded(heading.upper(), wide) for heading, wide in zip(headings, widths, strict=True)
        ]
        self.line(self.style("  ".join(head).rstrip(), "bold"))
        for row in cells:
            padded = [_padded(cell, wide) for cell, wide in zip(row, widths, strict=True)]
            if "state" in headings:
                at = headings.index("state")
                padded[at] = self.style(padded[at], _STATES.get(row[at], "dim"))
            self.line("  ".join(padded).rstrip())


def _padded(cell: str, wide: int) -> str:
    return cell + " " * (wide - width(cell))


def visible(text: str, *, line: bool = False) -> str:
    """Return text that no terminal obeys: control characters shown, not sent.

    Names, messages and reasons come from jobs, and a terminal does what escape codes say.

    Parameters
    ----------
    text
        A name, a message, a reason: of a job, of its user, of a server.
    line
        Whether it is to stay on one line: newlines become spaces, too.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char == "\n" and not line
        else " "
        if char in "\n\t"
        else f"\\x{ord(char):02x}"
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else char
        for char in text
    )


def width(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clipped(text: str) -> str:
    """Return what of `text` fits on a line of the terminal, with a column to spare."""
    left = shutil.get_terminal_size().columns - 1
    if width(text) <= left:
        return text
    fitting = ""
    for char in text:
        left -= width(char)
        if left < 0:
            break
        fitting += char
    return fitting


def _open(stream: TextIO | None) -> TextIO:
    """Return a stream of this process; it is None where the command was started without one."""
    return stream or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - for its life


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _has_colour(stream: TextIO) -> bool:
    # https://no-color.org: present and not empty, whatever its value.
    return _is_terminal(stream) and not os.environ.get("NO_COLOR")


def code_of_error(error: SubmarineError) -> int:
    """Return the exit code that stands for `error`."""
    if isinstance(error, ProgramError):
        return error.exit_code
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), INTERNAL)


def code_of_job(status: JobStatus) -> int:
    """Return the exit code of a command whose job is over.

    Parameters
    ----------
    status
        The job, over.

    Returns
    -------
    int
        0 where it succeeded; the code of the first task that failed (128 and the signal where a
        signal ended it), 1 where none is known; 143 where it was cancelled; 71 where it was lost.
    """
    if status.state is JobState.SUCCEEDED:
        return OK
    if status.state is JobState.CANCELLED:
        return CANCELLED
    if status.state is JobState.LOST:
        return LOST
    failed = status.task(status.failed_task)
    first = next((task.exit_code for task in status.tasks if task.exit_code), FAILED)
    code = (failed and failed.exit_code) or first
    return 128 - code if code < 0 else code & 0xFF or FAILED
