"""A job's exception as people read it: in a terminal, and in a notebook in IPython's manner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

_RED, _GREEN, _CYAN, _BLUE, _PLAIN = (f"\x1b[{code}m" for code in (91, 32, 36, 94, 39))
_RULE = 75
_MOST_SHOWN = 20
_NUMBERED = re.compile(r"In \[([0-9]+)\]")
_LINKS = {
    "cause": "The above exception was the direct cause of the following exception:",
    "context": "During handling of the above exception, another exception occurred:",
}


@dataclass(frozen=True)
class Frame:
    """A frame of the user's own code.

    Parameters
    ----------
    cell
        The cell as people call it (``In [3]``), or the file.
    line
        In the cell or file, from 1.
    function
        ``<module>`` outside functions.
    text
        The line itself.
    cell_id
        The notebook's id of the cell, where the front end told it.
    context
        The lines around it with their numbers.
    """

    cell: str
    line: int
    function: str = "<module>"
    text: str = ""
    cell_id: str | None = None
    context: tuple[tuple[int, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        text = f": {self.text}" if self.text else ""
        return f"{self.cell}, line {self.line}{_inside(self.function)}{text}"


@dataclass(frozen=True)
class Trace:
    """An exception of a job and what came before it.

    Parameters
    ----------
    frames
        The user's own, outermost first.
    raised_in
        Where in a library it was raised; empty where that was in the user's own code.
    before
        The exception that led to this one.
    link
        How this one led to the one after it: ``cause`` or ``context``; empty for the last.
    group
        The exceptions that an exception group holds.
    """

    type: str
    message: str
    notes: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    raised_in: str = ""
    before: Trace | None = None
    link: str = ""
    group: tuple[Trace, ...] = ()

    @property
    def summary(self) -> str:
        """Type and message, as Python's last line of a traceback."""
        return f"{self.type}: {self.message}" if self.message else self.type


def plain_lines(trace: Trace) -> Iterator[str]:
    """Yield what follows the summary of `trace` in a terminal: notes, frames, what came before."""
    yield from trace.notes
    for frame in trace.frames[-_MOST_SHOWN:]:
        yield f"  {frame}"
    if trace.raised_in:
        yield f"  (raised in {trace.raised_in})"
    for one in trace.group:
        yield f"  with {one.summary}"
        yield from (f"  {line}" for line in plain_lines(one))
    if trace.before:
        yield f"  {'caused by' if trace.before.link == 'cause' else 'while handling'} " + (
            trace.before.summary
        )
        yield from (f"  {line}" for line in plain_lines(trace.before))


def notebook_lines(trace: Trace, what: str, fix: str) -> list[str]:
    """Return what a notebook shows in place of a traceback, as IPython wants it.

    Parameters
    ----------
    trace
        The job's exception with the user's own frames.
    what
        What happened; where that is not the exception alone (an exit, a crash) it is shown for it.
    fix
        What to do next, the last line; empty for none.
    """
    if trace.summary != what:
        trace = replace(trace, type="JobFailedError", message=what)
    head = "Traceback (most recent call last)"
    lines = [f"{_RED}{'-' * _RULE}{_PLAIN}"]
    for number, one in enumerate(_oldest_first(trace)):
        if number:
            lines += ["", _LINKS[one[1]], ""]
        kind = one[0].type
        lines.append(f"{_RED}{kind}{_PLAIN}{head.rjust(max(len(head) + 1, _RULE - len(kind)))}")
        lines += _body(one[0])
    return [*lines, f"→ {fix}"] if fix else lines


def _oldest_first(trace: Trace) -> list[tuple[Trace, str]]:
    """Return the chain, each with the link from the one before it."""
    chain: list[tuple[Trace, str]] = []
    at: Trace | None = trace
    while at:
        chain.append((at, at.before.link if at.before else ""))
        at = at.before
    return chain[::-1]


def _body(trace: Trace) -> Iterator[str]:
    shown = trace.frames[-_MOST_SHOWN:]
    if len(shown) < len(trace.frames):
        yield f"    … {len(trace.frames) - len(shown)} frames more"
    for frame in shown:
        yield from _frame(frame)
        yield ""
    if trace.raised_in:
        yield f"raised in {trace.raised_in}"
    yield f"{_RED}{trace.type}{_PLAIN}" + (f": {trace.message}" if trace.message else "")
    yield from trace.notes
    for number, one in enumerate(trace.group, 1):
        yield f"---- {number} of {len(trace.group)} ----"
        yield from _body(one)


def _frame(frame: Frame) -> Iterator[str]:
    numbered = _NUMBERED.fullmatch(frame.cell)
    if numbered:
        place = f"{_CYAN}Cell {_GREEN}In[{numbered[1]}], line {frame.line}{_PLAIN}"
    elif frame.cell == "this cell":
        place = f"{_CYAN}This cell{_GREEN}, line {frame.line}{_PLAIN}"
    else:
        place = f"{_CYAN}File {_GREEN}{frame.cell}:{frame.line}{_PLAIN}"
    yield place + _inside(frame.function)
    line = ((frame.line, frame.text),) if frame.text else ()  # of compiled code nobody has it
    for number, text in frame.context or line:
        if number == frame.line:
            yield f"{_GREEN}{'-' * max(0, 5 - len(str(number)))}> {number}{_PLAIN} {text}"
        else:
            yield f"{_GREEN}{number:>7}{_PLAIN} {text}"


def _inside(function: str) -> str:
    if function in ("", "<module>"):
        return ""
    return f", in {function}" + ("" if function.startswith("<") else "()")
