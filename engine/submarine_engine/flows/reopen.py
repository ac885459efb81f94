"""A flow as a notebook again: the same cells, from their source in ``flow.json``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from submarine_engine.bundle.model import Cell
from submarine_engine.command.tags import TAG
from submarine_engine.errors import FlowError
from submarine_engine.flows.model import JOB, Flow, Node
from submarine_engine.flows.notebook import Format, formats


def notebook_of(flow: Flow) -> dict[str, Any]:
    """Return a flow's cells as a notebook of format 4.5, without outputs.

    Cells are as they were typed, with their ids. A job that its tags had made one is tagged again;
    the cell of the parameters is, too. Text between the cells is no part of a flow.

    Parameters
    ----------
    flow
        The flow.
    """
    jobs = {node.cells[0]: node for node in flow.nodes if node.kind == JOB}
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [_cell(cell, flow, jobs) for cell in flow.cells],
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(cell: Cell, flow: Flow, jobs: dict[int, Node]) -> dict[str, Any]:
    tags = ["parameters"] if cell.number == flow.parameters_cell else []
    node = jobs.get(cell.number or 0)
    if node is not None and not _has_magic(cell.raw):
        tags += [TAG, *(f"{TAG}:{shlex.quote(word)}" for word in node.options)]
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": cell.id or f"cell-{cell.number}",
        "metadata": {"tags": tags} if tags else {},
        "outputs": [],
        "source": cell.raw.splitlines(keepends=True),
    }


def _has_magic(raw: str) -> bool:
    return any(line.startswith("%%submarine") for line in raw.splitlines())


def format_of(flow: Flow) -> Format | None:
    """Return the format of the file that a flow was built of; None for Jupyter's.

    Parameters
    ----------
    flow
        The flow.
    """
    if flow.notebook.endswith(".ipynb"):
        return None
    return next((one for one in formats() if flow.notebook.endswith(one.SUFFIXES)), None)


def file_of(flow: Flow) -> str:
    """Return the name of the file that a flow's notebook is written to unless another is given.

    Parameters
    ----------
    flow
        The flow.
    """
    form = format_of(flow)
    return f"{flow.name}{form.SUFFIXES[0] if form else '.ipynb'}"


def write_notebook(flow: Flow, path: Path) -> Path:
    """Write a flow's cells to a file that is not there yet: of the kind that it was built of.

    Parameters
    ----------
    flow, path
        The flow, and the notebook's file.

    Raises
    ------
    FlowError
        The file is there, or cannot be written.
    """
    form = format_of(flow)
    if form is not None and path.suffix not in form.SUFFIXES:
        raise FlowError(
            f"the flow was built of {flow.notebook}, and comes back as a file of that kind",
            where=str(path),
            fix=f"name one that ends in {form.SUFFIXES[0]}: --output NAME{form.SUFFIXES[0]}",
        )
    data = notebook_of(flow) if form is None else form.write(flow)
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FlowError(
            "there is a file of that name", where=str(path), fix="name another one: --output NAME"
        ) from None
    except OSError as error:
        raise FlowError(
            f"the notebook cannot be written: {error.strerror or error}",
            where=str(path),
            fix="name another place: --output",
        ) from None
    return path
