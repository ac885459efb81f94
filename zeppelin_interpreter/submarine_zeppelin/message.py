"""What a paragraph shows: messages of a type, and who takes them on their way to Zeppelin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

TEXT = "TEXT"
HTML = "HTML"
TABLE = "TABLE"
IMG = "IMG"

LIMIT = 102_400
"""Bytes of text in a paragraph, as Zeppelin has it: ``zeppelin.interpreter.output.limit``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One of a paragraph's outputs.

    Parameters
    ----------
    type
        One of Zeppelin's: ``TEXT``, ``HTML``, ``TABLE`` (tabs and lines) or ``IMG`` (PNG, base64).
    """

    type: str
    data: str


class Sink(Protocol):
    """Takes what becomes of a paragraph's outputs while it runs; none of it waits or raises.

    Indices count the messages from 0. A message begins with `update`.
    """

    def append(self, index: int, text: str) -> None:
        """Add text to a message of type ``TEXT``."""

    def update(self, index: int, type: str, data: str) -> None:  # noqa: A002 - Zeppelin's word
        """Begin a message, or replace all of it."""

    def update_all(self, messages: Sequence[Message]) -> None:
        """Replace all messages; there may be fewer than before."""
