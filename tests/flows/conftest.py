"""Notebooks of a few lines, and flows made of them."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.flows.build import FlowOptions, build_flow

TRAIN = (
    ("day = '2026-11-22'\nrate = 0.5", ["parameters"]),
    """\
import math


class Net:
    def __init__(self):
        self.w = 0

    def fit(self, data):
        self.w += sum(data) * rate""",
    "data = [1.0, 2.0, 3.0]\ndata.append(len(day))",
    "%%submarine --gpus 0 --name fit\nmodel = Net()\nmodel.fit(data)\nprint('fitted', model.w)",
    "%%submarine --gpus 0 --name other\nprint('of', day)\nbest = max(data)",
    "%%submarine --gpus 0 --name score\nscore = math.sqrt(model.w) + best\nprint(score)",
    "print('score is', score)\nmodel.w",
)


def notebook(path: Path, *cells) -> Path:
    """Write a notebook: each cell is its text, or its text and tags."""
    made = []
    for number, cell in enumerate(cells, 1):
        source, tags = (cell, []) if isinstance(cell, str) else cell
        about = {"tags": tags} if tags else {}
        made.append(
            {"cell_type": "code", "id": f"cell-{number}", "metadata": about, "source": source,
             "outputs": [], "execution_count": None}
        )  # fmt: skip
    data = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def flow_of(tmp_path):
    """Return a function that builds a flow of cells, in the folder ``train.flow``."""

    def build(*cells, **options):
        path = notebook(tmp_path / "train.ipynb", *cells)
        return build_flow(path, tmp_path / "train.flow", FlowOptions(**options))

    return build


@pytest.fixture
def call():
    """Return a function that runs ``submarine WORDS`` in this process: code, stdout, stderr."""

    def run(*words):
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(word) for word in words])
        out.flush(), err.flush()
        return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()

    return run
