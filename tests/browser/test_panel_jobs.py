"""The panel of jobs and GPUs in a real JupyterLab: counts, filter, what is done to a job."""

from __future__ import annotations

import pytest
from lab_driver import wait_restored

from tests.browser.panels import Panel
from tests.jobs import until

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"> \u202egnp.exe"


@pytest.mark.long
def test_the_counts_are_those_of_the_moment(panel, jobs):
    panel.wait_for_free("2/2")
    job = jobs.start(gpus=1, name="counted")
    row = panel.row(job, "running")
    panel.wait_for_free("1/2")
    assert row.locator(".submarine-Job-facts").first.text_content().endswith(" · 1 GPU on local")
    assert "counted, running" in row.get_attribute("aria-label")
    meter = panel.page.locator(".submarine-Cluster [role=meter]").first
    assert meter.get_attribute("aria-valuetext") == "1 of 2 GPUs free"
    elapsed = row.locator(".submarine-Job-elapsed")
    before = elapsed.text_content()
    until(lambda: elapsed.text_content() != before)
    jobs.finish(job)
    panel.row(job, "succeeded")
    panel.wait_for_free("2/2")


@pytest.mark.long
def test_the_status_bar_leads_to_the_panel(panel, jobs):
    panel.wait_for_free("2/2")
    panel.execute("application:toggle-left-area")
    panel.page.wait_for_selector("#submarine-panel", state="hidden")
    panel.page.click(".submarine-Status-button")
    panel.page.wait_for_selector("#submarine-panel", state="visible")
    title = panel.page.get_attribute(".submarine-Status-button", "title")
    assert "local: 2 of 2 GPUs free" in title


@pytest.mark.long
def test_the_filter_takes_words_and_what_runs(panel, jobs):
    over, runs = jobs.start(name="alpha"), jobs.start(name="beta")
    jobs.finish(over)
    panel.row(over, "succeeded")
    panel.row(runs, "running")
    box = panel.page.get_by_role("searchbox")
    box.fill("ALPH succ")
    until(lambda: panel.rows() == [over])
    box.fill("")
    until(lambda: {over, runs} <= set(panel.rows()))
    panel.page.get_by_label("running only").check()
    until(lambda: panel.rows() == [runs])
    box.fill("no such words")
    panel.page.wait_for_selector("text=No matching jobs")
    assert panel.rows() == []


def test_a_job_is_cancelled_and_one_is_killed_after_a_question(panel, jobs):
    mild, hard = jobs.start(name="mild"), jobs.start(name="hard")
    panel.row(mild, "running").click()
    panel.button("cancel").click()
    panel.row(mild, "cancelled")
    assert panel.button("cancel").is_disabled()
    assert panel.button("kill").is_disabled()
    panel.row(hard, "running").click()
    panel.button("kill").click()
    panel.page.click(".jp-Dialog button:has-text('Keep running')")
    assert jobs.state(hard) == "running"
    panel.button("kill").click()
    assert "Stop hard?" in panel.page.text_content(".jp-Dialog")
    panel.page.click(".jp-Dialog button:has-text('Kill now')")
    assert panel.row(hard, "cancelled").get_attribute("aria-label").startswith("hard, killed")
    assert panel.row(mild, "cancelled").get_attribute("aria-label").startswith("mild, cancelled")


@pytest.mark.long
def test_a_job_that_is_older_than_five_minutes_is_asked_about(panel, jobs):
    job = jobs.start(name="old")
    panel.row(job, "running").click()
    jobs.aged(job, 362)  # nearly a minute is left until it says seven
    elapsed = panel.row(job).locator(".submarine-Job-elapsed")
    until(lambda: elapsed.text_content().startswith("6 min"))
    panel.button("cancel").click()
    dialog = panel.page.locator(".jp-Dialog")
    dialog.wait_for()
    assert "Submitted 6 min" in dialog.text_content()
    dialog.locator("button:has-text('Keep running')").click()
    assert jobs.state(job) == "running"
    panel.button("cancel").click()
    dialog.locator("button:has-text('Stop gently')").click()
    panel.row(job, "cancelled")


