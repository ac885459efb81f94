"""The card of a sweep in JupyterLab: it grows with the trials, and stays as it was in the end."""

from __future__ import annotations

import re

import pytest

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
NAMES = "rate = 1"
CELL = """
    %%submarine --sweep "rate=int(0, 29)" --sampler grid --minimize loss --gpus 1 --name search
    import os, time
    from submarine_runtime import report
    report(0, loss=rate)
    while rate == 5 and not os.path.exists("GATE"): time.sleep(0.05)
    if rate == 7: raise ValueError("<b>no</b>")
    loss = float(rate)
"""


@pytest.mark.long
def test_the_card_of_a_sweep_grows_and_stays(notebook, page, gate, errors):
    cells = notebook(LOAD, NAMES, CELL.replace("GATE", gate.name))
    cells.run_all()
    page.wait_for_selector(f"{CARD} summary:has-text('1 running, 28 complete, 1 failed of 30')")
    assert re.search(r"[12] GPUs? of at most 2", page.locator(CARD).text_content())
    trials = page.locator(f"{CARD} .smc-trials").first
    trials.locator("summary").click()  # what the reader closes stays closed
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    card = page.locator(CARD)
    words = card.locator(".smc-sweep").text_content()
    assert "29 complete, 1 failed of 30" in words
    assert "loss 0 by trial" in words
    assert "GPU ledger" not in card.text_content()
    assert trials.get_attribute("open") is None
    assert card.locator("svg.smc-history circle").count() == 29
    assert card.locator("svg.smc-spark polyline").count() == 1
    assert card.locator("b").count() == 0
    trials.locator("summary").click()
    assert trials.locator("tbody tr").count() == 10
    cells.save()
    page.reload()
    page.wait_for_selector(f"{CARD}[data-state=succeeded] svg.smc-history circle")
    assert page.locator(f"{CARD} .smc-sweep").text_content() == words
    assert errors == []


@pytest.mark.long
def test_all_trials_are_sorted_compared_and_opened_while_it_runs(notebook, page, gate, errors):
    name = "looked-at"
    cells = notebook(LOAD, NAMES, CELL.replace("GATE", gate.name).replace("search", name))
    cells.run_all()
    page.wait_for_selector(f"{CARD} summary:has-text('1 running, 28 complete, 1 failed of 30')")
    card = page.locator(CARD)
    newest = card.locator(".smc-trials").nth(1)
    assert newest.locator("tr[data-state=running]").count() == 1  # however many began after it
    card.locator("button.smc-sort", has_text="rate").first.click()
    page.wait_for_selector(f"{CARD} th[aria-sort=ascending]:has-text('rate')")
    assert card.locator(".smc-trials tbody tr").count() == 30
    card.locator("th[aria-sort] button").click()
    page.wait_for_selector(f"{CARD} th[aria-sort=descending]:has-text('rate')")
    assert card.locator("tbody tr").first.locator("td").nth(4).inner_text() == "29"
    for at in (0, 1):
        card.locator("button.smc-pin").nth(at).click()
        page.wait_for_selector(f"{CARD} button.smc-pin >> nth={at} >> visible=true")
        page.wait_for_function(
            "n => document.querySelectorAll('button.smc-pin[aria-pressed=true]').length === n",
            arg=at + 1,
        )
    assert "Both ran the same script" in card.locator(".smc-compared").inner_text()
    failed = card.locator("tr[data-state=failed] button.smc-trial")
    failed.click()
    opened = card.locator(".smc-opened")
    page.wait_for_selector(f"{CARD} .smc-opened pre:has-text('ValueError')")
    assert "<b>no</b>" in opened.inner_text()
    gate.touch()  # the card's update keeps what the reader looks at
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    page.wait_for_selector(f"{CARD} summary:has-text('29 complete, 1 failed of 30')")
    assert card.locator("th[aria-sort=descending]").inner_text().startswith("rate")
    assert card.locator("button.smc-pin[aria-pressed=true]").count() == 2
    opened.get_by_role("button", name="Worker's log").click()
    page.wait_for_selector(".submarine-Log:visible >> nth=-1")
    assert errors == []
