"""The log view in JupyterLab: logs of any length, hostile text, search, keys, lanes, a tab."""

from __future__ import annotations

import pytest

from tests.jobs import until

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
LOG = ".submarine-Log"
PANE = f"{LOG} .smc-pane"
ROWS = f"{LOG} .smc-row"
HOSTILE = r"""
    %%submarine --detach
    import sys
    out = sys.stdout.buffer
    out.write(b"<script>window.hacked = 1</script><img src=x onerror=alert(1)>\n")
    out.write(b"\x1b[31mred\x1b[0m \x1b[2J\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\n")
    out.write("ab\u202edc \x00\x08\n".encode())
    out.write(b"\xff\xfe broken\n")
    out.write(b"x" * 1_000_000 + b"\n")
    out.write(b"10 %\r20 %\r\x1b[1m30 %\x1b[0m\n")
    sys.stderr.write("to stderr\n")
"""
# 100 MB: a million lines of 100 bytes.
LONG = """
    %%submarine --detach
    import sys
    for block in range(1000):
        numbers = range(block * 1000, block * 1000 + 1000)
        sys.stdout.write("".join(f"line {number:07d} {'.' * 86}\\n" for number in numbers))
"""
LINES = 1_000_000
WAIT = """
    import os, time
    sys.stdout.flush()
    while not os.path.exists("GATE"):
        time.sleep(0.05)
"""


@pytest.fixture
def opened(notebook, page, gate):
    """Return a function that runs a job to its end, with its log open."""

    def opened(source):
        cells = notebook(LOAD, source + WAIT.replace("GATE", gate.name))
        cells.run_all()
        page.wait_for_selector(ROWS)  # the cell has no text of its own: the log opens by itself
        gate.touch()
        page.wait_for_selector(f"{CARD}[data-state=succeeded]")
        return cells

    return opened


def row(page, number):
    """Wait for a line to be there, and return its text."""
    line = page.locator(f"{ROWS}[data-line='{number}']:not(:empty)")
    line.wait_for(state="attached")
    return line.text_content()


def top(page):
    """Return the number of the line at the upper edge."""
    return page.locator(PANE).evaluate(
        """pane => {
            const edge = pane.getBoundingClientRect().top;
            return Math.min(...[...pane.querySelectorAll(".smc-row")]
                .filter((row) => row.getBoundingClientRect().bottom > edge + 1)
                .map((row) => Number(row.dataset.line)));
        }"""
    )


def test_hostile_lines_are_text_and_nothing_else(opened, page, errors):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    opened(HOSTILE)
    # The last line: all others have their places then.
    page.wait_for_selector(f"{ROWS}[data-line='6']:has-text('to stderr')", state="attached")
    assert row(page, 0) == "<script>window.hacked = 1</script><img src=x onerror=alert(1)>"
    assert row(page, 1) == "red link"
    assert page.locator(f"{ROWS} .smc-c1").text_content() == "red"
    assert row(page, 2) == "ab[U+202E]dc ␀␈"
    assert row(page, 3) == "\ufffd\ufffd broken"
    assert row(page, 4).startswith("xxxx")
    assert row(page, 4).endswith(" more")
    assert len(row(page, 4)) < 2000
    assert row(page, 5) == "30 %"
    page.click(f"{ROWS} .smc-more")
    whole = page.locator(f"{LOG} .smc-whole pre")
    assert len(whole.text_content()) > 9000
    page.keyboard.press("Escape")
    whole.wait_for(state="hidden")
    assert page.locator(f"{LOG} :is(script, img, iframe, a:not([download]))").count() == 0
    assert page.evaluate("window.hacked") is None
    assert (dialogs, errors) == ([], [])


@pytest.mark.long
def test_a_log_of_100_mb_is_scrolled_and_searched(opened, page, errors):
    opened(LONG)
    page.wait_for_selector(f"{LOG} .smc-status:has-text('1,000,000 lines')")
    assert row(page, LINES - 1).startswith("line 0999999")
    pane = page.locator(PANE)
    pane.press("Home")
    assert row(page, 0).startswith("line 0000000")
    pane.press("ArrowDown")
    until(lambda: top(page) == 1)
    pane.hover()
    page.mouse.wheel(0, 180)
    until(lambda: 2 <= top(page) <= 12)
    pane.evaluate("pane => { pane.scrollTop = (pane.scrollHeight - pane.clientHeight) / 2 }")
    page.wait_for_function(
        """rows => [...document.querySelectorAll(rows)].some((row) => {
            const number = Number(row.dataset.line);
            return number > 450000 && number < 550000 && row.textContent.includes(number);
        })""",
        arg=ROWS,
    )
    assert pane.evaluate("pane => pane.scrollHeight") < 16_000_000
    assert page.locator(ROWS).count() < 200
    pane.press("Control+f")
    page.keyboard.type("LINE 0777777")
    page.wait_for_selector(f"{ROWS}.smc-current:has-text('line 0777777') mark")
    page.wait_for_selector(f"{LOG} .smc-search >> text=1 of 1")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{LOG} .smc-search", state="hidden")
    assert page.locator(f"{ROWS} mark").count() == 0
    assert top(page) > 700_000  # the reader stays where the search led
    pane.press("End")
    assert row(page, LINES - 1).startswith("line 0999999")
    assert errors == []


@pytest.mark.long
def test_keys_and_follow(notebook, page, gate):
    source = f"""
        %%submarine --detach
        import os, time
        step = 0
        while not os.path.exists("{gate.name}"):
            print("step", step, flush=True)
            step += 1
            time.sleep(0.02)
    """
    notebook(LOAD, source).run_all()
    page.wait_for_function(
        "rows => [...document.querySelectorAll(rows)].some((row) => Number(row.dataset.line) > 60)",
        arg=ROWS,
    )
    pane = page.locator(PANE)
    follow = page.locator(f"{LOG} button:has-text('Follow')")
    assert follow.get_attribute("aria-pressed") == "true"
    pane.press("Home")
    page.wait_for_selector(f"{LOG} button[aria-pressed=false]:has-text('Follow')")
    pane.press("PageDown")
    lines = page.locator(f"{LOG} .smc-status").text_content()
    page.wait_for_function(
        "([log, before]) => document.querySelector(`${log} .smc-status`).textContent !== before",
        arg=[LOG, lines],
    )
    before = top(page)
    assert before > 0
    page.wait_for_selector(f"{ROWS}[data-line='{before}']", state="attached")
    follow.click()
    page.wait_for_selector(f"{LOG} button[aria-pressed=true]:has-text('Follow')")
    assert top(page) > before
    assert "lines" in pane.get_attribute("aria-label")
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
def test_lanes_download_and_a_tab(opened, page, lab):
    cells = opened(HOSTILE)
    page.click(f"{LOG} .smc-lane:has-text('stderr')")
    assert row(page, 0) == "to stderr"
    with page.expect_download() as begun:
        page.click(f"{LOG} a:has-text('Download')")
    assert begun.value.suggested_filename.endswith("-worker-0.stderr.log")
    assert begun.value.path().read_text() == "to stderr\n"
    page.click(f"{LOG} button:has-text('Open in a tab')")
    tab = page.locator(f"{LOG}.submarine-mod-tab")
    tab.locator(".smc-row:has-text('red link')").wait_for()
    cells.theme("JupyterLab Dark")
    assert tab.locator(".smc-pane").bounding_box()["height"] > 100
    cells.theme("JupyterLab Light")
