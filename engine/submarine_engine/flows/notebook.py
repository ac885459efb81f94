"""A notebook's file as cells: which are jobs, which binds the parameters, what each says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from submarine_engine.bundle.maincell import check_syntax
from submarine_engine.bundle.model import Cell
from submarine_engine.command.tags import job_options
from submarine_engine.errors import CellSyntaxError, FlowError

_LARGEST = 256 * 1024 * 1024
_MAGIC = re.compile(r"%%submarine(?:\.(\w+))?(?:[ \t]+(.*))?$")
_PARAMETERS = "parameters"
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


def read_notebook(path: Path) -> list[NotebookCell]:
    """Read the cells with code of a notebook, in its order.

    Parameters
    ----------
    path
        A Jupyter notebook, ``.ipynb``.

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
    found: list[NotebookCell] = []
    for raw, identity, tags in _code(data, where):
        if raw.strip():
            found.append(_cell(raw, len(found) + 1, identity, tags))
    return found


def _code(data: Any, where: str) -> Iterator[tuple[str, str | None, list[str]]]:  # noqa: ANN401 - JSON
    """Yield text, id and tags of the cells with code."""
    try:
        for cell in data["cells"]:
            if cell["cell_type"] != "code":
                continue
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            tags = cell.get("metadata", {}).get("tags", [])
            identity = cell.get("id")
            yield (
                text,
                identity if isinstance(identity, str) else None,
                [tag for tag in tags if isinstance(tag, str)],
            )
    except (KeyError, TypeError, AttributeError):
        raise FlowError(
            "it is no notebook of format 4", where=where, fix="save it by JupyterLab, and try again"
        ) from None


def _cell(raw: str, number: int, identity: str | None, tags: list[str]) -> NotebookCell:
    lines = raw.split("\n")
    above = next(
        (at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")),
        0,
    )
    magic = _MAGIC.match(lines[above].rstrip())
    if magic is None:
        cell = _python(raw, number, identity)
        return NotebookCell(cell, job_options(tags), _PARAMETERS in tags)
    if magic[1]:
        raise FlowError(
            f"a part (%%submarine.{magic[1]}) is no node of a flow",
            where=f"In [{number}], line {above + 1}",
            fix="write %%submarine above the cell that runs",
        )
    body = "\n" * (above + 1) + "\n".join(lines[above + 1 :])
    cell = _python(body, number, identity, raw)
    return NotebookCell(cell, (magic[2] or "").strip(), _PARAMETERS in tags)


def _python(text: str, number: int, identity: str | None, raw: str = "") -> Cell:
    """Return a cell in plain Python; IPython's syntax is translated by who knows it."""
    cell = Cell(number=number, source=text, raw=raw or text, id=identity)
    if _SYNTAX.search(text):
        cell = _translated(cell)
    check_syntax(cell, may_await=True)
    return cell


def _translated(cell: Cell) -> Cell:
    body = cell.source.lstrip("\n")
    shift = len(cell.source) - len(body)
    found = _translator()
    if found is None:
        return cell  # it may be Python after all; else its error says the line
    translation = found(body)
    for problem in translation.problems:
        raise CellSyntaxError(
            f"`{problem.text}` cannot run in a job: {problem.what}",
            where=f"{cell.label}, line {problem.line + shift}",
            fix=problem.fix,
        )
    return Cell(
        number=cell.number,
        source="\n" * shift + translation.source,
        raw=cell.raw,
        id=cell.id,
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
