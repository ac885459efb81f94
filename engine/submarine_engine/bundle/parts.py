"""Parts: named files made of cells; one of them is what runs, the others lie beside it.

What is wrong with a part (a name that it lacks, a file not there) is said before submission.
"""

from __future__ import annotations

import ast
import builtins
import platform
import re
import shlex
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from submarine_engine.bundle.executed import Executed
from submarine_engine.bundle.maincell import check_syntax
from submarine_engine.bundle.model import Bundle, Cell, Dropped, Manifest
from submarine_engine.bundle.modules import travelling_modules
from submarine_engine.bundle.script import Script
from submarine_engine.bundle.source import Lines, bound_names
from submarine_engine.bundle.statements import Parsed, parse, read_statements
from submarine_engine.errors import BundleError, CellSyntaxError, UndefinedNameError

# Parts: named files made of cells, and which cell gives what to which file.


MAIN = "main.py"
"""The file that cells without a title join."""

_STEP = re.compile(r"[^\W.-][\w.-]*")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle.

    Parameters
    ----------
    title
        Its path, for example ``model.py``; None for ``main.py``.
    cells
        What it is made of, in order.
    """

    title: str | None
    cells: tuple[Cell, ...]

    @property
    def path(self) -> str:
        """Its path relative to the bundle's folder."""
        return MAIN if self.title is None else self.title


def check_title(title: str, where: str = "") -> str:
    """Return `title` where it can name a file of a bundle.

    Raises
    ------
    BundleError
        It does not end in ``.py``, leads out of the bundle, or would hide a module of Python's own.
    """
    steps = title.split("/")
    safe = len(title) <= _LONGEST and all(_STEP.fullmatch(step) for step in steps)
    if not safe or not title.endswith(".py"):
        raise BundleError(
            f"{title!r} cannot name a part",
            where=where,
            fix="name a Python file, model.py or nets/model.py, by letters, digits, '_' and '-'",
        )
    top = steps[0].removesuffix(".py")
    if top in sys.stdlib_module_names and top != "test":
        raise BundleError(
            f"a part {title!r} would hide the module {top} of Python itself",
            where=where,
            fix=f"call it otherwise: my_{steps[0]}",
        )
    return title


class PartBook:
    """What the cells gave so far.

    A cell that is run again replaces what it gave, in its place. It is known by its id; where the
    front end tells none, by its text, else by the names that it defines: an edited cell that binds
    the same names is the same cell.
    """

    def __init__(self) -> None:
        self._given: dict[str, tuple[str | None, Cell]] = {}
        self._count = 0

    def add(self, title: str | None, cell: Cell) -> None:
        """Take what `cell` gives to the file `title`; an empty cell only takes back what it gave.

        Raises
        ------
        BundleError
            The title cannot name a part.
        """
        if title is not None:
            check_title(title, cell.label)
        key = self._key(title, cell)
        if cell.source.strip():
            self._given[key] = (title, cell)
        else:
            self._given.pop(key, None)

    def remove(self, cell_id: str) -> None:
        """Take back what the cell of the id `cell_id` gave."""
        self._given.pop(f"id {cell_id}", None)

    def has(self, path: str) -> bool:
        """Return whether there is a part of that path."""
        return any(path == (title or MAIN) for title, _ in self._given.values())

    def keep(self, cell_ids: Collection[str]) -> None:
        """Take back what other cells gave: they are not in the notebook any more.

        Parameters
        ----------
        cell_ids
            The ids of all its cells. What cells without an id gave stays.
        """
        for key in list(self._given):
            if key.startswith("id ") and key[3:] not in cell_ids:
                del self._given[key]

    def clear(self) -> None:
        """Take back everything."""
        self._given.clear()

    def parts(self, order: Sequence[str] = ()) -> list[Part]:
        """Return the parts.

        Parameters
        ----------
        order
            Ids of the notebook's cells from top to bottom, where they are known. Cells that are not
            among them come last; without it, the order is that in which the cells were first run.
        """
        places = {f"id {cell_id}": index for index, cell_id in enumerate(order)}
        files: dict[str | None, list[Cell]] = {}
        for key in sorted(self._given, key=lambda key: places.get(key, len(places))):
            title, cell = self._given[key]
            files.setdefault(None if title == MAIN else title, []).append(cell)
        return [Part(title, tuple(cells)) for title, cells in files.items()]

    def _key(self, title: str | None, cell: Cell) -> str:
        if cell.id:
            return f"id {cell.id}"
        names = _defined(cell)
        for key, (other, known) in self._given.items():
            alike = known.source == cell.source or (names and _defined(known) == names)
            if known.id is None and other == title and alike:
                return key
        self._count += 1
        return f"text {self._count}"


def _defined(cell: Cell) -> frozenset[str]:
    return frozenset(bound_names([statement.node for statement in parse(cell.source).statements]))


# What is wrong with a part is said before submission: a name that it lacks, a file not there.


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
    """Return cell and line that a line of a file comes from, in words.

    Parameters
    ----------
    script
        The file.
    line
        The line of it, from 1.
    """
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
                fix=f"parts are {', '.join(sorted(parts))}; else write the whole path",
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


# Parts to a bundle: each title a file beside the others, one of them what runs.


_HEADER = "# Written by Submarine; each section says which cell of the notebook it comes from."


