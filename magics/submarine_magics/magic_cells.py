"""Cell magics as plain Python: their bodies stay where they are, line for line."""

from __future__ import annotations

import shlex
from collections.abc import Container

from submarine_engine.bundle.literals import quoted

from submarine_magics.aligned import Numbered
from submarine_magics.magic_lines import SUBPROCESS, Rewrite
from submarine_magics.shell_lines import expanded

SHOWN = ("html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG")

_PROGRAMS = frozenset(
    "bash sh zsh ksh dash perl ruby python python2 python3 pypy script".split()  # noqa: SIM905
)


def cell_magic_code(
    name: str, line: str, body: Numbered, known: Container[str]
) -> tuple[Rewrite, Numbered]:
    """Rewrite a cell magic that runs a program or writes a file.

    Returns
    -------
    tuple
        What becomes of the magic's first line, and the lines of the body with the end of the code.
    """
    if name in SHOWN or not any(text.strip() for _, text in body):
        return Rewrite(None, f"%%{name} is shown in the notebook"), []
    if name in _PROGRAMS:
        return _program(name, line, body)
    if name in ("writefile", "file"):
        return _file(line, body, known)
    if name in ("sx", "system", "!"):
        head = 'subprocess.getoutput("""\\'
        return Rewrite(head, imports=SUBPROCESS), _text(body, '""").splitlines()')
    return _unknown(name), []


def _unknown(name: str) -> Rewrite:
    return Rewrite(
        None,
        f"%%{name} is a magic of the notebook that a script cannot hold",
        "write that cell in plain Python, or do its work in the notebook before the job",
    )


def _program(name: str, line: str, body: Numbered) -> tuple[Rewrite, Numbered]:
    words = shlex.split(line)
    command = [] if name == "script" else [name]
    variable, tail = "", "check=True"
    while words:
        word = words.pop(0)
        if word == "--no-raise-error":
            tail = "check=False"
        elif word == "--out" and words:
            variable = words.pop(0)
        elif word.startswith("--") and not command[1:]:
            fix = "leave it out, or call subprocess yourself"
            return Rewrite(None, f"a script cannot hold the option {word} of %%{name}", fix), []
        else:
            command.append(word)
    if not command:
        return Rewrite(None, "%%script names no program", "write %%script PROGRAM"), []
    head = f'subprocess.run({_list(command)}, input="""'
    tail = f'""", text=True, {tail})'
    if variable:
        head, tail = f"{variable} = {head}", f"{tail[:-1]}, stdout=subprocess.PIPE).stdout"
    return Rewrite(head, imports=SUBPROCESS), _text(body, tail)


def _file(line: str, body: Numbered, known: Container[str]) -> tuple[Rewrite, Numbered]:
    words = line.split()
    append = "-a" in words[:1] or "--append" in words[:1]
    name = line.split(None, 1)[1] if append and len(words) > 1 else line
    if not name:
        return Rewrite(None, "%%writefile names no file", "write %%writefile FILE"), []
    path = f"Path({expanded(name, known)})"
    if name.startswith("~"):
        path += ".expanduser()"
    plain = all(text.isascii() for _, text in body)
    encoding = "" if plain else ', encoding="utf-8"'
    if append:
        head = f'with {path}.open("a"{encoding}) as file: file.write("""\\'
        tail = '""")'
    else:
        head, tail = f'{path}.write_text("""\\', f'"""{encoding})'
    return Rewrite(head, imports=("from pathlib import Path",)), _text(body, tail)


def _list(words: list[str]) -> str:
    return f"[{', '.join(quoted(word) for word in words)}]"


def _text(body: Numbered, tail: str) -> Numbered:
    """Return the lines of `body` as they stand inside three quotes, and `tail` in a line below."""
    # IPython hands the body on with a newline at its end.
    lines = [(number, _escaped(text)) for number, text in body]
    if not lines[-1][1]:
        lines.pop()
    return [*lines, (lines[-1][0] + 1, tail)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', r"\"\"\"").replace("\r", r"\r")
