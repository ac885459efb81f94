"""The one grammar of the terminal and the magics: words to commands, and back.

Names are loaded when they are first used: settings and `launch` read values, and need no click.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.command.options import NOTEBOOK, TERMINAL
    from submarine_engine.command.parser import (
        Command,
        complete,
        help_text,
        job_name,
        parse,
        parse_cell,
        to_command,
    )
    from submarine_engine.command.values import format_size, read_memory

__all__ = [
    "NOTEBOOK",
    "TERMINAL",
    "Command",
    "complete",
    "format_size",
    "help_text",
    "job_name",
    "parse",
    "parse_cell",
    "read_memory",
    "to_command",
]

_MEMBERS = {
    "options": "NOTEBOOK TERMINAL",
    "parser": "Command complete help_text job_name parse parse_cell to_command",
    "values": "format_size read_memory",
}
_HOMES = {name: module for module, names in _MEMBERS.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