@pytest.mark.long
def test_a_job_that_is_to_be_killed_may_stop_gently(panel, jobs):
    job = jobs.start(name="gentle")
    panel.row(job, "running").click()
    panel.button("kill").click()
    panel.page.click(".jp-Dialog button:has-text('Stop gently')")
    assert panel.row(job, "cancelled").get_attribute("aria-label").startswith("gentle, cancelled")


@pytest.mark.long
def test_log_and_script_open_beside(panel, jobs):
    job = jobs.start(name="shown")
    panel.row(job, "running").dblclick()
    panel.page.wait_for_selector(".lm-TabBar-tabLabel:has-text('Log: shown')")
    panel.page.wait_for_selector("#jp-main-dock-panel >> text=epoch 1")
    panel.button("show-script").click()
    panel.page.wait_for_selector(".submarine-Script:has-text('import pathlib, sys, time')")


def test_where_a_job_stands_opens_in_a_tab_and_is_asked_for_anew_at_each_click(panel, jobs):
    job = jobs.start(name="stands")
    panel.row(job, "running").click()
    panel.button("show-stacks").click()
    panel.page.wait_for_selector(".lm-TabBar-tabLabel:has-text('Stacks: stands')")
    tab = panel.page.locator(".submarine-Stacks.submarine-mod-tab")
    tab.locator(".smc-place").wait_for()
    tab.locator("text=as of").wait_for()
    jobs.finish(job)
    panel.row(job, "succeeded")
    tab.locator("button:has-text('Refresh')").click()
    tab.locator("[role=alert]:has-text('it has no stacks any more')").wait_for()
    assert panel.button("show-stacks").is_disabled()
    assert panel.errors == []


@pytest.mark.long
def test_a_terminal_opens_inside_a_job_while_it_runs(panel, jobs):
    job = jobs.start(name="entered")
    panel.row(job, "running").click()
    panel.button("open-terminal").click()
    terminal = panel.page.locator(".jp-Terminal .xterm-helper-textarea")
    terminal.wait_for()
    terminal.focus()  # or what is typed before JupyterLab gives it the focus is lost
    came = jobs.folder / "came"
    panel.page.keyboard.type("printf '\\033]0;a title of the shell\\007'\n")
    panel.page.keyboard.type(f"echo $SUBMARINE_JOB_ID > {came}\n")
    until(lambda: came.exists() and came.read_text() == f"{job}\n")
    panel.page.locator(".lm-TabBar-tab:has-text('Terminal: entered')").wait_for()
    jobs.finish(job)
    panel.row(job, "succeeded").click()
    assert panel.button("open-terminal").is_disabled()
    assert panel.errors == []


@pytest.mark.long
def test_an_attach_cell_refills_in_the_current_notebook(notebook, panel, jobs):
    job = jobs.start(name="before")
    jobs.finish(job)
    cells = notebook("'first'", "'last'")
    panel.show().row(job, "succeeded").click()
    panel.button("attach").click()
    cells.page.wait_for_selector(".jp-OutputArea .submarine-card >> text=before")
    outputs = cells.page.locator(".jp-OutputArea")
    until(lambda: "epoch 1\nepoch 2" in "".join(outputs.all_text_contents()))
    sources = [cell.source for cell in cells.save().cells]
    attach = f"%load_ext submarine_magics\n%submarine job attach {job}"
    assert sources == ["'first'", attach, "'last'"]
    cells.wait_kernel_idle()  # one that is busy is not asked whether the magics are loaded
    until(lambda: inserted(panel, cells, job) == f"%submarine job attach {job}")


def inserted(panel, cells, job):
    """Insert another cell, and return its source: a kernel that is slow to answer is asked anew."""
    content = "window.jupyterapp.shell.currentWidget.content"
    before = cells.page.evaluate(f"() => {content}.widgets.length")
    panel.execute("submarine:insert-attach", job=job)
    cells.page.wait_for_function(f"before => {content}.widgets.length > before", arg=before)
    return cells.page.evaluate(f"() => {content}.activeCell.model.sharedModel.getSource()")


