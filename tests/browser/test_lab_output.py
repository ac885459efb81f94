"""The log view of all that a job writes and shows: order, wrap, times, live displays."""

from __future__ import annotations

import pytest
from submarine_magics.card.display import JOB_TYPE

from tests.jobs import until

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
LOG = ".submarine-Log"
ROWS = f"{LOG} .smc-row"
SHOWN = f"{LOG} .smc-shown"
# Shows a new state for each gate that is there.
SHOWS = """
    %%submarine OPTIONS
    import os, sys, time
    from IPython.display import HTML, display
    print("first line")
    print("a warning", file=sys.stderr)
    handle = display(HTML("<b>state 0</b><img src=x onerror='window.hacked = 1'>"
                          "<script>window.hacked = 1</script>"), display_id=True)
    print("line after")
    for number in (1, 2):
        while not os.path.exists(f"GATE-{number}"):
            time.sleep(0.05)
        handle.update(HTML(f"<b>state {number}</b>"))
        print("update", number)
    display(HTML("<i>the last</i>"))
    print("wide " + "x" * 300)
"""


@pytest.fixture
def source(gate):
    return lambda options="": SHOWS.replace("OPTIONS", options).replace("GATE", gate.name)


@pytest.fixture
def open_gate(gate):
    return lambda number: gate.with_name(f"{gate.name}-{number}").touch()


def in_sight(page):
    """Return what the log shows, line by line and display by display."""
    return page.locator(f"{ROWS}").evaluate_all(
        """rows => rows.sort((a, b) => a.dataset.line - b.dataset.line).flatMap(
            row => [...row.childNodes].map(part => part.textContent.trim()).filter(Boolean))"""
    )


def saved_state(cells):
    """Save the notebook, and return which state the card of its job has there."""
    found = [output.get("data", {}) for output in cells.save().cells[1].outputs]
    return next(data[JOB_TYPE]["state"] for data in found if JOB_TYPE in data)


@pytest.mark.long
def test_after_a_reload_what_a_job_shows_goes_on_in_its_place(
    notebook, page, source, open_gate, errors
):
    cells = notebook(LOAD, source())
    cells.run_all()
    page.wait_for_selector(".jp-OutputArea b:has-text('state 0')")
    open_gate(1)
    page.wait_for_selector(".jp-OutputArea b:has-text('state 1')")
    cells.save()
    cells.open()
    page.wait_for_selector(f"{SHOWN} b:has-text('state 1')")
    until(lambda: in_sight(page)[-1:] == ["update 1"])
    assert in_sight(page) == ["first line", "a warning", "state 1", "line after", "update 1"]
    assert page.locator("b:has-text('state'):visible").count() == 1  # the saved one is out of sight
    before = page.locator(SHOWN).element_handle()
    open_gate(2)
    page.wait_for_selector(f"{SHOWN} b:has-text('state 2')")
    page.wait_for_selector(f"{SHOWN} i:has-text('the last')")
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    assert page.locator(SHOWN).first.evaluate("(node, before) => node === before", before)
    assert in_sight(page)[:6] == [
        "first line", "a warning", "state 2", "line after", "update 1", "update 2",
    ]  # fmt: skip
    page.click(f"{CARD} [data-action=log]")
    page.wait_for_selector(".jp-OutputArea b:has-text('state 1')")  # closed, the saved one is back
    assert errors == []


@pytest.mark.long
def test_lines_wrap_and_have_their_times_when_that_is_wanted(
    notebook, page, source, open_gate, errors
):
    cells = notebook(LOAD, source("--detach"))
    open_gate(1)
    open_gate(2)
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    wide = page.locator(ROWS, has_text="wide x")
    wide.wait_for()
    page.wait_for_selector(f"{SHOWN} i:has-text('the last')")
    assert page.locator(f"{LOG} .smc-err").all_text_contents() == ["a warning"]
    assert page.locator(f"{LOG} :is(script, [onerror])").count() == 0
    assert page.evaluate("window.hacked") is None
    line = wide.bounding_box()["height"]
    page.click(f"{LOG} button:has-text('Wrap')")
    until(lambda: wide.bounding_box()["height"] > 2 * line)
    pane = page.locator(f"{LOG} .smc-pane")
    assert pane.evaluate("pane => pane.scrollWidth <= pane.clientWidth")
    overlap = """rows => rows.map(row => row.getBoundingClientRect())
        .sort((a, b) => a.top - b.top)
        .some((box, at, all) => at && box.top < all[at - 1].bottom - 1)"""
    until(lambda: not page.locator(ROWS).evaluate_all(overlap))
    page.select_option(f"{LOG} select[aria-label=Times]", "since")
    first = page.locator(f"{ROWS}[data-line='0'] .smc-time")
    until(lambda: first.text_content().count(":") == 1)
    page.select_option(f"{LOG} select[aria-label=Times]", "clock")
    until(lambda: first.text_content().count(":") == 2)
    cells.wait_idle()
    # The kernel draws the last card after the server: saved before, the log would open by itself.
    until(lambda: saved_state(cells) == "succeeded")
    cells.open()
    page.click(f"{CARD} [data-action=log]")
    page.wait_for_selector(f"{LOG} button[aria-pressed=true]:has-text('Wrap')")
    page.wait_for_selector(f"{ROWS}[data-line='0'] .smc-time")  # as it was
    page.click(f"{LOG} .smc-lane:has-text('stderr')")
    page.wait_for_selector(f"{ROWS}[data-line='0']:text-is('a warning')")
    page.click(f"{LOG} button:has-text('Wrap')")
    page.click(f"{LOG} .smc-lane:has-text('All')")
    with page.expect_download() as begun:
        page.click(f"{LOG} a:has-text('Download')")
    assert begun.value.path().read_text().startswith("first line\na warning\nline after\n")
    assert errors == []
