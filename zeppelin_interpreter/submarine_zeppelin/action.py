"""A paragraph as Zeppelin sends it, and what its kernel is to do for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Asked(Protocol):
    """What `translate` looks at of a paragraph."""

    @property
    def interpreter(self) -> str:
        """The class or its short name: ``python``, ``run``, ``sh``, ``submarine``."""

    @property
    def title(self) -> str:
        """The paragraph's title."""

    @property
    def text(self) -> str:
        """What follows the interpreter's name."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Its local properties."""


class Placed(Asked, Protocol):
    """A paragraph of a note."""

    @property
    def id(self) -> str:
        """Its id in the note."""

    @property
    def note_id(self) -> str:
        """The note's id."""

    @property
    def note_name(self) -> str:
        """The note's name."""

    @property
    def user(self) -> str:
        """Who runs it."""


@dataclass(frozen=True, slots=True)
class Action:
    """What the kernel is to do for a paragraph.

    Parameters
    ----------
    code
        What the kernel executes; empty for nothing.
    is_job
        Whether it submits a job.
    part
        Whether the paragraph is a part of the note's script as well.
    say
        Lines for the user, before anything else.
    prefixes
        Whether its prints may choose their form by ``%html`` and its kin.
    title
        The file that a part joins; None for ``main.py``.
    gui
        The paragraph's forms, to be echoed; empty where they are as Zeppelin sent them.
    """

    code: str
    is_job: bool = False
    part: bool = False
    say: tuple[str, ...] = ()
    prefixes: bool = False
    title: str | None = None
    gui: str = ""


def metadata(
    action: Action,
    paragraph: Placed,
    order: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the metadata of the paragraph's ``execute_request``, for `kernelside`.

    Parameters
    ----------
    order
        The ids of the note's paragraphs from top to bottom, where they are known.
    """
    return {
        "cellId": paragraph.id,
        "submarine": {
            "note": paragraph.note_name,
            "id": paragraph.note_id,
            "user": paragraph.user,
            "heading": paragraph.title,
            "part": action.part,
            "title": action.title,
            "order": list(order),
        },
    }
