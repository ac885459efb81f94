"""Advice that shows a command or code is right where it is printed: here, in a notebook."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import submarine_engine
import submarine_magics
from submarine_engine.command import NOTEBOOK, TERMINAL, parse
from submarine_engine.errors import CommandError, JobNotFoundError, in_a_notebook

ROOMS = [Path(module.__path__[0]) for module in (submarine_engine, submarine_magics)]
COMMAND = re.compile(
    r"(?<![\w./=-])([%!]*)submarine "
    r"((?:job [a-z]|gpus|tensorboard|script|use|doctor|cluster) ?[^`\"',;:)]*)"
)


def advice():
    """Yield every text that is given as a `fix`, with what is put into it as `x`, and its place."""
    for room in ROOMS:
        for path in sorted(room.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                for given in getattr(node, "keywords", ()):
                    if given.arg == "fix":
                        yield from texts(given.value, f"{path.stem}-{given.value.lineno}")


def texts(node, where):
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
        yield "".join(parts), where
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, where
    else:
        for inner in ast.iter_child_nodes(node):
            yield from texts(inner, where)


def test_a_command_in_advice_is_one_where_it_is_printed():
    found = 0
    for text, where in advice():
        for mark, words in COMMAND.findall(in_a_notebook(text)):
            assert mark, (where, text)
            assert understood(words, NOTEBOOK if mark == "%" else TERMINAL), (where, words)
            found += 1
        for mark, words in COMMAND.findall(text):
            if not mark:
                assert understood(words, TERMINAL), (where, words)
    assert found > 10


def understood(words: str, surface: str) -> bool:
    """Return whether the words of a sentence begin with a command."""
    found = words.split()
    for length in range(len(found), 0, -1):
        try:
            parse(found[:length], surface=surface)
        except CommandError:
            continue
        return True
    return False


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see `submarine job list`", "see `%submarine job list`"),
        ("its log: submarine job logs 7", "its log: %submarine job logs 7"),
        ("start it: `submarine cluster up`", "start it: `!submarine cluster up`"),
        ("%submarine use yarn", "%submarine use yarn"),
        ("`%submarine job list`", "`%submarine job list`"),
        ("a submarine job, and a submarine", "a submarine job, and a submarine"),
        ("~/submarine job", "~/submarine job"),
    ],
)
def test_commands_are_magics_in_a_notebook(text, shown):
    assert in_a_notebook(text) == shown


def test_an_error_in_a_notebook_shows_them_so():
    [line] = JobNotFoundError("no job", fix="see `submarine job list`")._render_traceback_()
    assert "→ see `%submarine job list`" in line
