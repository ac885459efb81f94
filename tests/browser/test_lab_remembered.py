"""A remembered result in JupyterLab: its card says so, and its button runs the cell as a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from submarine_engine.history import job_ids

LOAD = "%load_ext submarine_magics"
CELL = """
    %%submarine --cache --name known
    import os
    luck = os.urandom(4).hex()
    print("computed", luck)
"""
CARD = ".submarine-Card .submarine-card"


@pytest.mark.long
def test_the_card_of_a_known_result_runs_the_cell_again(notebook, lab, page, errors):
    before = len(list(job_ids(Path(lab.home))))
    cells = notebook(LOAD, CELL, CELL)

    def count():
        return len(list(job_ids(Path(lab.home)))) - before

    def words():
        return page.locator(f"{CARD} [data-slot=remembered]:visible").all_text_contents()

    def wait_for(outputs, different):
        """Wait until so many cells show what they computed, and so many different things."""
        page.wait_for_function(
            """([count, different]) => {
                const outputs = [...document.querySelectorAll(".jp-OutputArea-output")];
                const told = outputs.map((each) => each.textContent);
                const found = told.filter((text) => text.startsWith("computed"));
                return found.length == count && new Set(found).size == different;
            }""",
            arg=[outputs, different],
        )

    cells.run_all()
    page.wait_for_selector(f"{CARD} [data-slot=remembered]:visible")
    wait_for(2, 1)
    assert count() == 1
    [told] = words()  # the second cell's
    assert told.startswith("Result from ")
    assert told.endswith(", job known")
    page.click(f"{CARD} [data-action=again]:visible")
    wait_for(2, 2)
    page.wait_for_function(
        "([selector]) => !document.querySelector(selector)?.checkVisibility()",
        arg=[f"{CARD} [data-slot=remembered]"],
    )
    assert count() == 2
    assert words() == []
    assert not errors
