"""The card in JupyterLab with our extension: the server feeds it, whatever the kernel does."""

from __future__ import annotations

import pytest
from submarine_engine.history import job_ids

from tests.jobs import until

LOAD = "%load_ext submarine_magics"
CARD = ".submarine-Card .submarine-card"
ROWS = ".submarine-Log .smc-row"
JUMP = "[data-action=jump]"
# Counts until the gate is there; says what it has done, as trainings do.
COUNT = """
    %%submarine OPTIONS
    import os, time
    step = 0
    while not os.path.exists("GATE"):
        print(f"step {step} <script>document.title = 'hacked'</script>", flush=True)
        step += 1
        time.sleep(0.1)
    {"steps": step > 0}
"""
FAILS = """
    %%submarine
    def train():
        rate = 1
        return rate / 0

    train()
"""


@pytest.fixture
def counting(gate):
    return lambda options="": COUNT.replace("OPTIONS", options).replace("GATE", gate.name)


@pytest.fixture
def running(notebook, page, counting):
    """Return a function that opens a notebook whose job counts."""

    def running(options="--name count"):
        cells = notebook(LOAD, counting(options))
        cells.run_all()
        page.wait_for_selector(f"{CARD}[data-state=running]")
        return cells

    return running


def step(page):
    """Return the last step that the log view shows; -1 for none."""
    rows = [row for row in page.locator(ROWS).all_text_contents() if row.startswith("step ")]
    return max((int(row.split()[1]) for row in rows), default=-1)


def grows(page):
    """Wait until the log view shows later steps than it does."""
    page.wait_for_selector(f"{ROWS}:has-text('step')")
    before = step(page)
    page.wait_for_function(
        """([rows, before]) => [...document.querySelectorAll(rows)].some(
            (row) => Number(row.textContent.split(" ")[1]) > before)""",
        arg=[ROWS, before],
    )


def from_the_beginning(page):
    """Scroll the log view to its first line, and return that."""
    page.locator(".smc-pane").press("Home")
    page.wait_for_selector(f"{ROWS}[data-line='0']:has-text('step')")
    return page.locator(f"{ROWS}[data-line='0']").text_content()


def test_the_card_and_its_log_follow_a_cell_to_its_end(running, page, gate, errors):
    cells = running("--gpus 1 --name count")
    assert page.locator(".cell-output-ipywidget-background").count() == 0
    assert page.locator(".submarine-card").count() == 1
    page.wait_for_selector(f"{CARD} td:has-text('worker-0')")
    before = page.locator(f"{CARD} .smc-elapsed").text_content()
    page.wait_for_function(
        "before => document.querySelector('.smc-elapsed').textContent !== before", arg=before
    )
    assert page.locator(ROWS).count() == 0  # the cell's own text is there
    page.click(f"{CARD} [data-action=log]")
    grows(page)
    page.click(f"{CARD} details.smc-script summary")
    page.wait_for_selector(f"{CARD} .smc-startup li.smc-import")  # while it runs already
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    cells.wait_idle()
    assert "after return" in page.locator(f"{CARD} .smc-ledger").text_content()
    assert page.locator(f"{CARD} details.smc-script").get_attribute("open") is not None
    assert page.locator(ROWS).count() > 0  # the last display left the log as it was
    assert page.locator(f"{CARD} [data-action=cancel]").count() == 0
    assert "hacked" not in page.title()
    assert page.locator(".jp-toast-message").count() == 0  # who looks at the card sees its end
    assert errors == []


@pytest.mark.long
def test_the_end_of_a_job_whose_card_is_out_of_sight_is_told(notebook, page, counting, gate):
    notebook(LOAD, counting("--name count"), *["# a cell between"] * 60).run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(61)")
    page.wait_for_function(
        """() => {
            const notebook = document.querySelector(".jp-NotebookPanel-notebook");
            const card = document.querySelector(".submarine-Card");
            const above = notebook.getBoundingClientRect().top;
            return !card || card.getBoundingClientRect().bottom < above;
        }"""
    )
    gate.touch()
    page.wait_for_selector(".jp-toast-message >> text=count succeeded after")


