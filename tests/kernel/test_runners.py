"""Notebooks run by nbclient, papermill and nbval: nothing of a job's output is lost."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests import kernels

pytestmark = pytest.mark.service

KERNEL = {"name": "submarine", "display_name": "Submarine (Python)", "language": "python"}


def notebook(*cells):
    """Make a notebook; a cell is its source, or its source and its tags."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
    for cell in cells:
        source, tags = (cell, []) if isinstance(cell, str) else cell
        made.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tags}))
    return made


def execute(made, folder):
    kernels.execute(made, folder, kernel_name="submarine")


@pytest.fixture(autouse=True)
def this_pythons_kernelspec(tmp_path, monkeypatch):
    """Find the kernelspec that this environment's installation has put there."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def streams(cell):
    """Return the text of each stream: it may have come in pieces."""
    texts = {}
    for output in cell.outputs:
        if output.output_type == "stream":
            texts[output.name] = texts.get(output.name, "") + output.text
    return texts


def displays(cell):
    return [
        o.data.get("text/plain", "")
        for o in cell.outputs
        if o.output_type in ("display_data", "execute_result")
    ]


TRAIN = "def train(n):\n    for i in range(n): print('epoch', i)\n    return n"


def test_nbclient_keeps_log_card_and_value(tmp_path):
    made = notebook(
        TRAIN,
        "%%submarine --gpus 1 --name first\nhistory = train(2)",
        "history",
        "%%submarine --name long\n"
        "for i in range(100_000): print('line', i, 'x' * 20)\n"
        "print('last words')\n"
        "'value'",
    )
    execute(made, tmp_path)
    _, first, value, long = made.cells
    assert streams(first) == {"stdout": "epoch 0\nepoch 1\n"}
    assert any("first: succeeded" in text for text in displays(first))
    assert displays(value) == ["2"]
    texts = displays(long)
    assert any("long: succeeded" in text for text in texts)
    assert any("lines elided" in text and "last words" in text for text in texts)
    assert texts[-1] == "'value'"
    assert len(nbformat.writes(made)) < 1_300_000


def test_a_failing_job_fails_its_cell(tmp_path):
    made = notebook(TRAIN, "%%submarine\ntrain('many')", "1")
    with pytest.raises(CellExecutionError, match="TypeError"):
        execute(made, tmp_path)
    assert [o.ename for o in made.cells[1].outputs if o.output_type == "error"] == ["TypeError"]
    assert not made.cells[2].outputs


@pytest.mark.long
def test_papermill_runs_tagged_cells_as_jobs(tmp_path):
    path = tmp_path / "nightly.ipynb"
    made = notebook(
        TRAIN,
        ("epochs = 1", ["parameters"]),
        ("history = train(epochs)", ["submarine:--gpus=1"]),
        "history",
    )
    nbformat.write(made, path)
    out = tmp_path / "out.ipynb"
    words = [path.name, out.name, "-p", "epochs", "3", "--start-timeout", "180"]
    kernels.run_runner("-m", "papermill", *words, folder=tmp_path)
    ran = nbformat.read(out, as_version=4)
    job = next(cell for cell in ran.cells if "submarine:--gpus=1" in cell.metadata.tags)
    assert any("nightly: succeeded" in text for text in displays(job))
    assert streams(job)["stdout"] == "epoch 0\nepoch 1\nepoch 2\n"
    assert displays(ran.cells[-1]) == ["3"]


@pytest.mark.long
def test_nbval_passes_a_notebook_that_was_run(tmp_path):
    path = tmp_path / "checked.ipynb"
    made = notebook(TRAIN, "%%submarine --name checked\nhistory = train(2)", "history")
    execute(made, tmp_path)
    nbformat.write(made, path)
    words = ["pytest", "--nbval-lax", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    words += ["--nbval-kernel-startup-timeout", "180", path.name]
    assert "3 passed" in kernels.run_runner("-m", *words, folder=tmp_path).stdout


TYPED = """%load_ext submarine_magics
def train(n): print("epoch", n); return n

%%submarine --gpus 0
train(3)


_ + 1
%%submarine --gups 1
1


"""


def test_a_terminal_runs_cells_as_jobs_too(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        input=TYPED,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "epoch 3\n" in ran.stdout
    assert re.search(r"Out\[\d\]: 3\n", ran.stdout)
    assert re.search(r"Out\[\d\]: 4\n", ran.stdout)
    assert "there is no option --gups" in ran.stdout
    assert "Traceback" not in ran.stdout
