"""A notebook run to its end in a real kernel: what each cell showed, and the state after it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.notebooks.forked import ForkedKernel
from tests.notebooks.percent import Notebook
from tests.notebooks.state import State, watch


@dataclass
class CellRun:
    """One cell's run: its outputs as the notebook's file holds them at the end, the state after."""

    source: str
    heavy: bool
    outputs: list[Any]
    state: State = field(repr=False)


def run(
    notebook: Notebook, folder: Path, *, jobs: bool, beside: Path | None = None
) -> list[CellRun]:
    """Run a notebook in a kernel of its own.

    Parameters
    ----------
    notebook
        What to run.
    folder
        An empty one for the kernel; the notebook's own is made in it.
    jobs
        Whether ``%%submarine`` stands over the heavy cells.
    beside
        The folder whose files lie beside the notebook.
    """
    place = folder / "notebook"
    place.mkdir(parents=True)
    for path in sorted(beside.glob("*") if beside else ()):
        if path.is_dir() and path.name != "__pycache__":
            shutil.copytree(path, place / path.name)
        elif path.name.startswith("like_"):
            shutil.copy(path, place)
    kernel = ForkedKernel(place, folder, hook=watch)
    try:
        shown = []
        for cell in notebook.cells:
            source = cell.as_job() if jobs and cell.heavy else cell.source
            shown.append(kernel.run(source, interrupt="interrupt" in cell.tags))
    finally:
        kernel.stop()
    return [
        CellRun(cell.source, cell.heavy, outputs, _state(place, number))
        for number, (cell, outputs) in enumerate(zip(notebook.cells, shown, strict=True))
    ]


def _state(place: Path, number: int) -> State:
    found: State = json.loads(
        place.with_name(f"{place.name}-states").joinpath(f"{number}.json").read_text()
    )
    return found
