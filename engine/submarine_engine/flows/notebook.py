"""A notebook's file as cells: which are jobs, which binds the parameters, what each says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from submarine_engine.bundle.maincell import check_syntax
from submarine_engine.bundle.model import Cell
from submarine_engine.command.tags import job_options
from submarine_engine.errors import CellSyntaxError, FlowError, SubmarineError

_LARGEST = 256 * 1024 * 1024
_MAGIC = re.compile(r"%%submarine(?:\.(\w+))?(?:[ \t]+(.*))?$")
_PARAMETERS = "parameters"
# Runs its code many times, apart from the notebook.
_ASIDE = re.compile(r"%{1,2}timeit\b")
# As IPython marks its own syntax: where none of it begins a line, a cell is Python as it is.
_SYNTAX = re.compile(r"^\s*[%!?/,;]|=\s*[%!]|\?\s*$|^\s*(?:>>>|In ?\[)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell with code.

    Parameters
    ----------
    cell
        In plain Python, numbered as a fresh kernel that runs all cells would.
    options
        What stands behind ``%%submarine``, or in its tags; None for a plain cell.
    parameters
        Whether it is tagged ``parameters``.
    """

    cell: Cell
    options: str | None = None
    parameters: bool = False

    @property
    def shell(self) -> bool:
        """Whether it runs commands of a shell: ``!wget …``."""
        return any("subprocess" in line for line in self.cell.imports)