@pytest.mark.parametrize(
    "kernel",
    ["lives", *(pytest.param(one, marks=pytest.mark.long) for one in ("restarted", "gone"))],
)
def test_after_a_reload_the_cell_refills_and_goes_on(running, lab, page, gate, kernel):
    cells = running()
    cells.save()
    if kernel == "restarted":
        lab.restart_kernels()
    elif kernel == "gone":
        lab.end_kernels()
    cells.open()
    grows(page)
    assert from_the_beginning(page).startswith("step 0 <script>")
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
@pytest.mark.parametrize("who", ["the page", "another"])
def test_the_log_opens_where_the_kernel_restarts_under_the_page(running, lab, page, gate, who):
    running()
    assert page.locator(ROWS).count() == 0
    if who == "another":
        lab.restart_kernels()
    else:
        page.evaluate(
            """() => {
                const { sessionContext } = window.jupyterapp.shell.currentWidget;
                return sessionContext.session.kernel.restart();
            }"""
        )
    grows(page)
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
def test_a_detached_job_has_its_log_on_its_card(running, page, gate):
    cells = running("--detach")
    cells.wait_idle()
    grows(page)
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
def test_a_server_that_was_killed_is_followed_again(running, lab, page, gate):
    cells = running("--detach --name count")
    cells.wait_idle()
    grows(page)
    lab.kill()
    try:
        page.wait_for_selector(f"{CARD} .smc-note:has-text('Server unreachable; reconnecting')")
        assert page.locator(CARD).get_attribute("data-state") == "running"
    finally:
        lab.start()
    page.wait_for_selector(f"{CARD} .smc-note", state="hidden")
    grows(page)
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")


@pytest.mark.long
def test_cancel_is_heard_while_the_kernel_is_busy(running, page):
    cells = running()
    button = page.locator(f"{CARD} [data-action=cancel]")
    button.click()
    page.wait_for_selector(f"{CARD}[data-state=cancelled]")
    assert page.locator(f"{CARD} button.smc-cancel").count() == 0
    cells.wait_idle()


@pytest.mark.long
def test_kill_asks_first(running, page):
    running("--detach --name count")
    kill = page.locator(f"{CARD} [data-action=kill]")
    kill.focus()
    page.keyboard.press("Enter")  # the button's, not the notebook's
    page.wait_for_selector(".jp-Dialog :text('Stop count?')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".jp-Dialog", state="detached")
    assert page.locator(CARD).get_attribute("data-state") == "running"
    kill.click()
    page.click(".jp-Dialog button:has-text('Kill now')")
    page.wait_for_selector(f"{CARD}[data-state=cancelled]")
    assert page.locator(f"{CARD} .smc-state").text_content() == "■ killed"


@pytest.mark.long
@pytest.mark.parametrize("part", [CARD, ".submarine-Log .smc-status"])
def test_keys_on_a_card_never_delete_its_cell(running, page, part, gate):
    cells = running("--detach")
    grows(page)
    page.locator(part).click(position={"x": 3, "y": 3})
    page.keyboard.press("d")
    page.keyboard.press("d")

    def is_deleted():
        if page.locator(".jp-CodeCell").count() == 1:
            return True
        page.locator(".jp-CodeCell .jp-InputPrompt").first.click()  # what is pressed there is done
        page.keyboard.type("dd")  # JupyterLab takes them for one command within a second
        return False

    until(is_deleted)
    assert page.locator(CARD).count() == 1
    gate.touch()
    cells.wait_idle()


@pytest.mark.long
def test_enter_saves_the_model(notebook, page, lab, gate):
    save = f"""
        %%submarine --detach
        import os, time
        from submarine_runtime import on_save
        on_save(lambda folder: open(f"{{folder}}/model", "w").close())
        while not os.path.exists("{gate.name}"):
            time.sleep(0.05)
    """
    notebook(LOAD, save).run_all()
    page.click(f"{CARD} [data-action=save]")
    page.keyboard.type("models/now")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{CARD} .smc-save :text('Saved to')")
    assert (lab.work / "models/now/model").exists()
    page.keyboard.press("Enter")
    folder = lab.work / "models/now"
    page.wait_for_selector(f"{CARD} .smc-save :text('{folder} exists. Choose another folder.')")
    gate.touch()


@pytest.mark.long
def test_a_card_of_an_older_release_is_shown_whole(notebook, page):
    kind = "application/vnd.submarine.job+json"
    old = {"version": 1, "job_id": "20240101-000000-aaaaa", "name": "old", "state": "succeeded"}
    html = "<div class='submarine-card' data-state='succeeded'>all that it was</div>"
    cells = notebook(f"display({{'{kind}': {old!r}, 'text/html': {html!r}}}, raw=True)")
    cells.run_all()
    page.wait_for_selector(".submarine-Card .submarine-card >> text=all that it was")
    assert page.locator(".submarine-card").count() == 1


def test_a_failed_job_leads_to_its_cell_and_line(notebook, page, errors):
    cells = notebook(LOAD, FAILS, *["# a cell between"] * 30)
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=failed] {JUMP} >> nth=1")
    frames = page.locator(f"{CARD} .smc-frames li").all_text_contents()
    assert frames == ["In [2], line 6train()", "In [2], line 4, in trainreturn rate / 0"]
    # The cell's own traceback has the code.
    page.locator(f"{CARD} .smc-frames code").first.wait_for(state="hidden")
    page.click(f"{CARD} {JUMP} >> nth=1")
    page.wait_for_function(
        """() => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            const at = notebook.activeCell.editor.getCursorPosition();
            return notebook.activeCellIndex === 1 && notebook.mode === "edit" && at.line === 3;
        }"""
    )
    assert errors == []