@pytest.mark.long
def test_attaching_without_a_notebook_says_what_is_missing(panel, jobs):
    job = jobs.start()
    panel.row(job, "running").click()
    panel.button("attach").click()
    panel.page.wait_for_selector(".jp-toast-message >> text=No notebook is open")


@pytest.mark.long
def test_the_way_back_to_the_cell(notebook, panel, page):
    cells = notebook("%load_ext submarine_magics", "%%submarine --name found\n1", "'last'")
    cells.run_all()
    cells.wait_idle()
    cells.save()
    panel.open()
    panel.page.locator(".submarine-Job", has_text="found").first.click()
    panel.button("go-to-cell").click()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.content?.activeCellIndex === 1"
    )
    page.wait_for_selector(".jp-Notebook .jp-mod-active:has-text('--name found')")


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("n" * 10_000, "\u0007\u2028\U000e0041")
        ),
    ],
)
def test_hostile_names_are_text(panel, jobs, name):
    job = jobs.start()
    jobs.finish(job)
    panel.row(job, "succeeded")
    jobs.renamed(job, name)
    panel.open()
    shown = panel.row(job, "succeeded").locator(".submarine-Job-name").text_content()
    assert len(shown) <= 100
    assert not {"\u202e", "\u0007", "\u2028", "\U000e0041"} & set(shown)
    panel.row(job).click(button="right")
    panel.page.wait_for_selector(".lm-Menu >> text=Copy Job ID")
    panel.page.keyboard.press("Escape")
    panel.execute("submarine:show-script", job=job)
    panel.page.wait_for_selector(".submarine-Script")
    assert panel.page.locator(".submarine-Panel img").count() == 0
    assert "hacked" not in panel.page.title()


def test_keys_alone_do(panel, jobs):
    keys = panel.page.keyboard
    older, newer = jobs.start(name="older"), jobs.start(name="newer")
    panel.row(older, "running")
    panel.row(newer, "running")
    panel.execute("application:toggle-left-area")
    panel.page.wait_for_selector("#submarine-panel", state="hidden")
    keys.press("Control+Alt+g")
    panel.page.wait_for_selector("#submarine-panel", state="visible")
    panel.page.wait_for_selector(".submarine-JobList:focus")
    keys.press("Home")
    panel.page.wait_for_selector(f"[data-job='{newer}'][aria-selected=true]")
    keys.press("ArrowDown")
    selected = panel.page.locator(f"[data-job='{older}'][aria-selected=true]")
    selected.wait_for()
    focus = panel.page.locator(".submarine-JobList")
    assert focus.get_attribute("aria-activedescendant") == selected.get_attribute("id")
    keys.press("Shift+F10")
    panel.page.wait_for_selector(".lm-Menu")
    keys.press("Escape")
    panel.page.wait_for_selector(".lm-Menu", state="detached")
    focus.focus()
    keys.press("Shift+Delete")
    panel.page.wait_for_selector(".jp-Dialog >> text=Stop older?")
    keys.press("Tab")
    keys.press("Tab")
    keys.press("Enter")
    panel.row(older, "cancelled")
    assert jobs.state(newer) == "running"
    focus.focus()
    keys.press("ArrowUp")
    keys.press("Enter")
    panel.page.wait_for_selector(".lm-TabBar-tabLabel:has-text('Log: newer')")


@pytest.mark.long
def test_the_palette_asks_which_job_is_meant(panel, jobs):
    first, second = jobs.start(name="first"), jobs.start(name="second")
    panel.row(first, "running")
    panel.row(second, "running")
    panel.execute("apputils:activate-command-palette")
    panel.page.fill(".lm-CommandPalette-input", "Submarine Cancel Job")
    panel.page.wait_for_selector(".lm-CommandPalette-item >> text=Cancel Job")
    panel.page.keyboard.press("ArrowDown")
    panel.page.keyboard.press("Enter")
    panel.page.select_option(".jp-Dialog select", label=f"● first — {first}")
    panel.page.click(".jp-Dialog button:has-text('Choose')")
    panel.row(first, "cancelled")
    assert jobs.state(second) == "running"


