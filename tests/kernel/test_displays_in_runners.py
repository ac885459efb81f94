"""A notebook run by nbclient stores of a job what it stores of a plain cell."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from tests.kernel.test_displays import CARD, CLEARED, FIGURE_LEFT_OPEN, RICH, RICH_OUTPUT

pytestmark = pytest.mark.service
CELLS = [RICH_OUTPUT, FIGURE_LEFT_OPEN, CLEARED, RICH]


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


@pytest.mark.usefixtures("environment")
def test_the_notebook_holds_the_same(tmp_path):
    sources = ["%load_ext submarine_magics"]
    for cell in CELLS:
        sources += [cell, f"%%submarine --gpus 0\n{cell}"]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    pairs = list(zip(notebook.cells[1::2], notebook.cells[2::2], strict=True))
    assert len(pairs) == len(CELLS)
    for plain, job in pairs:
        assert stored(plain)
        assert stored(job) == stored(plain)
        cards = [output for output in job.outputs if CARD in output.get("data", {})]
        assert [card.data[CARD]["state"] for card in cards] == ["succeeded"]