@pytest.mark.long
def test_a_frame_whose_cell_is_gone_says_so(notebook, page):
    cells = notebook(LOAD, FAILS)
    cells.run_all()
    page.wait_for_selector(f"{CARD}[data-state=failed] {JUMP} >> nth=1")
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1 }")
    page.evaluate(
        """() => {
            const cell = window.jupyterapp.shell.currentWidget.content.widgets[1];
            Object.defineProperty(cell.model, "id", { value: "another" });
        }"""
    )
    page.click(f"{CARD} {JUMP} >> nth=0")
    page.wait_for_selector(f"{CARD} .smc-failure >> text=In [2] is not in this notebook any more")


@pytest.mark.long
def test_a_job_that_the_server_does_not_know_stays_as_it_was(running, lab, page, gate):
    cells = running()
    gate.touch()
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    cells.wait_idle()
    cells.save()
    (job_id,) = [one for one in job_ids(lab.home) if one in cells.path.read_text()]
    folder = lab.home / "jobs" / job_id
    folder.rename(folder.with_name("elsewhere"))
    try:
        cells.open()
        page.wait_for_selector(f"{CARD} .smc-note:has-text('does not know the job')")
        assert page.locator(CARD).get_attribute("data-state") == "succeeded"
        assert page.locator(f"{CARD} td").first.text_content() == "worker"
        assert page.locator(f"{CARD} [data-action]:visible").count() == 0
    finally:
        folder.with_name("elsewhere").rename(folder)


@pytest.mark.long
@pytest.mark.parametrize("data", [{}, {"job_id": "../../x", "card": {"facts": 3}}, {"card": []}])
def test_a_bundle_that_is_no_job_breaks_nothing(notebook, page, data, errors):
    kind = "application/vnd.submarine.job+json"
    cells = notebook(f"display({{'{kind}': {data!r}, 'text/plain': 'x'}}, raw=True)")
    cells.run_all()
    page.wait_for_selector(CARD)
    cells.wait_idle()
    assert errors == []


@pytest.mark.long
def test_the_card_can_be_read_in_the_dark_and_in_a_narrow_page(running, page, gate):
    page.set_viewport_size({"width": 480, "height": 900})
    cells = running("--detach")
    grows(page)
    cells.theme("JupyterLab Dark")
    brightness = """node => {
        const style = getComputedStyle(node);
        return [style.color, style.backgroundColor].map(
            (colour) => Math.max(...colour.match(/\\d+/g).slice(0, 3).map(Number)) / 255);
    }"""
    for part in (CARD, ".submarine-Log"):
        text, ground = page.locator(part).evaluate(brightness)
        assert ground < 0.2
        assert text > 0.7
    wide = "node => node.scrollWidth <= node.clientWidth"
    assert page.locator(CARD).evaluate(wide)
    assert page.locator(".submarine-Log").evaluate(wide)
    gate.touch()
    cells.theme("JupyterLab Light")
