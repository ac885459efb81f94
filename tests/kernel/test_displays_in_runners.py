"""A notebook that a runner executes stores of a job what it stores of a plain cell."""

from __future__ import annotations

import difflib
import re

import nbformat
import pytest

from tests.kernel.test_displays import BAR, CARD, CLEARED, FIGURE_LEFT_OPEN, RICH, RICH_OUTPUT
from tests.kernels import OF_A_RUNNER, execute, run_runner

pytestmark = pytest.mark.service
CELLS = [RICH_OUTPUT, FIGURE_LEFT_OPEN, CLEARED, RICH]
WIDGET = "application/vnd.jupyter.widget-view+json"

BY_ID = """
from IPython.display import display, update_display
display("first", display_id="{0}")
print("text")
update_display("second", display_id="{0}")
"""
OF_ANOTHER_CELL = """
from IPython.display import update_display
update_display("third", display_id="{0}")
"""


def by_nbclient(notebook, folder):
    execute(notebook, folder, kernel_name="python3")
    return notebook


def by_papermill(notebook, folder):
    nbformat.write(notebook, folder / "in.ipynb")
    words = ("in.ipynb", "out.ipynb", "-k", "python3", "--start-timeout", "180")
    run_runner("-m", "papermill", *words, folder=folder)
    return nbformat.read(folder / "out.ipynb", as_version=4)


def by_nbconvert(notebook, folder):
    words = ("--execute", "--to", "notebook", "in.ipynb", "--output", "out.ipynb")
    words += tuple(f"--ExecutePreprocessor.{name}={value}" for name, value in OF_A_RUNNER.items())
    nbformat.write(notebook, folder / "in.ipynb")
    run_runner("-m", "nbconvert", *words, folder=folder)
    return nbformat.read(folder / "out.ipynb", as_version=4)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def stored(cell):
    """Return a cell's outputs without the card; text that came in pieces is one."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if found and found[-1][:2] == ["stream", output.name]:
                found[-1][2] += output.text
            else:
                found.append(["stream", output.name, output.text])
        elif CARD not in output.data:
            found.append([output.output_type, dict(output.data), dict(output.metadata)])
    return found


@pytest.mark.long
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("run", [by_nbclient, by_papermill, by_nbconvert])
def test_the_notebook_holds_the_same(tmp_path, run):
    cells = [*CELLS, BY_ID.format("plain"), OF_ANOTHER_CELL.format("plain"), BAR]
    jobs = [*CELLS, BY_ID.format("job"), OF_ANOTHER_CELL.format("job"), BAR]
    sources = ["%load_ext submarine_magics"]
    for cell, job in zip(cells, jobs, strict=True):
        sources += [cell, f"%%submarine --gpus 0\n{job}"]
    made = [nbformat.v4.new_code_cell(source) for source in sources]
    ran = run(nbformat.v4.new_notebook(cells=made), tmp_path)
    *pairs, bars = zip(ran.cells[1::2], ran.cells[2::2], strict=True)
    for plain, job in pairs:
        assert stored(job) == stored(plain)
        cards = [output for output in job.outputs if CARD in output.get("data", {})]
        assert [card.data[CARD]["state"] for card in cards] == ["succeeded"]
    third = ["display_data", {"text/plain": "'third'"}, {}]
    assert [stored(plain) for plain, _ in pairs][len(CELLS) :] == [
        [third, ["stream", "stdout", "text\n"]],
        [],
    ]
    # A bar of widgets is text in a job: its model lives in no kernel.
    (plain_bar,), (bar,) = map(stored, bars)
    assert (plain_bar[0], WIDGET in plain_bar[1]) == ("display_data", True)
    assert (bar[0], list(bar[1])) == ("display_data", ["text/plain"])
    assert bar[1]["text/plain"].startswith("training: 100%|██████████| 3/3")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("run", [by_nbclient, pytest.param(by_papermill, marks=pytest.mark.long)])
def test_a_notebook_that_is_run_again_changes_in_five_lines_of_ours_at_most(tmp_path, run):
    sources = ["%load_ext submarine_magics", "seen = [1]", "%%submarine\nseen.append(2)", "seen"]
    texts = []
    for name in ("first", "second"):
        made = [
            nbformat.v4.new_code_cell(source, id=f"cell-{number}")
            for number, source in enumerate(sources)
        ]
        folder = tmp_path / name
        folder.mkdir()
        ran = run(nbformat.v4.new_notebook(cells=made), folder)
        for part in (ran, *ran.cells):  # when a cell ran, which is the runner's own
            part.metadata.pop("execution", None)
            part.metadata.pop("papermill", None)
        assert "widgets" not in ran.metadata
        shown = [output for cell in ran.cells for output in cell.outputs]
        cards = [output.data[CARD] for output in shown if CARD in output.get("data", {})]
        assert [card["state"] for card in cards] == ["succeeded"]
        texts.append(nbformat.writes(ran).splitlines())
    curves = re.compile(r'- +"  (?:CPU|memory) ')  # of a job that took longer than two seconds
    lines = [line for line in difflib.ndiff(*texts) if line.startswith("- ")]
    changed = [line for line in lines if not curves.match(line)]
    assert len(changed) <= 5, changed
    assert "http://" not in "\n".join(texts[0])
