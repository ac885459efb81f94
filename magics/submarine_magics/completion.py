"""Tab completion of the magics: verbs, options, and the ids and names of jobs."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from IPython.core.error import TryNext
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.command import NOTEBOOK, complete
from submarine_engine.errors import SubmarineError
from submarine_engine.records import job_words

_LINE = re.compile(r"\s*(?P<magic>%%?)submarine\s(?P<rest>.*)", re.DOTALL)


def register(shell: InteractiveShell) -> None:
    """Ask `candidates` wherever a line begins with one of the magics."""
    for name in ("%submarine", "%%submarine"):
        shell.set_hook("complete_command", candidates, str_key=name)


def unregister(shell: InteractiveShell) -> None:
    """Take back what `register` did."""
    hooks: Any = shell.strdispatchers["complete_command"]
    for name in ("%submarine", "%%submarine"):
        hooks.strs.pop(name, None)


def candidates(shell: InteractiveShell, event: SimpleNamespace) -> list[str]:  # noqa: ARG001
    """Return what may stand at the cursor, as IPython's ``complete_command`` hook wants it.

    IPython takes a word to begin after ``=``, as the grammar does not, so that only the part from
    there is given.

    Raises
    ------
    TryNext
        The line is not one of ours.
    """
    found = _LINE.fullmatch(event.text_until_cursor)
    if found is None:
        raise TryNext
    cell = found["magic"] == "%%"
    try:
        words = complete(found["rest"], jobs=job_words, cell=cell, surface=NOTEBOOK)
    except (SubmarineError, OSError):  # a key was pressed: no place for errors
        return []
    typed = found["rest"].split()[-1] if found["rest"][-1:].strip() else ""
    known = len(typed) - len(event.symbol) if typed.endswith(event.symbol) else 0
    return [word[known:] for word in words]
