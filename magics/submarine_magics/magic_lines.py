"""Magics and shell commands of a cell as plain Python, or why they have no place in a script."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import warnings
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

from IPython.utils.text import DollarFormatter
from submarine_engine.bundle.source import UNREADABLE, bound_names, quoted
from submarine_engine.bundle.statements import is_guard

from submarine_magics.aligned import Numbered

# Commands of the shell as a person would write them in Python, with IPython's expansion.


def expanded(text: str, known: Container[str]) -> str:
    """Return an expression for the text that IPython makes of `text`: ``{name}`` and ``$name``.

    IPython expands all or nothing: where one name is unknown, as in ``awk '{print $1}'``, the
    shell gets the text as it stands.

    Parameters
    ----------
    text
        A shell command, or the line of a magic.
    known
        Names that have a value where the text is used.
    """
    try:
        pieces = list(DollarFormatter().parse(text))
    except ValueError:
        return quoted(text)
    literals, fields = [""], list[str]()
    for literal, name, spec, conversion in pieces:
        literals[-1] += literal or ""
        if name is None:
            continue
        field = f"{name}:{spec}" if spec else name
        if not _is_known(field, known) or conversion not in (None, "r", "s", "a"):
            return quoted(text)
        fields.append(f"{field.strip()}!{conversion}" if conversion else field.strip())
        literals.append("")
    if not fields:
        return quoted(literals[0])
    return _formatted(literals, fields)


def run(text: str, known: Container[str]) -> str:
    """Return the statement for ``!text``, where the names `known` have a value."""
    return f"subprocess.run({expanded(text, known)}, shell=True)"


def output(text: str, known: Container[str]) -> str:
    """Return the expression for what an assigned ``!text`` gives: a list of lines.

    Parameters
    ----------
    text
        As typed, without the exclamation mark.
    known
        Names that have a value where it stands.
    """
    return f"subprocess.getoutput({expanded(text, known)}).splitlines()"


def _is_known(field: str, known: Container[str]) -> bool:
    try:
        tree = ast.parse(field.strip(), mode="eval")
    except UNREADABLE:
        return False
    nodes = list(ast.walk(tree))
    own = {node.id for node in nodes if isinstance(node, ast.Name) and _binds(node)}
    return all(
        node.id in own or node.id in known or hasattr(builtins, node.id)
        for node in nodes
        if isinstance(node, ast.Name)
    )


def _binds(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _formatted(literals: list[str], fields: list[str]) -> str:
    code = "".join(fields)
    quote = "'" if '"' in code else '"'
    if "\\" in code or "#" in code or quote in code or "\n" in code:
        template = "{}".join(_braced(literal) for literal in literals)
        values = [field.partition("!")[0] if _converted(field) else field for field in fields]
        return f"{quoted(template)}.format({', '.join(values)})"
    parts = [quoted(_braced(literals[0]), quote)[1:-1]]
    for field, literal in zip(fields, literals[1:], strict=True):
        space = " " if field.startswith("{") else ""
        parts += ["{", space, field, "}", quoted(_braced(literal), quote)[1:-1]]
    return f"f{quote}{''.join(parts)}{quote}"


def _converted(field: str) -> bool:
    return field[-2:] in ("!r", "!s", "!a")


def _braced(literal: str) -> str:
    return literal.replace("{", "{{").replace("}", "}}")


# Line magics as plain Python, or why they have no place in a script.


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What becomes of a piece of IPython syntax.

    Parameters
    ----------
    code
        Plain Python; None where nothing is left of it.
    reason
        Why nothing is left.
    fix
        What to do instead, where a job cannot do without it: leaving it out would change what the
        cell does. Empty where it can be left out.
    imports
        Import statements that `code` relies on.
    """

    code: str | None
    reason: str = ""
    fix: str = ""
    imports: tuple[str, ...] = ()


SUBPROCESS = ("import subprocess",)
OS = ("import os",)

WRAPPERS = {
    "time": "",
    "timeit": "nrtp",
    "prun": "lsTD",
    "memit": "rti",
    "lprun": "sfmDTzu",
    "mprun": "rfT",
    "debug": "b",
    "capture": "",
}
"""Magics around code, with the letters of their options that take a value."""

RUN_ASIDE = ("timeit",)
"""Those whose code runs in a namespace of its own: it binds nothing in the notebook."""

INTERACTIVE = ("debug",)
"""Those that ask questions of a person, whom a job does not have."""

