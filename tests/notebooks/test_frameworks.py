"""Notebooks of the frameworks themselves, run plain and with their heavy cells as jobs.

They need an environment that has all of them: ``make pytest-frameworks``, as `make test-long` does.
"""

from pathlib import Path

import pytest

from tests.notebooks import percent
from tests.notebooks.same import told_apart

FOLDER = Path(__file__).parent / "frameworks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))

pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_as_if_its_cells_had_run_right_there(path, tmp_path):
    found = told_apart(percent.read(path), tmp_path)
    assert not found, "\n".join(map(str, found))
