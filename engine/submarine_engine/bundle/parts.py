"""Parts to a bundle: each title a file beside the others, one of them what runs."""

from __future__ import annotations

import ast
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from submarine_engine.bundle.maincell import check_syntax
from submarine_engine.bundle.model import Bundle, Cell, Dropped, Manifest
from submarine_engine.bundle.modules import travelling_modules
from submarine_engine.bundle.partbook import MAIN, Part, check_title
from submarine_engine.bundle.partcheck import (
    check_part,
    command_modules,
    command_scripts,
    command_words,
    place,
)
from submarine_engine.bundle.script import Script
from submarine_engine.bundle.statements import Parsed, parse
from submarine_engine.bundle.text import Lines
from submarine_engine.errors import BundleError

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
            f"nobody says which of the parts runs: {', '.join(sorted(files))}",
            fix='say so by --worker_launch_cmd "python NAME.py", or give one cell no title: '
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
