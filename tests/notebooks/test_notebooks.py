"""Notebooks as people write them, run plain and with their heavy cells as jobs: nobody can tell.

`same` says what that means. Each notebook is run in two fresh kernels, with default options.
"""

from pathlib import Path

import pytest

from tests.notebooks import percent
from tests.notebooks.same import differences
from tests.notebooks.session import run

GALLERY = Path(__file__).parent / "gallery"
NOTEBOOKS = sorted(p for p in GALLERY.glob("*.py") if not p.stem.startswith("like_"))

pytestmark = pytest.mark.service  # kernels


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_as_if_its_cells_had_run_right_there(path, tmp_path):
    notebook = percent.read(path)
    plain = run(notebook, tmp_path / "plain", jobs=False, beside=GALLERY)
    for cell, ran in zip(notebook.cells, plain, strict=True):
        failed = [o["evalue"] for o in ran.outputs if o["output_type"] == "error"]
        assert bool(failed) == ("raises" in cell.tags), (cell.source, failed)
    submarine = run(notebook, tmp_path / "submarine", jobs=True, beside=GALLERY)
    found = differences(notebook, plain, submarine)
    assert not found, "\n".join(map(str, found))


def test_there_are_thirty_of_them():
    assert len(NOTEBOOKS) >= 30
