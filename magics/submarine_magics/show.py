"""What the magics say to a person beside a job's own output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from submarine_engine.command import NOTEBOOK, Command, help_text

from submarine_magics.reading import can_read

T = TypeVar("T")


class Listing(list[T]):
    """A list that shows itself as a table.

    Parameters
    ----------
    items
        What programs take from it.
    head, rows
        What people see, a row an item.
    below
        Lines after the table.
    """

    def __init__(
        self,
        items: Sequence[T],
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        below: Sequence[str] = (),
    ) -> None:
        super().__init__(items)
        self.head, self.rows, self.below = head, rows, below
        self._text = "\n".join((table(head, rows), *below))

    def __repr__(self) -> str:
        return self._text

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:  # noqa: FBT001 - IPython's
        """Show the table; IPython's own way with lists would show the items."""
        del cycle
        printer.text(self._text)  # type: ignore[attr-defined] # IPython.lib.pretty's


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return `rows` below `head`, their headings, each column as wide as it needs to be."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))


def show(text: str) -> None:
    """Show a text in the cell."""
    sys.stdout.flush()
    display({"text/plain": text}, raw=True)


def show_help(command: Command) -> None:
    """Show the help that a command asks for."""
    show(help_text(command.values.get("about", ()), surface=NOTEBOOK))


def ask(shell: InteractiveShell, question: str) -> str | None:
    """Return what the user of `shell` answers to `question`; None where nobody can."""
    if not can_read(shell):
        return None
    try:
        return input(question)
    except (StdinNotImplementedError, EOFError):  # a kernel that says so only when it is asked
        return None


def answer(text: str) -> None:
    """Tell the user by `text` what a command has done or found."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Tell the user something beside the job's own text, or beside a command's answer."""
    sys.stdout.flush()
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
