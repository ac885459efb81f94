"""Where the tasks of a running job stand, on its card and from the panel; a hang on the card."""

from __future__ import annotations

import pytest

from tests.jobs import until

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
STACKS = ".submarine-Card .submarine-Stacks"
BUTTON = f"{CARD} [data-action=stacks]"
CELL = """
    %%submarine --num_workers 3 --gpus 0 --name waits --hang_after 2
    import os, time
    from submarine_runtime import job
    def load():
        while not os.path.exists("GATE"): time.sleep(0.5)
    def collect():
        while not os.path.exists("GATE"): time.sleep(0.5)
    load() if job.rank == 1 else collect()
    print("<b>alive</b>", flush=True)
    while not os.path.exists("GATE-2"): print("on", flush=True); time.sleep(0.1)
"""


@pytest.mark.long
def test_a_job_that_hangs_says_so_on_its_card_and_shows_where(notebook, page, gate, errors):
    second = gate.with_name(f"{gate.name}-2")
    cells = notebook(LOAD, CELL.replace("GATE", gate.name))
    cells.run_all()
    page.click(BUTTON)
    places = page.locator(f"{STACKS} .smc-place")
    places.first.wait_for()
    warning = page.locator(f"{CARD} .smc-warning")
    warning.wait_for()
    assert "The job seems to hang" in warning.text_content()
    assert warning.evaluate("e => getComputedStyle(e).borderLeftStyle") == "solid"

    def stand():  # where they stay
        page.click(BUTTON)
        page.wait_for_function("s => !document.querySelector(s).disabled", arg=BUTTON)
        page.wait_for_selector(f"{STACKS}[aria-busy=false] :text('as of')")
        return places.count() == 2 and places.nth(0).text_content().startswith("rank 1")

    until(stand)
    assert "line 5, in load" in places.nth(0).text_content()
    assert places.nth(1).text_content().startswith("ranks 0, 2")
    one, other = (places.nth(n).bounding_box() for n in (0, 1))
    assert one["y"] == other["y"]  # side by side
    gate.touch()
    warning.wait_for(state="detached")
    page.click(f"{STACKS} button:has-text('Close')")
    page.wait_for_selector(STACKS, state="detached")
    second.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    assert page.locator(BUTTON).count() == 0
    cells.save()
    page.reload()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    assert page.locator(f"{BUTTON}, {STACKS}").count() == 0
    assert errors == []
