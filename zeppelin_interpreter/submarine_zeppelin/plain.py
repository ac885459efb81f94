"""Text as a paragraph shows it: no colours, no control characters, nothing that cannot be sent."""

from __future__ import annotations

import re

# ECMA-48: CSI and its letter, OSC and its end, and the short ones of two characters.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
# What may still become one of them: nobody's escape is longer than this.
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]{0,256}\x1b?|[ -/]*)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    r"""Return `text` as it may be shown and sent: of control characters only ``\t \n \r`` stay."""
    text = _CONTROL.sub("", _ESCAPE.sub("", text)) if _CONTROL.search(text) else text
    return sendable(text)


def sendable(text: str) -> str:
    """Return `text` without halves of surrogate pairs, which UTF-8 has no place for."""
    return text.encode("utf-8", "replace").decode()


class Plain:
    """`plain` for text that comes in pieces: an escape may be split over them."""

    def __init__(self) -> None:
        self._begun = ""

    def feed(self, text: str) -> str:
        """Return what can be shown of the next piece."""
        text = self._begun + text
        begun = _BEGUN.search(text, max(0, len(text) - 260))
        self._begun = begun[0] if begun and len(begun[0]) <= 260 else ""  # noqa: PLR2004 - as above
        return plain(text[: len(text) - len(self._begun)])
