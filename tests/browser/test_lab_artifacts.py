"""The files that a job has left: a click on its card in JupyterLab downloads one."""

from __future__ import annotations

from pathlib import Path

import pytest

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
FILE = f"{CARD} [data-action=artifact]"
CELL = """
    %%submarine --gpus 0 --name leaves
    import os
    os.chdir(os.environ["SUBMARINE_OUTPUT_PATH"])
    open("100% <b>odd.html", "w").write("<script>alert(1)</script>")
    open("model.pt", "wb").write(bytes(range(256)) * 8000)
"""


@pytest.mark.long
def test_a_file_that_a_job_has_left_is_a_click_away(notebook, page, errors):
    cells = notebook(LOAD, CELL)
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    files = page.locator(FILE)
    files.nth(1).wait_for()
    assert files.all_text_contents() == ["100% <b>odd.html", "model.pt"]
    for number, data in enumerate((b"<script>alert(1)</script>", bytes(range(256)) * 8000)):
        with page.expect_download() as found:
            files.nth(number).click()
        assert Path(found.value.path()).read_bytes() == data
    assert found.value.suggested_filename == "model.pt"
    cells.save()
    page.reload()
    with page.expect_download() as found:
        page.click(f"{FILE}:has-text('model.pt'):enabled")
    assert found.value.suggested_filename == "model.pt"
    assert errors == []
