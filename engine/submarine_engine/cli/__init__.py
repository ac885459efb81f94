"""The ``submarine`` command: the same grammar as the magics, for terminals and programs.

Words become a command, a command does what its verb is for, an error is a message and a code.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module

from submarine_engine.cli.output import (
    FAILED,
    INTERNAL,
    INTERRUPTED,
    PIPE_CLOSED,
    Output,
    code_of_error,
)
from submarine_engine.command.grammar import Verb
from submarine_engine.command.options import TERMINAL, Front
from submarine_engine.command.parser import Command, parse
from submarine_engine.command.verbs import ROOT, find_verb
from submarine_engine.errors import SubmarineError

Handler = Callable[[Command, Output], int]


_COMPLETE = "_SUBMARINE_COMPLETE"
"""The variable by which a shell asks for completion, as click has it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code, see `submarine_engine.cli.output`.

    Parameters
    ----------
    argv
        The words after the program's name; those of this process unless given.
    """
    if _COMPLETE in os.environ:
        return _complete(os.environ[_COMPLETE])
    words = list(sys.argv[1:] if argv is None else argv)
    ours = words[: words.index("--")] if "--" in words else words
    output = Output(json="--json" in ours)
    try:
        code = _run(words, output, verbose="--verbose" in ours)
        output.out.flush()
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_CLOSED
    return code


def _complete(instruction: str) -> int:
    """Write what a shell asks for: its script, or what may stand at the cursor."""
    from click.shell_completion import shell_complete  # noqa: PLC0415 - at a key, not at the start

    from submarine_engine.records import job_words  # noqa: PLC0415 - likewise

    front = Front(TERMINAL, job_words)
    try:
        return shell_complete(ROOT, {"obj": front}, "submarine", _COMPLETE, instruction)
    except (SubmarineError, OSError):  # a key was pressed: no place for errors
        return FAILED


def _run(words: Sequence[str], output: Output, *, verbose: bool) -> int:
    try:
        command = parse(words, surface=TERMINAL)
        return handler(command.path)(command, output)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SubmarineError as error:
        if verbose:
            output.note(traceback.format_exc().rstrip())
        output.error(error)
        return code_of_error(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - people get a message, whatever it is
        if verbose:
            output.note(traceback.format_exc().rstrip())
        output.error(_unexpected(error))
        return INTERNAL


def handler(path: tuple[str, ...]) -> Handler:
    """Return what does a verb's work; loaded now: `job list` need not know what a bundle is.

    Parameters
    ----------
    path
        The verb's words, as `Command.path` has them: ``("job", "run")``.
    """
    verb = find_verb(path)
    assert isinstance(verb, Verb)  # noqa: S101 - it was parsed
    module, _, name = verb.run.partition(":")
    found: Handler = getattr(import_module(module, __name__), name)
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
