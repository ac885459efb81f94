"""The panel with other servers: without our extension, of two users, and with a YARN cluster."""

from __future__ import annotations

import json
import re
import time

import pytest
from lab_driver import Lab, Notebook

from tests.browser.panels import Jobs, Panel
from tests.jobs import until

pytestmark = pytest.mark.long


@pytest.fixture
def another_lab(tmp_path):
    """Start labs of their own folders, with these settings of the server."""
    labs = []

    def start(name, **settings):
        root = tmp_path / name
        (root / "config").mkdir(parents=True)
        text = json.dumps({"ServerApp": settings})
        (root / "config/jupyter_server_config.json").write_text(text)
        labs.append(Lab(root))
        return labs[-1]

    yield start
    for lab in labs:
        lab.stop()


def test_without_the_server_s_extension_it_says_so_and_nothing_breaks(another_lab, page):
    lab = another_lab("bare", jpserver_extensions={"submarine_jupyter": False})
    asked, begun = [], time.monotonic()
    page.on("request", lambda request: asked.append(request.url))
    panel = Panel(lab, page).open()
    note = page.locator(".submarine-Note")
    note.wait_for()
    assert "jupyter server extension enable submarine_jupyter" in note.text_content()
    cells = Notebook(lab, page, "plain", ["%load_ext submarine_magics", "%%submarine\n6 * 7"])
    cells.run_all()
    page.wait_for_selector(".jp-OutputArea-executeResult >> text=42")
    panel.show()
    note.wait_for()
    assert page.locator(".submarine-Status-button:visible").count() == 0
    assert page.locator(".jp-toast-message").count() == 0
    # The first page's panel and status bar; the second's; a card (the live one and, in its place,
    # the last one), and a cell's state. Each asks once, and again where one of them comes or goes;
    # a page asks once a minute whether the extension was enabled.
    shown = 12 + (time.monotonic() - begun) // 60
    assert sum("api/stream" in url for url in asked) <= shown  # not again and again
    assert panel.errors == []


def test_two_users_see_their_own_jobs_alone(another_lab, browser, page, tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    first, second = another_lab("ada"), another_lab("ben")
    secret, own = Jobs(first, tmp_path / "a"), Jobs(second, tmp_path / "b")
    try:
        hers, his = secret.start(name="hers"), own.start(name="his")
        panel = Panel(second, page).open()
        panel.row(his, "running")
        assert panel.rows() == [his]
        until(lambda: secret.state(hers) == "running")
        panel.execute("submarine:kill", job=hers)
        panel.page.click(".jp-Dialog button:has-text('Kill')")
        panel.page.wait_for_selector(".jp-toast-message >> text=there is no such job on record")
        assert secret.state(hers) == "running"
    finally:
        secret.end()
        own.end()


def test_nothing_is_asked_while_the_panel_is_hidden_and_the_status_bar_off(tmp_path, page):
    file = tmp_path / "lab/settings/@submarine-notebook/labextension/status.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"enabled": False}))
    lab = Lab(tmp_path / "lab")
    try:
        asked, ended = [], []
        page.on("request", lambda one: "api/stream" in one.url and asked.append(one.url))
        page.on("requestfailed", lambda one: "api/stream" in one.url and ended.append(one.url))
        lab.show(page)
        panel = Panel(lab, page)
        assert asked == []
        panel.show()
        page.wait_for_selector(".submarine-Cluster")
        assert len(asked) == 1
        assert page.locator(".submarine-Status").count() == 0
        panel.execute("application:toggle-left-area")
        until(lambda: page.evaluate("1") and ended == asked)
        assert len(asked) == 1
    finally:
        lab.stop()


@pytest.mark.timeout(900)
def test_a_cell_s_job_on_yarn(on_yarn, tmp_path, page):
    lab = Lab(tmp_path / "lab")
    gate = tmp_path / "gate"
    train = f"""
        %%submarine --cluster yarn --gpus 1 --name yarned
        import pathlib, time
        print("epoch", 1, flush=True)
        while not pathlib.Path({str(gate)!r}).exists():
            time.sleep(0.1)
        print("epoch", 2)
    """
    try:
        cells = Notebook(lab, page, "train", ["%load_ext submarine_magics", train])
        panel = Panel(lab, page).show()
        page.wait_for_selector("[data-cluster=yarn] >> text=4/4 GPUs free")
        cells.command("notebook:run-all-cells")
        running = ".submarine-Job[data-state=running]"
        page.wait_for_selector(f"{running}:has-text('yarned')")
        page.wait_for_selector("[data-cluster=yarn] >> text=3/4 GPUs free")
        card = page.locator(".jp-OutputArea .submarine-card[data-state=running]")
        card.wait_for()
        page.wait_for_selector(".jp-OutputArea :text('epoch 1')")
        link = card.locator("a", has_text=re.compile("LOG|log")).first
        assert link.get_attribute("href").startswith("http://")
        cells.save()
        cells.open()
        panel.show()
        page.wait_for_selector(f"{running}:has-text('yarned')")
        page.wait_for_selector(".jp-OutputArea :text('epoch 1')")
        gate.touch()
        page.wait_for_selector(".jp-OutputArea .submarine-card[data-state=succeeded]")
        page.wait_for_selector(".submarine-Job[data-state=succeeded]:has-text('yarned')")
        page.wait_for_selector(".jp-OutputArea :text('epoch 2')")
        page.wait_for_selector("[data-cluster=yarn] >> text=4/4 GPUs free")
        assert panel.errors == []
    finally:
        gate.touch()
        lab.stop()