_SHELL = ("ls", "ll", "la", "lf", "lk", "ldir", "lx", "mkdir", "rmdir", "rm", "cp", "mv", "cat")

_DROPPED = {
    "environments are changed where the job runs, before it": "conda mamba micromamba",
    "it shows help": "pinfo pinfo2 pdoc pdef psource pfile pycat page psearch quickref lsmagic "
    "magic man less more",
    "it sets up the notebook's display": "matplotlib pylab gui config colors precision pprint "
    "xmode automagic autocall autoawait autoindent clear cls doctest_mode code_wrap subshell",
    "it sets up the notebook": "load_ext reload_ext unload_ext autoreload aimport alias unalias "
    "alias_magic rehashx macro bookmark dhist popd pushd dirs store profile tensorboard",
    "it asks about or changes the notebook's state": "who who_ls whos history hist reset "
    "reset_selective xdel logstart logstop logon logoff logstate notebook save edit ed load loadpy "
    "loadurl recall rerun rep pastebin paste cpaste tb pdb connect_info qtconsole "
    "killbgscripts backgrounds submarine submarine.python",
}
_REASONS = {name: reason for reason, names in _DROPPED.items() for name in names.split()}


def shell_call(method: str, text: str, known: Container[str]) -> Rewrite:
    """Rewrite ``!text`` (method ``system``) or what an assigned one is (``getoutput``).

    Parameters
    ----------
    method
        That of IPython's shell.
    text
        As typed, without the exclamation mark.
    known
        Names that have a value where it stands.
    """
    code = run(text, known) if method == "system" else output(text, known)
    return Rewrite(code, imports=SUBPROCESS)


def line_magic(name: str, line: str, known: Container[str]) -> Rewrite:
    """Rewrite ``%name line``, but for the magics around code, see `WRAPPERS`.

    Parameters
    ----------
    name
        The magic's.
    line
        What follows it.
    known
        Names that have a value where it stands.
    """
    if rewrite := _IN_PYTHON.get(name):
        return rewrite(line, known)
    if name in _SHELL:
        return shell_call("system", f"{name} {line}".strip(), known)
    return Rewrite(None, _REASONS.get(name, f"%{name} is a magic of the notebook"))


def interactive(typed: str) -> Rewrite:
    """Return what becomes of a magic that asks a person: `typed`, as the message calls it."""
    return Rewrite(
        None, f"{typed} asks questions, and nobody can answer in a job", "use it in the notebook"
    )


def without_options(name: str, line: str) -> str:
    """Return the code in the `line` of the magic `name`, one of `WRAPPERS`, without its options."""
    valued = WRAPPERS[name]
    while match := re.match(r"(?:--[\w-]+(?:=\S*)?|-([a-zA-Z])(\S*))(?:\s+|$)", line):
        line = line[match.end() :]
        if match[1] and match[1] in valued and not match[2]:
            line = line.partition(" ")[2].lstrip()
    return line


def _env(line: str, known: Container[str]) -> Rewrite:
    name, equals, value = line.partition("=")
    if not equals or " " in name.strip():
        name, _, value = line.strip().partition(" ")
    name, value = name.strip(), value.strip()
    if not name or not (equals or value):
        if re.fullmatch(r"\w+", name):
            return Rewrite(f"os.environ[{expanded(name, known)}]", imports=OS)
        return Rewrite(None, "it asks about or changes the notebook's state")
    code = f"os.environ[{expanded(name, known)}] = {expanded(value, known)}"
    return Rewrite(code, imports=OS)


def _cd(line: str, known: Container[str]) -> Rewrite:
    words = line.split()
    if "-q" in words:
        line = " ".join(word for word in words if word != "-q")
    if line.startswith("-"):
        return Rewrite(None, "it goes to a folder of the notebook's history", "name the folder")
    try:
        quoted = len(shlex.split(line)) == 1 and line[:1] in "\"'"
    except ValueError:
        quoted = False
    path = expanded(line.strip("\"'") if quoted else line, known) if line else '"~"'
    if not line or line.startswith("~"):
        path = f"os.path.expanduser({path})"
    return Rewrite(f"os.chdir({path})", imports=OS)


def _pwd(line: str, known: Container[str]) -> Rewrite:  # noqa: ARG001 - like the others
    return Rewrite("os.getcwd()", imports=OS)


def _output(line: str, known: Container[str]) -> Rewrite:
    return shell_call("getoutput", line, known)


