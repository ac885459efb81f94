"""A cell of several tasks in JupyterLab: a table of them, rank 0's log, the others' to choose."""

from __future__ import annotations

import pytest

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
TASKS = f"{CARD} details.smc-tasks"
LOG = ".submarine-Log"
CELL = """
    %%submarine --num_workers 4 --gpus 0 --name team OPTIONS
    import os, time
    from submarine_runtime import job
    for epoch in range(1, 4):
        print(f"epoch {epoch} of rank {job.rank} <img src=x>", flush=True)
        job.progress(epoch / 4, f"epoch {epoch}")
    while not os.path.exists("GATE"):
        time.sleep(0.05)
    if job.rank == 2:
        raise ValueError("the batch of <b>rank 2</b> is odd")
    if "FAIL" == "yes":
        time.sleep(3600)
"""


def cell(gate, options="", fail="no"):
    source = CELL.replace("GATE", gate.name).replace("OPTIONS", options)
    return source.replace("FAIL", fail)


@pytest.mark.long
def test_four_tasks_from_the_first_line_to_the_one_that_failed(notebook, page, gate, errors):
    cells = notebook(LOAD, cell(gate, fail="yes"))
    cells.run_all()
    page.wait_for_selector(f"{TASKS} td:has-text('75')")
    rows = page.locator(f"{TASKS} tbody tr")
    assert rows.count() == 4
    assert "4 running" in page.text_content(f"{TASKS} summary")
    # The cell itself has rank 0's log alone.
    shown = page.locator(".jp-OutputArea-output:has-text('epoch 3 of rank 0')")
    shown.wait_for()
    assert "rank 1" not in shown.text_content()
    page.click(f"{CARD} [data-action=log]")
    page.wait_for_selector(f"{LOG} .smc-row:has-text('epoch 3 of rank 0')")
    page.select_option(f"{LOG} .smc-lanes select", "worker-3")
    page.wait_for_selector(f"{LOG} .smc-row:has-text('epoch 3 of rank 3')")
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=failed]")
    sentence = page.text_content(f"{CARD} .smc-error:visible")
    assert sentence.startswith("worker-2 on ")
    assert "the batch of <b>rank 2</b> is odd" in sentence
    assert page.text_content(f"{TASKS} summary") == "Tasks 1 failed, 3 killed"
    page.wait_for_selector(".jp-OutputArea:has-text('the first to fail was worker-2')")
    assert page.locator(f"{CARD} img, {LOG} img, {CARD} b").count() == 0
    assert errors == []


@pytest.mark.long
def test_the_logs_of_all_in_the_cell_each_in_its_colour(notebook, page, gate):
    gate.touch()
    cells = notebook(LOAD, cell(gate, "--logs all").replace("job.rank == 2", "job.rank == 9"))
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    cells.wait_idle()
    shown = page.locator(".jp-OutputArea-output pre:has-text('epoch 3 of rank 2')")
    text = shown.text_content()
    assert all(f"worker-{n} | epoch 3 of rank {n}" in text for n in range(4))
    colours = shown.locator("span").evaluate_all(
        "spans => [...new Set(spans.filter(each => /^worker-/.test(each.textContent))"
        ".map(each => getComputedStyle(each).color))]"
    )
    assert len(colours) == 4
