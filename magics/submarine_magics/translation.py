"""What becomes of a cell that is translated to plain Python."""

from __future__ import annotations

from dataclasses import dataclass

from submarine_engine.bundle import Dropped


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that a job cannot do without, and that no script can hold."""

    line: int
    text: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Translation:
    """A cell in plain Python.

    Parameters
    ----------
    source
        Line N of it is line N of the cell.
    dropped
        Lines that are left out.
    problems
        Those of them that change what the cell does, had it to run in a job.
    imports
        Import statements that the translation relies on, in no line of the cell.
    numbers
        By the lines of the cell as IPython compiles it (from 0): their numbers in the cell. Empty
        where they are the same.
    magic
        Name of the cell magic around the cell; empty where there is none.
    """

    source: str
    dropped: tuple[Dropped, ...] = ()
    problems: tuple[Problem, ...] = ()
    imports: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    magic: str = ""
