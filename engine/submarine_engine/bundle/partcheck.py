"""What is wrong with a part is said before submission: a name that it lacks, a file not there."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from submarine_engine.bundle.bindings import bound_names
from submarine_engine.bundle.executed import Executed
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.reader import read_statements
from submarine_engine.bundle.script import Script
from submarine_engine.errors import BundleError, CellSyntaxError, UndefinedNameError

_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*")
_VALUED = ("-W", "-X", "--check-hash-based-pycs")
_NOT_PYTHONS_OWN = ("display", "get_ipython")


def check_part(script: Script, scripts: Mapping[str, Script], cells: Sequence[Cell]) -> None:
    """Refuse a file that does not compile, or that uses a name that it does not define.

    Parameters
    ----------
    script
        The file.
    scripts
        All files by their paths.
    cells
        The notebook's ordinary cells.

    Raises
    ------
    CellSyntaxError, UndefinedNameError
        At the cell and its line.
    """
    tree = _compiled(script)
    texts = {path: other.text for path, other in scripts.items()}
    missing = missing_names(tree, texts)
    if not missing:
        return
    (name, line), *others = missing
    listed = ", ".join(f"`{other}` ({place(script, number)})" for other, number in others)
    more = f"; also missing: {listed}" if others else ""
    elsewhere = Executed(cells)
    found = elsewhere.last(name)
    if found is not None:
        home = elsewhere.cell(found).label
        what = f"`{name}` is defined in {home}, which is no part, and not in {script.entry}{more}"
        fix = f"begin {home} with %%submarine.python too, or import what the part needs"
    else:
        what, fix = f"`{name}` is not defined in {script.entry}{more}", "define or import it there"
    raise UndefinedNameError(what, where=place(script, line), fix=fix)


def place(script: Script, line: int) -> str:
    """Return cell and line that a line of a file comes from, in words."""
    for span in script.spans():
        if span.line <= line < span.line + span.count:
            return f"{span.cell}, line {span.cell_line + line - span.line}"
    return f"{script.entry}, line {line}"


def _compiled(script: Script) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown where the notebook runs such a cell
            tree = ast.parse(script.text)
            compile(script.text, script.entry, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CellSyntaxError(
            f"{error.msg} (in {script.entry}, made of several cells)",
            where=place(script, error.lineno or 1),
            fix="correct the cell",
        ) from None
    return tree


def missing_names(tree: ast.Module, texts: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the names that a file reads and that nobody defines, with their lines, in order.

    Parameters
    ----------
    tree
        The file.
    texts
        Files beside it by their paths, of which it may import everything by a star. None is
        missing where it does so of a module that is not known here.
    """
    return sorted(_missing(tree, texts), key=lambda found: found[1])


def _missing(tree: ast.Module, texts: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    lazy = sys.version_info >= (3, 14) or any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    reads = read_statements(tree.body, lazy=lazy)
    from_stars = _from_stars(reads.stars, texts)
    if from_stars is None:
        return
    there = {name for name in dir(builtins) if name not in _NOT_PYTHONS_OWN} | from_stars
    ever = reads.bound | reads.maybe | reads.sets
    for name, use in reads.now.items():
        if use.hard and name not in there and name not in use.bound | reads.sets:
            yield name, use.line
    for uses in reads.later.values():
        for name, use in uses.items():
            if use.hard and name not in there | ever:
                yield name, use.line


def _from_stars(modules: Collection[str], texts: Mapping[str, str]) -> set[str] | None:
    """Return the names that star imports bring; None where nobody can tell."""
    names: set[str] = set()
    for module in modules:
        text = texts.get(f"{module.replace('.', '/')}.py")
        if text is not None:
            names |= set(bound_names(ast.parse(text).body))
        elif module in sys.modules:
            names |= set(dir(sys.modules[module]))
        else:
            return None
    return names


def command_scripts(command: str, parts: Collection[str], root: Path | None) -> list[str]:
    """Return the files beside the notebook that a launch command runs with Python.

    Parameters
    ----------
    command
        A command line of the shell.
    parts
        Paths of the parts.

    Returns
    -------
    list of str
        Paths relative to `root`.

    Raises
    ------
    BundleError
        The command does not parse, or runs a file that will not be there.
    """
    found = []
    for is_module, script in _launched(command):
        if is_module or script in parts:
            continue
        if root is None or not (root / script).is_file():
            raise BundleError(
                f"the launch command runs {script}, which is neither a part nor a file beside the "
                "notebook",
                where=command,
                fix=f"parts are {', '.join(sorted(parts))}; else say the whole path",
            )
        found.append(script)
    return found


def command_words(command: str) -> list[str]:
    """Split a launch command.

    Raises
    ------
    BundleError
        It does not parse.
    """
    try:
        return shlex.split(command, comments=True)
    except ValueError as error:
        raise BundleError(
            f"the launch command cannot be read: {error}", where=command, fix="close its quotes"
        ) from None


def command_modules(command: str) -> list[str]:
    """Return the modules that a launch command runs by ``python -m``."""
    return [
        name
        for is_module, name in _launched(command)
        if is_module and name.replace(".", "").isidentifier()
    ]


def _launched(command: str) -> Iterator[tuple[bool, str]]:
    """Yield what a command runs with Python: whether it is a module, and its name or path."""
    words = command_words(command)
    if "cd" in words:  # names mean something else from there on
        return
    for index, word in enumerate(words):
        if not _PYTHON.fullmatch(word):
            continue
        rest = iter(words[index + 1 :])
        for argument in rest:
            if argument == "-m":
                yield True, next(rest, "")
            elif argument in _VALUED:
                next(rest, None)
                continue
            elif argument.startswith("-") and argument not in ("-c", "-"):
                continue
            elif argument.endswith(".py") and not re.search(r"^[/~]|[$`*?]", argument):
                yield False, argument.removeprefix("./")
            break
