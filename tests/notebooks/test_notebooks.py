"""Notebooks as people write them, run plain and with their heavy cells as jobs: nobody can tell.

`same` says what that means. Each notebook is run in two fresh kernels, with default options.
"""

from pathlib import Path

import pytest

from tests.notebooks import percent
from tests.notebooks.same import told_apart

GALLERY = Path(__file__).parent / "gallery"
NOTEBOOKS = sorted(p for p in GALLERY.glob("*.py") if not p.stem.startswith("like_"))

pytestmark = pytest.mark.service  # kernels


@pytest.mark.sampled
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_as_if_its_cells_had_run_right_there(path, tmp_path):
    found = told_apart(percent.read(path), tmp_path, beside=GALLERY)
    assert not found, "\n".join(map(str, found))


def test_there_are_thirty_of_them():
    assert len(NOTEBOOKS) >= 30