@dataclass(frozen=True, slots=True)
class CellText:
    """A cell with code as its front end has it.

    Parameters
    ----------
    text
        As its kernel gets it, each line where people see it; a job begins with ``%%submarine``.
    number
        As a fresh kernel that runs all cells would count it, or its place.
    identity, tags, name
        Its id and its tags; how the front end calls it, where it is not by the number.
    """

    text: str
    number: int
    identity: str | None = None
    tags: tuple[str, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        """How people call it."""
        return self.name or f"In [{self.number}]"


@dataclass(frozen=True, slots=True)
class Notebook:
    """What a notebook's file says.

    Parameters
    ----------
    cells
        Those with code, in its order.
    title
        What people call it; empty where that is its file's name.
    left_out
        What of it has code and is no part of a flow, in words.
    """

    cells: Sequence[NotebookCell]
    title: str = ""
    left_out: tuple[str, ...] = ()


class Format(Protocol):
    """A front end's files of notebooks, other than Jupyter's: entry point ``submarine.notes``."""

    SUFFIXES: tuple[str, ...]

    def knows(self, data: Any, /) -> bool:  # noqa: ANN401 - JSON
        """Return whether `data`, a file's JSON, is such a notebook."""

    def read(self, data: Any, where: str, /) -> Notebook:  # noqa: ANN401 - likewise
        """Return what `data`, such a notebook's JSON, says; `where` is the name of its file."""

    def write(self, flow: Any, /) -> Mapping[str, Any]:  # noqa: ANN401 - a `Flow`, which imports this
        """Return the JSON of a notebook with the cells of `flow`."""


@lru_cache(maxsize=1)
def formats() -> Sequence[Format]:
    """Return the formats of the front ends that are installed."""
    return [entry.load() for entry in entry_points(group="submarine.notes")]


def read_notebook(path: Path) -> Notebook:
    """Read the cells with code of a notebook, in its order.

    Parameters
    ----------
    path
        A Jupyter notebook, ``.ipynb``, or a note of Zeppelin's, ``.zpln`` or ``note.json``.

    Raises
    ------
    FlowError
        It cannot be read, or is no notebook.
    CellSyntaxError
        A cell does not parse, or holds what no job can hold.
    """
    where = path.name
    try:
        if path.stat().st_size > _LARGEST:
            raise FlowError("the notebook is too large", where=where, fix="clear its outputs")
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FlowError(
            "there is no such notebook", where=str(path), fix="name an .ipynb file"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise FlowError(
            f"the notebook cannot be read: {error}", where=where, fix="name an .ipynb file"
        ) from None
    with told_of(where):
        known = isinstance(data, dict) and "cells" in data  # Jupyter's: no other is looked for
        for form in () if known else formats():
            if form.knows(data):
                return form.read(data, where)
        return Notebook([understood(one) for one in _code(data, where)])


@contextmanager
def told_of(notebook: str) -> Iterator[None]:
    """Have errors of a cell say whose it is.

    Parameters
    ----------
    notebook
        The name of its file.
    """
    try:
        yield
    except SubmarineError as error:
        if notebook not in error.where:
            error.where = f"{notebook}, {error.where}" if error.where else notebook
        raise


def _code(data: Any, where: str) -> Iterator[CellText]:  # noqa: ANN401 - JSON
    """Yield the cells with code."""
    number = 0
    try:
        for cell in data["cells"]:
            if cell["cell_type"] != "code":
                continue
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            if not text.strip():
                continue
            number += 1
            tags = cell.get("metadata", {}).get("tags", [])
            identity = cell.get("id")
            yield CellText(
                text,
                number,
                identity if isinstance(identity, str) else None,
                tuple(tag for tag in tags if isinstance(tag, str)),
            )
    except (KeyError, TypeError, AttributeError):
        raise FlowError(
            "it is no notebook of format 4", where=where, fix="save it by JupyterLab, and try again"
        ) from None


def understood(one: CellText) -> NotebookCell:
    """Return what a cell says, in plain Python.

    Parameters
    ----------
    one
        The cell.

    Raises
    ------
    FlowError
        It is a part of a script.
    CellSyntaxError
        It does not parse, or holds what no job can hold.
    """
    lines, tagged = one.text.split("\n"), _PARAMETERS in one.tags
    above = next(
        (at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")),
        0,
    )
    magic = _MAGIC.match(lines[above].rstrip())
    if magic is None:
        options = job_options(list(one.tags))
        return NotebookCell(_python(one, one.text, plain=options is None), options, tagged)
    if magic[1]:
        raise FlowError(
            f"a part (%%submarine.{magic[1]}) is no node of a flow",
            where=f"{one.label}, line {above + 1}",
            fix="write %%submarine above the cell that runs",
        )
    body = "\n" * (above + 1) + "\n".join(lines[above + 1 :])
    return NotebookCell(_python(one, body), (magic[2] or "").strip(), tagged)


def _python(one: CellText, text: str, *, plain: bool = False) -> Cell:
    """Return a cell in plain Python; IPython's syntax is translated by who knows it."""
    cell = Cell(number=one.number, source=text, raw=one.text, id=one.identity, name=one.name)
    if _SYNTAX.search(text):
        cell = _translated(cell, plain=plain)
    check_syntax(cell, may_await=True)
    return cell


def _translated(cell: Cell, *, plain: bool) -> Cell:
    body = cell.source.lstrip("\n")
    shift = len(cell.source) - len(body)
    found = _translator()
    if found is None:
        return cell  # it may be Python after all; else its error says the line
    translation = found(body)
    for problem in translation.problems:
        if plain and _ASIDE.match(problem.text) and "get_ipython" not in translation.source:
            continue  # it leaves nothing for other cells: a flow does without
        raise CellSyntaxError(
            f"`{problem.text}` cannot run in a job: {problem.what}",
            where=f"{cell.label}, line {problem.line + shift}",
            fix=problem.fix,
        )
    return replace(
        cell,
        source="\n" * shift + translation.source,
        dropped=tuple(
            type(one)(line=one.line + shift, text=one.text, reason=one.reason)
            for one in translation.dropped
        ),
        imports=translation.imports,
    )


@lru_cache(maxsize=1)
def _translator() -> Any:  # noqa: ANN401 - a front end's function
    """Return what translates IPython's syntax; None where no front end that can is installed."""
    return next((entry.load() for entry in entry_points(group="submarine.syntax")), None)
