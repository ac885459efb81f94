"""Every example runs as its reader would run it, and gives what it shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from submarine_engine.job import JobState

from tests.kernels import execute, gives_what_it_shows

JOB_TYPE = "application/vnd.submarine.job+json"
ROOT = Path(__file__).parents[2]
# Of several tasks, with a framework each: they run in tests/notebooks.
DISTRIBUTED = sorted((ROOT / "examples/distributed").glob("*.ipynb"))
EXAMPLES = [*sorted((ROOT / "examples").glob("*.ipynb")), *DISTRIBUTED]
# The other one runs in tests/yarn.
WITHOUT_A_CLUSTER = [path for path in EXAMPLES if path.stem != "yarn"]

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= {
        "quickstart",
        "functions",
        "jax_digits",
        "look_inside",
        "nightly",
        "parts",
        "sweep",
    }


@pytest.mark.service
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=() if path.stem == "quickstart" else pytest.mark.long)
        for path in WITHOUT_A_CLUSTER
        if path not in DISTRIBUTED
    ],
    ids=lambda path: path.stem,
)
def test_it_gives_what_it_shows(example):
    gives_what_it_shows(example)


@pytest.mark.service
@pytest.mark.parametrize("gpus", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_first_job_needs_jupyter_alone(gpus, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", str(gpus))
    text = (ROOT / "jupyter_ext/submarine_jupyter/first-job.ipynb").read_text()
    notebook = nbformat.reads(text.replace("epochs=25_000", "epochs=250"), as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "epochs=250)" in code[-1].source  # the one that takes a minute
    assert notebook.cells[-1].source.startswith("## Now close this tab")
    assert not [cell for cell in code if cell.outputs]
    execute(notebook, tmp_path)
    log = "".join(output.get("text", "") for output in code[-1].outputs)
    assert log.startswith("Training on GPU 0" if gpus else "Training on the CPU")
    assert "Epoch 250/250" in log
    imported = set(re.findall(r"^import (\w+)", text.replace('"', "\n"), re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)


@each_example
def test_it_was_run_from_top_to_bottom(example):
    notebook = nbformat.read(example, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert "widgets" not in notebook.metadata


@each_example
def test_it_tells_nothing_of_the_machine_it_ran_on(example):
    text = example.read_text()
    assert not re.search(r"/(?:tmp|home|root|work|Users|var)/\w", text)
    hosts = re.findall(r"worker-0 on ([^:]+):|declared GPU +(\S+)", text)
    assert {"".join(host) for host in hosts} <= {"localhost"}


@pytest.mark.parametrize("example", WITHOUT_A_CLUSTER, ids=lambda path: path.stem)
def test_its_cards_are_whole_and_hold_no_address_of_the_machine(example):
    data = [
        (output.data, cell.source)
        for cell in nbformat.read(example, as_version=4).cells
        for output in cell.get("outputs", ())
        if JOB_TYPE in output.get("data", {})
    ]
    assert data or example.stem in {"map", "sweep"}
    for card, source in data:
        _, attributes, _ = json.loads(card[JOB_TYPE]["tree"])
        # The card of a detached cell is as of when the cell was over.
        assert JobState(attributes["data-state"]).final or "--detach" in source
        assert "127.0.0.1" not in str(card)
    assert sum("<style>" in card["text/html"] for card, _ in data) <= 1


@each_example
def test_it_is_small(example):
    assert example.stat().st_size < 200_000
