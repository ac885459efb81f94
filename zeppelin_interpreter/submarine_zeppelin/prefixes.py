"""The prefixes by which a paragraph's own prints choose how they are shown: ``%html``, ``%table``.

They mean what they mean to Zeppelin's other interpreters: at the beginning of a line, until the
next of them; within a table only after an empty line. ``%angular`` is text: it would run code of
the note in the browser of every reader.
"""

from __future__ import annotations

import re

from submarine_zeppelin.message import HTML, IMG, TABLE, TEXT

_TYPES = {"%html": HTML, "%img": IMG, "%table": TABLE, "%text": TEXT}
_PREFIX = re.compile(rf"({'|'.join(_TYPES)})(?:[ \t]|(?=\n))", re.IGNORECASE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Piece = tuple[str | None, str]
"""A type that begins here, None where the text goes on as before; and the text."""


class Prefixes:
    """Finds prefixes in text that comes in pieces."""

    def __init__(self) -> None:
        self._type = TEXT
        self._held = ""
        self._at_start = True
        self._after_empty = True

    def feed(self, text: str) -> list[Piece]:
        """Return what the next piece of text gives; the beginning of a prefix is held back."""
        text, self._held = self._held + text, ""
        if "%" not in text:
            return self._goes_on(text)
        found: list[Piece] = []
        for line in _LINE.findall(text):
            if self._at_start and _begun(line):
                self._held = line
                break
            found += self._line(line)
        return _joined(found)

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held

    def _goes_on(self, text: str) -> list[Piece]:
        if text:
            last_but_one = text[-2:-1] or ("\n" if self._at_start else "")
            self._after_empty = text[-1] == "\n" and last_but_one == "\n"
            self._at_start = text[-1] == "\n"
        return [(None, text)]

    def _line(self, line: str) -> list[Piece]:
        prefix = _PREFIX.match(line) if self._at_start else None
        if prefix is None or (self._type == TABLE and not self._after_empty):
            return self._goes_on(line)
        self._type = _TYPES[prefix[1].lower()]
        rest = line[prefix.end() :].removeprefix("\n")
        self._goes_on(line)
        return [(self._type, rest)]


def _begun(line: str) -> bool:
    """Return whether a line that has not ended may still become a prefix."""
    return line[-1] not in " \t\n" and any(word.startswith(line.lower()) for word in _TYPES)


def _joined(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for begins, text in pieces:
        if begins is None and joined:
            joined[-1] = joined[-1][0], joined[-1][1] + text
        else:
            joined.append((begins, text))
    return joined
