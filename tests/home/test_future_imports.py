"""What a cell imports from the future holds in it, and in the notebook's next cells."""

import pytest

CELL = """
from __future__ import annotations
def f(x: Unknown): return x
y = f(1)
"""


@pytest.mark.parametrize(
    "magics", ["%%submarine\n", "%%time\n%%submarine\n", "%%submarine\n%%time\n"]
)
def test_an_import_from_the_future_holds_in_the_job_and_in_later_cells(notebook, capsys, magics):
    notebook.run(magics + CELL.lstrip())
    assert notebook["y"] == 1
    assert notebook["f"].__annotations__ == {"x": "Unknown"}
    notebook.run("def g(x: AnotherUnknown): pass")
    assert notebook["g"].__annotations__ == {"x": "AnotherUnknown"}
    assert "could not be defined" not in capsys.readouterr().err