def _python_module(name: str) -> Callable[[str, Container[str]], Rewrite]:
    def rewrite(line: str, known: Container[str]) -> Rewrite:
        named = _With(known, "sys")
        code = run(f'"{{sys.executable}}" -m {name} {line}'.rstrip(), named)
        return Rewrite(code, imports=(*SUBPROCESS, "import sys"))

    return rewrite


class _With:
    """A container of names, with one name more."""

    def __init__(self, known: Container[str], name: str) -> None:
        self._known, self._name = known, name

    def __contains__(self, name: object) -> bool:
        return name == self._name or name in self._known


def _run(line: str, known: Container[str]) -> Rewrite:
    """Rewrite ``%run FILE ARGUMENTS``: the file runs aside, then its names are the cell's."""
    refused = "import that file as a module: files beside the notebook travel with the job"
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words or words[0].startswith("-"):
        return Rewrite(None, "it runs another file with options of the notebook's own", refused)
    if expanded(line, known) != quoted(line):
        return Rewrite(None, "it runs a file that a variable names", refused)
    try:
        path = _python_file(words[0])
    except (OSError, RuntimeError, ValueError) as error:
        return Rewrite(None, f"{words[0]} is no file: {error}", "name a Python file that is there")
    if path.suffix != ".py":
        return Rewrite(None, f"it runs a {path.suffix} file in the notebook", refused)
    try:
        names = _names_of(path.read_text(encoding="utf-8"))
    except (OSError, *UNREADABLE) as error:
        what = f"{path} cannot be read ({type(error).__name__})"
        return Rewrite(None, what, "name a Python file that is there")
    code = f'runpy.run_path({quoted(str(path))}, run_name="__main__")'
    if len(names) == 1:
        code = f"{names[0]} = {code}.get({quoted(names[0])})"
    elif names:
        listed = ", ".join(quoted(name) for name in names)
        code = f"{', '.join(names)} = map({code}.get, ({listed}))"
    # The magic gives the file its own arguments, and this cell's stay.
    arguments = ", ".join(quoted(word) for word in [str(path), *words[1:]])
    code = f"sys.argv = [{arguments}]; {code}"
    return Rewrite(code, imports=("import runpy", "import sys"))


def _python_file(named: str) -> Path:
    """Return the file that ``%run`` means by the word `named`.

    Raises
    ------
    OSError, RuntimeError, ValueError
        The notebook's folder is gone, nobody has such a home, or the word names no file.
    """
    path = Path(named).expanduser()
    path = path if path.suffix else path.with_suffix(".py")
    if path.is_relative_to(here := Path.cwd()):
        path = path.relative_to(here)  # so it travels, as what lies in the notebook's folder does
    return path


def _names_of(source: str) -> list[str]:
    """Return what a file binds as it runs, but for private names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shown where it runs
        body = ast.parse(source).body
    inner = [node for statement in body if is_guard(statement) for node in statement.body]  # type: ignore[attr-defined]
    bound = bound_names([*(node for node in body if not is_guard(node)), *inner])
    return [name for name, kind in bound.items() if kind and not name.startswith("_")]


_IN_PYTHON: dict[str, Callable[[str, Container[str]], Rewrite]] = {
    "env": _env,
    "set_env": _env,
    "cd": _cd,
    "pwd": _pwd,
    "pip": _python_module("pip"),
    "uv": _python_module("uv"),
    "run": _run,
    "sx": _output,
    "system": _output,
}


# Cell magics as plain Python: their bodies stay where they are, line for line.


SHOWN = ("html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG")

_PROGRAMS = frozenset(
    "bash sh zsh ksh dash perl ruby python python2 python3 pypy script".split()  # noqa: SIM905
)

VALUELESS = _PROGRAMS | {"writefile", "file"}
"""Cell magics that show no value, whatever the Python that does the same gives."""


def cell_magic_code(
    name: str, line: str, body: Numbered, known: Container[str]
) -> tuple[Rewrite, Numbered]:
    """Rewrite a cell magic that runs a program or writes a file.

    Parameters
    ----------
    name
        The magic's.
    line
        What follows it in its line.
    body
        The lines below.
    known
        Names that have a value where the cell runs.

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
    try:
        words = shlex.split(line)
    except ValueError as error:
        what = f"the line of %%{name} does not parse: {error}"
        return Rewrite(None, what, "correct its quotes"), []
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
    return text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