@pytest.mark.long
def test_the_end_of_a_job_is_told_to_who_does_not_look(panel, jobs):
    job = jobs.start(name="told")
    panel.row(job, "running")
    panel.execute("application:toggle-left-area")
    panel.page.wait_for_selector("#submarine-panel", state="hidden")
    panel.page.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
            document.dispatchEvent(new Event("visibilitychange"));
            window.told = [];
            window.Notification = class { constructor(text) { window.told.push(text); } };
            window.Notification.permission = "granted";
        }"""
    )
    jobs.finish(job)
    panel.page.wait_for_selector(".jp-toast-message >> text=told succeeded after")
    assert panel.page.title().startswith("✓ told succeeded after")
    assert panel.page.evaluate("window.told.length") == 1
    panel.page.click(".jp-toast-button:has-text('Open log')")
    panel.page.wait_for_selector(".lm-TabBar-tabLabel:has-text('Log: told')")


@pytest.mark.long
def test_the_panel_tells_what_jobs_have_cost(panel, jobs):
    job = jobs.start(name="costly", gpus=1)
    panel.row(job, "running")
    jobs.finish(job)
    panel.row(job, "succeeded")
    panel.page.click("#submarine-panel .submarine-Usage > summary")
    panel.page.select_option(".submarine-Usage-select >> nth=0", "name")
    row = panel.page.wait_for_selector(".submarine-Usage-table tr[title^='costly: 1 job']")
    # Its GPU was held for some part of its time for nothing: the bar has both, and no more.
    measure = "parts => parts.map(each => each.getBoundingClientRect().width)"
    widths = row.eval_on_selector_all(".submarine-Usage-bar span", measure)
    bar = row.query_selector(".submarine-Usage-bar").bounding_box()
    assert 0 < sum(widths) <= bar["width"] + 1
    panel.page.click("#submarine-panel .submarine-Usage > summary")


@pytest.mark.long
def test_of_several_tabs_the_one_that_is_seen_tells_once(panel, jobs):
    job = jobs.start(name="once")
    panel.row(job, "running")
    with panel.page.context.expect_page() as opened:
        panel.page.evaluate("window.open(location.href)")
    seen = opened.value
    wait_restored(seen)
    Panel(panel.lab, seen).show().row(job, "running")
    panel.page.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
            window.told = [];
            window.Notification = class { constructor(text) { window.told.push(text); } };
            window.Notification.permission = "granted";
            const later = window.setTimeout;  // however late the tab that is seen hears of it
            window.setTimeout = (f, ms, ...more) => later(f, ms === 1500 ? 15000 : ms, ...more);
        }"""
    )
    jobs.finish(job)
    seen.wait_for_selector(".jp-toast-message >> text=once succeeded after")
    panel.page.wait_for_function("document.title.startsWith('✓ once')")
    panel.page.wait_for_timeout(17_000)  # longer than a tab waits that nobody sees
    assert panel.page.evaluate("window.told.length") == 0
    assert panel.page.locator(".jp-toast-message").count() == 0
    seen.close()


@pytest.mark.long
def test_the_dark_theme_is_dark_here_too(panel, jobs):
    job = jobs.start(name="dark")
    panel.row(job, "running").click()
    brightness = """row => {
        const panel = row.closest('.submarine-Panel');
        return [getComputedStyle(row).color, getComputedStyle(panel).backgroundColor].map(
            (colour) => Math.max(...colour.match(/[\\d.]+/g).slice(0, 3).map(Number)) / 255
        );
    }"""
    text, ground = panel.row(job).evaluate(brightness)
    assert (text < 0.3, ground > 0.9) == (True, True)
    panel.execute("apputils:change-theme", theme="JupyterLab Dark")
    panel.page.wait_for_selector('body[data-jp-theme-name="JupyterLab Dark"]', state="attached")
    text, ground = panel.row(job).evaluate(brightness)
    assert (text > 0.7, ground < 0.2) == (True, True)
    panel.execute("apputils:change-theme", theme="JupyterLab Light")
    panel.page.wait_for_selector('body[data-jp-theme-name="JupyterLab Light"]', state="attached")
