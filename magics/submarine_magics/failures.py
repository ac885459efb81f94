"""How far a cell came that raised, or that runs now."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Mapping
from types import CodeType

Place = tuple[int, int]
"""A line of a cell, and below a cell magic around it the line of the magic's body, else 0."""

NOWHERE: Place = (0, 0)
"""The place in a cell where there is no cell."""


def failed_at(error: BaseException) -> Place:
    """Return where a cell raised."""
    trace = traceback.walk_tb(error.__traceback__)
    line, body = _place((frame.f_code, line) for frame, line in trace)
    return line or 1, body


def swallowed_at(raw: str, before: object) -> Place | None:
    """Return where the body of a cell magic raised that only showed the error, as IPython 8 does.

    Parameters
    ----------
    raw
        The cell as typed.
    before
        ``sys.last_value`` as it was before the cell ran.
    """
    error = getattr(sys, "last_value", None)
    if error is before or not isinstance(error, BaseException) or not raw.lstrip().startswith("%%"):
        return None
    place = failed_at(error)
    return place if place[1] else None


def running_at(namespace: Mapping[str, object]) -> Place:
    """Return the place to which the cell that runs now has come.

    Parameters
    ----------
    namespace
        The notebook's: by it the frames of cells are told from those of the shell itself.

    Returns
    -------
    Place
        `NOWHERE` where no cell runs.
    """
    stack = reversed(list(traceback.walk_stack(None)))
    return _place((f.f_code, line) for f, line in stack if f.f_globals is namespace)


def _place(places: Iterable[tuple[CodeType, int]]) -> Place:
    """Look at places from the outermost to the innermost."""
    found = 0
    for code, line in places:
        if code.co_name == "<module>" or code.co_name.startswith("<cell line"):
            if code.co_filename.startswith(("<timed", "<magic", "<string")):
                return found, line
            found = found or line
    return found, 0
