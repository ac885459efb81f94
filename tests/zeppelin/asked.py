"""Paragraphs as `translate` sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from submarine_engine.command import parse_cell
from submarine_zeppelin.commands import translate


@dataclass
class Asked:
    text: str = ""
    interpreter: str = "python"
    title: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    id: str = "paragraph_1"
    note_id: str = "2ABC"
    note_name: str = "Digits"
    user: str = "ada"


def commands(text, gui="", setting=None, **properties):
    return translate(Asked(text, "submarine", properties=properties), setting or {}, gui)


def job(text, gui="", setting=None, **properties):
    return translate(Asked(text, "run", properties=properties), setting or {}, gui)


def options(action):
    """Return what the first line of a job's code asks for."""
    line, _, _ = action.code.partition("\n")
    return parse_cell(line.removeprefix("%%submarine")).values
