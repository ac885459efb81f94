"""The way in: words to a command, a command to its verb, an error to a message and a code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module

from submarine_engine.cli import exits
from submarine_engine.cli.output import Output
from submarine_engine.command.options import TERMINAL
from submarine_engine.command.parser import Command, parse
from submarine_engine.command.verbs import VERBS
from submarine_engine.errors import SubmarineError

Handler = Callable[[Command, Output], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code, see `submarine_engine.cli.exits`.

    Parameters
    ----------
    argv
        The words after the program's name; those of this process unless given.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    ours = words[: words.index("--")] if "--" in words else words
    output = Output(json="--json" in ours)
    try:
        code = _run(words, output, verbose="--verbose" in ours)
        output.out.flush()
    except BrokenPipeError:
        _forget_stdout()
        return exits.PIPE_CLOSED
    return code


def _run(words: Sequence[str], output: Output, *, verbose: bool) -> int:
    try:
        command = parse(words, surface=TERMINAL)
        return handler(command.path)(command, output)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except SubmarineError as error:
        if verbose:
            output.note(traceback.format_exc().rstrip())
        output.error(error)
        return exits.code_of_error(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - people get a message, whatever it is
        if verbose:
            output.note(traceback.format_exc().rstrip())
        output.error(_unexpected(error))
        return exits.INTERNAL


def handler(path: tuple[str, ...]) -> Handler:
    """Return what does a verb's work; loaded now: `job list` need not know what a bundle is."""
    run = next(verb.run for verb in VERBS if verb.path == path)
    module, _, name = run.partition(":")
    found: Handler = getattr(import_module(f"submarine_engine.cli.{module}"), name)
    return found


def _unexpected(error: Exception) -> SubmarineError:
    if isinstance(error, OSError):
        where = str(error.filename) if error.filename is not None else ""
        return SubmarineError(
            error.strerror or str(error), where=where, fix="see `submarine doctor`"
        )
    return SubmarineError(
        f"a fault of ours: {type(error).__name__}: {error}",
        fix="say it again with --verbose, and report what it shows",
    )


def _forget_stdout() -> None:
    """Let nothing more be written to a pipe that nobody reads: Python would complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nowhere)
