"""The one grammar of the terminal and the magics: words to commands, and back."""

from submarine_engine.command.complete import complete
from submarine_engine.command.help import help_text
from submarine_engine.command.model import NOTEBOOK, TERMINAL, Command
from submarine_engine.command.parser import parse, parse_cell
from submarine_engine.command.spec import job_name, to_command
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
