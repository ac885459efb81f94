"""A word on the desktop that a job has ended, by a terminal that shows such."""

from __future__ import annotations

import os
from collections.abc import Mapping

from submarine_engine.amounts import duration
from submarine_engine.cli.output import Output, visible
from submarine_engine.config import load_config
from submarine_engine.errors import ConfigError
from submarine_engine.lifecycle import JobStatus

_WORTH_IT = 10.0
"""Seconds of waiting after which nobody is sure to sit there still."""

_ST = "\x1b\\"
_OSC_9 = f"\x1b]9;{{}}{_ST}"
_OSC_99 = f"\x1b]99;;{{}}{_ST}"
_OSC_777 = f"\x1b]777;notify;Submarine;{{}}{_ST}"


def tell(
    output: Output, name: str, status: JobStatus, waited: float, *, terminal: str | None = None
) -> None:
    """Say on the desktop how a job has ended, where the terminal is known to show that.

    Parameters
    ----------
    output
        Its stderr is the terminal; nothing is said where that is none.
    name
        The job's.
    status
        The job; nothing is said of one that is not over.
    waited
        For how many seconds the terminal has shown the job.
    terminal
        What writes there, with ``{}`` for the text; that of the environment unless given.
    """
    if waited < _WORTH_IT or not output.live or not status.state.final:
        return
    form = terminal or sequence(os.environ)
    try:
        if not form or not load_config().value("terminal_notify"):
            return
    except ConfigError:
        return
    # What is left of a control character would end the sequence, and begin another.
    said = visible(f"{name} {status.state.value} after {duration(waited)}", line=True)
    output.err.write(form.format(said))
    output.err.flush()


def sequence(environment: Mapping[str, str]) -> str:
    """Return how a terminal is told, by the variables that it sets; empty where none is known.

    OSC 9 is iTerm2's, which others have taken over; others again take it for something else, so it
    is not sent to just any. Kitty has OSC 99; Windows Terminal has OSC 777, or passes over it.

    Parameters
    ----------
    environment
        The variables of the environment that the terminal has given.
    """
    program, term = environment.get("TERM_PROGRAM", ""), environment.get("TERM", "")
    if environment.get("TMUX") or environment.get("STY"):  # it would stop there
        return ""
    if term == "xterm-kitty":
        return _OSC_99
    if program in ("iTerm.app", "WezTerm", "ghostty") or term == "xterm-ghostty":
        return _OSC_9
    if environment.get("LC_TERMINAL") == "iTerm2":  # over ssh, too
        return _OSC_9
    return _OSC_777 if environment.get("WT_SESSION") else ""
