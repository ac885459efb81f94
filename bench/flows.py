"""How long it takes to make a flow of a notebook."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench.table import Figure, in_turn

_CELLS = 40
_ROUNDS = 5
_QUARTER = (
    """\
import math


class Net{n}:
    def __init__(self):
        self.w = 0.0

    def fit(self, rows):
        self.w += math.fsum(rows)
        return self""",
    "rows_{n} = [float(n) for n in range({more})]\nrows_{n}.append({before})",
    "%%submarine --gpus 1 --name fit-{n}\nmodel_{n} = Net{n}()\nmodel_{n}.fit(rows_{n})",
    "%%submarine --gpus 1 --name score-{n}\nscore_{n} = math.sqrt(model_{n}.w)",
)


def _notebook(folder: Path) -> Path:
    """Write a notebook of 40 cells: definitions, plain cells, jobs that read what is above."""
    sources = []
    for number in range(_CELLS // 4):
        before = f"score_{number - 1}" if number else "0"
        sources += [text.format(n=number, more=number + 3, before=before) for text in _QUARTER]
    cells = [
        {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source,
         "outputs": [], "execution_count": None}
        for number, source in enumerate(sources)
    ]  # fmt: skip
    path = folder / "forty.ipynb"
    path.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    return path


def building(folder: Path) -> list[Figure]:
    """Measure `flow build`: what it does, and the whole command beside an empty Python."""
    from submarine_engine.flows.build import build_flow  # noqa: PLC0415 - as its neighbours

    path = _notebook(folder)
    flow = folder / "flow"

    def built() -> float:
        shutil.rmtree(flow, ignore_errors=True)
        began = time.perf_counter()
        build_flow(path, flow)
        return time.perf_counter() - began

    def parsed() -> float:
        began = time.perf_counter()
        for cell in json.loads(path.read_bytes())["cells"]:
            source = cell["source"].removeprefix("%%")
            compile(source if source == cell["source"] else f"# {source}", "cell", "exec")
        return time.perf_counter() - began

    def command() -> float:
        shutil.rmtree(flow, ignore_errors=True)
        words = ["-m", "submarine_engine.cli", "flow", "build", str(path), "--output", str(flow)]
        return _process(words)

    def empty() -> float:
        return _process(["-c", "pass"])

    ours, theirs = in_turn(_ROUNDS, built, parsed)
    whole, python = in_turn(_ROUNDS, command, empty)
    return [
        Figure(what=f"flow of {_CELLS} cells", target="≤ 0.5 s", unit="s", ours=ours,
               peers={"Python compiles the cells": theirs}),
        Figure(what=f"`flow build` of {_CELLS} cells", target="≤ 0.5 s", unit="s", ours=whole,
               peers={"Python starts": python}),
    ]  # fmt: skip


def _process(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return time.perf_counter() - began
