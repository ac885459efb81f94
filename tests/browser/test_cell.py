"""``%%submarine`` in JupyterLab without our extension: card, log, result, cancel, reload, dark.

A job that a test wants to see running goes on until the test lets it end.
"""

from __future__ import annotations

import pytest

from tests.browser.panels import errors_of

LOAD = "%load_ext submarine_magics"
TRAIN = """
    %%submarine OPTIONS
    import os, time
    for epoch in range(1, 5):
        print(f"epoch {epoch} <script>document.title = 'hacked'</script>", flush=True)
    while not os.path.exists("GATE"):
        time.sleep(0.05)
    {"accuracy": 0.97}
"""
CARD = ".jp-OutputArea .submarine-card"


@pytest.fixture(scope="module")
def lab(bare_lab):
    return bare_lab


@pytest.fixture
def train(gate):
    """Return the source of a cell that trains until the gate is there."""
    return lambda options="": TRAIN.replace("OPTIONS", options).replace("GATE", gate.name)


def test_a_cell_shows_its_card_its_log_and_its_result(notebook, page, train, gate, errors):
    cells = notebook(LOAD, train("--gpus 2 --name digits"))
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    assert page.locator(f"{CARD} [data-action=cancel]").is_visible()
    before = page.locator(f"{CARD} .smc-elapsed").text_content()
    page.wait_for_function(
        "before => document.querySelector('.smc-elapsed').textContent !== before", arg=before
    )
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    cells.wait_idle()
    card = page.locator(CARD)
    assert card.count() == 1
    assert "digits" in card.text_content()
    assert "after return" in card.locator(".smc-ledger").text_content()
    phases = card.locator(".smc-startup li").all_text_contents()
    assert [phase.split()[0] for phase in phases] == ["queue", "container", "environment", "import"]
    assert card.locator("td").all_text_contents()[:2] == ["worker", "worker-0"]
    output = page.locator(".jp-OutputArea").all_text_contents()[-1]
    assert "epoch 4 <script>document.title = 'hacked'</script>" in output
    assert "{'accuracy': 0.97}" in output
    assert "hacked" not in page.title()
    assert errors == []


@pytest.mark.parametrize("way", [pytest.param("log server", marks=pytest.mark.long), "interrupt"])
def test_the_button_cancels_while_the_cell_is_busy(notebook, page, train, way):
    if way == "interrupt":
        page.route("**/cancel", lambda route: route.abort())
    cells = notebook(LOAD, train())
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    button = page.locator(f"{CARD} button")
    # In one step: the job may end, and its button go, before the page is asked again.
    click = "button => { button.click(); return button.textContent; }"
    assert button.evaluate(click) == "Cancelling…"
    page.wait_for_selector(f"{CARD}[data-state=cancelled]")
    assert page.locator(f"{CARD} button").count() == 0
    cells.wait_idle()


@pytest.mark.long
def test_a_cancel_leaves_the_cell_alone_that_runs_now(notebook, page, train, gate):
    busy = f"""
        import os, time
        while not os.path.exists("{gate.name}-busy"):
            time.sleep(0.05)
        print("went " + "through")
    """
    cells = notebook(LOAD, train("--detach"), busy)
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    page.click(f"{CARD} button")
    page.wait_for_selector(f"{CARD}[data-state=cancelled]")
    gate.with_name(f"{gate.name}-busy").touch()
    page.wait_for_selector("text=went through")


@pytest.mark.long
def test_a_detached_card_lives_on_after_a_reload(notebook, page, train, gate):
    cells = notebook(LOAD, train("--detach"))
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    cells.wait_idle()
    cells.save()
    cells.open()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
def test_the_card_is_there_after_a_reload_without_its_kernel(notebook, lab, page, train, gate):
    gate.touch()
    cells = notebook(LOAD, train())
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    cells.wait_idle()
    outputs = [output.get("data", {}) for output in cells.save().cells[1].outputs]
    (card,) = [data for data in outputs if "text/html" in data]
    assert "application/vnd.jupyter.widget-view+json" not in card
    lab.tidy()
    cells.open()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    assert "submarine job logs" in page.locator(CARD).text_content()


@pytest.mark.long
def test_the_log_link_opens_the_log_and_follows_it(notebook, page, train, errors):
    cells = notebook(LOAD, train("--name noisy"))
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    with page.context.expect_page() as opened:
        page.click(f"{CARD} a.smc-log")
    log = opened.value
    more = errors_of(log)
    log.wait_for_selector("text=epoch 4 <script>document.title")
    assert log.title() == "noisy log"
    assert log.locator("#state").text_content() == "running"
    page.click(f"{CARD} button")
    log.wait_for_selector("#state:has-text('cancelled')")
    assert errors + more == []


@pytest.mark.long
def test_a_failed_cell_says_why_on_its_card_also_in_the_dark(notebook, page):
    cells = notebook(LOAD, "%%submarine\nraise ValueError('<img src=x onerror=alert(1)>')")
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=failed]")
    assert "ValueError: <img src=x onerror=alert(1)>" in page.locator(CARD).text_content()
    assert page.locator(f"{CARD} img").count() == 0
    brightness = """card => {
        const style = getComputedStyle(card);
        return [style.color, style.backgroundColor].map(
            (colour) => Math.max(...colour.match(/\\d+/g).slice(0, 3).map(Number)) / 255
        );
    }"""
    text, ground = page.locator(CARD).evaluate(brightness)
    assert text < 0.3
    assert ground > 0.9
    cells.theme("JupyterLab Dark")
    text, ground = page.locator(CARD).evaluate(brightness)
    assert ground < 0.2
    assert text > 0.7
    cells.theme("JupyterLab Light")