def build_parts(
    parts: Sequence[Part],
    *,
    command: str | None = None,
    root: Path | None = None,
    cells: Sequence[Cell] = (),
) -> Bundle:
    """Make a bundle of the parts that ``%%submarine.python`` cells gave.

    Parameters
    ----------
    parts
        Several of one title are one file, in this order. Those without a title are ``main.py``.
    command
        What the job runs, in words of the shell; None for ``main.py``, else the only part.
    root
        The notebook's folder; Python files there that the parts import, or that `command` runs,
        travel along.
    cells
        The notebook's ordinary cells, to say which of them defines a name that a part lacks.

    Raises
    ------
    CellSyntaxError
        A part does not parse.
    UndefinedNameError
        A part uses a name that it does not define.
    BundleError
        There is no part, nobody says which one runs, a title is not possible, or a part and a file
        beside the notebook are in each other's way.
    """
    files = _files(parts)
    entry = _entry(files, command)
    scripts = {path: _script(path, pieces) for path, pieces in sorted(files.items())}
    for script in scripts.values():
        check_part(script, scripts, cells)
    modules = _modules(scripts, command, root)
    manifest = Manifest(
        entry=entry,
        python=platform.python_version(),
        lines=tuple(span for script in scripts.values() for span in script.spans()),
        dropped=tuple(_dropped(files)),
        modules=tuple(modules),
    )
    written = {path: script.text.encode() for path, script in scripts.items()}
    return Bundle(files={**written, **modules}, manifest=manifest)


def _dropped(files: Mapping[str, Sequence[Cell]]) -> Iterable[tuple[str, Dropped]]:
    for path in sorted(files):
        for cell in files[path]:
            yield from ((cell.label, line) for line in cell.dropped)


def _modules(
    scripts: Mapping[str, Script], command: str | None, root: Path | None
) -> dict[str, bytes]:
    """Return the files beside the notebook that travel with the parts."""
    also = command_scripts(command, scripts, root) if command is not None else []
    if root is None:
        return {}
    sources = [(path, script.text) for path, script in scripts.items()]
    if command is not None:
        sources += [(command, f"import {name}") for name in command_modules(command)]
    modules = travelling_modules(sources, root, also)
    for path, script in scripts.items():
        if clashing := [name for name in modules if _clash(path, name)]:
            raise BundleError(
                f"the part {path} and {clashing[0]} beside the notebook would be one module",
                where=place(script, script.spans()[0].line),
                fix="give the part another title, or move the file away",
            )
    return modules


def _clash(path: str, module: str) -> bool:
    top, slash, _ = path.partition("/")
    if slash:
        return module in (path, f"{top}.py")
    return module == path or module.startswith(f"{top.removesuffix('.py')}/")


def _files(parts: Sequence[Part]) -> dict[str, list[Cell]]:
    files: dict[str, list[Cell]] = {}
    for part in parts:
        first = part.cells[0].label if part.cells else ""
        path = part.path if part.title is None else check_title(part.title, first)
        files.setdefault(path, []).extend(part.cells)
    files = {path: cells for path, cells in files.items() if cells}
    if not files:
        raise BundleError(
            "there is no part to run", fix="begin a cell with %%submarine.python, and run it"
        )
    for path in files:
        for folder in PurePosixPath(path).parents:
            if f"{folder}.py" in files:
                raise BundleError(
                    f"the parts {folder}.py and {path} would be two modules of one name",
                    where=files[path][0].label,
                    fix="call one of them otherwise",
                )
    return files


def _entry(files: Mapping[str, object], command: str | None) -> str:
    """Return the file that runs; where a command says what runs, the one that it names first."""
    if command is not None:
        named = [word for word in command_words(command) if word.removeprefix("./") in files]
        if named:
            return named[0].removeprefix("./")
        return MAIN if MAIN in files else next(iter(files))
    if MAIN in files:
        return MAIN
    if len(files) > 1:
        raise BundleError(
            f"it is unclear which part to start: {', '.join(sorted(files))}",
            fix='add --worker_launch_cmd "python NAME.py", or leave the title off one cell: '
            "it becomes main.py",
        )
    return next(iter(files))


def _script(path: str, cells: Sequence[Cell]) -> Script:
    """Write one file: its cells as they are, with ``from __future__`` at its top."""
    script = Script(path)
    script.own([_HEADER])
    for cell in cells:
        check_syntax(cell)
    futures = _futures(cells) if len(cells) > 1 else {}
    needed = {item for cell in cells for item in cell.imports}
    ordered = sorted(needed, key=lambda item: ("\n" in item, item))  # what is longer comes below
    imports = [line for item in ordered for line in item.splitlines()]
    if imports or futures:
        script.section("Imports")
        if futures:
            script.own([f"from __future__ import {', '.join(sorted(futures))}"])
        script.own(["", *imports] if futures and imports else imports)
    for cell in cells:
        lines = _lines(parse(cell.source), keep_futures=not futures)
        if lines:
            script.section(cell.label)
            script.take(cell, lines)
    return script


def _futures(cells: Iterable[Cell]) -> dict[str, None]:
    nodes = (item.node for cell in cells for item in parse(cell.source).statements)
    found = (node for node in nodes if _is_future(node))
    return {alias.name: None for node in found for alias in node.names}  # type: ignore[attr-defined]


def _is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _lines(parsed: Parsed, *, keep_futures: bool) -> Lines:
    """Return the lines of a cell without empty ones at both ends."""
    lines = parsed.numbered(1, len(parsed.lines))
    for statement in parsed.statements:
        if _is_future(statement.node) and not keep_futures and statement.alone:
            for number in range(statement.first, (statement.node.end_lineno or 0) + 1):
                lines[number - 1] = (number, "")
    full = [index for index, (_, line) in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []
