"""A notebook server that runs as a job, in a real browser, through Jupyter's own server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from submarine_engine import JobState
from submarine_engine.notebooks import await_server, stop, submit

from tests.jobs import LIMIT, until

IDLE = 618.0
"""Seconds: the notice of ten minutes comes as soon as nobody has used it for eighteen."""

LEGIBLE = """text => {
    const light = colour => {
        const [scale, parts] = [colour.startsWith("rgb") ? 255 : 1, colour.match(/[\\d.]+/g)];
        const of = parts.slice(0, 3).map(part => part / scale);
        const linear = of.map(v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const panel = getComputedStyle(text.closest("#submarine-panel")).backgroundColor;
    const [a, b] = [light(getComputedStyle(text).color), light(panel)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) >= 4.5;
}"""
"""WCAG 2's contrast of a text of the panel with its ground."""


@pytest.fixture
def served(lab, tmp_path, monkeypatch):
    """Give a notebook server as a job of the lab's home."""
    for name, value in {"HOME": lab.home, "LOCAL_GPUS": "2", "GRACE": "120"}.items():
        monkeypatch.setenv(f"SUBMARINE_{name}", str(value))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    monkeypatch.chdir(tmp_path)
    job = submit({"gpus": 1, "name": "explore", "idle": IDLE}, lambda _: None)
    yield await_server(job)
    if stop([job.id])[0][1]:
        job.wait(LIMIT)
    assert job.status().state is JobState.CANCELLED


@pytest.mark.long
def test_a_notebook_of_a_job_runs_in_the_browser(lab, served, page, errors, tmp_path):
    page.goto(f"{lab.url}api/status?token={lab.token}")  # logs the browser in
    page.goto(f"{lab.url.rstrip('/')}{served.proxy_path}")
    page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    page.get_by_text("| Idle").wait_for()
    page.locator(".jp-Notebook .cm-content").first.click()
    page.keyboard.type("import os; print(os.getcwd(), len(os.environ['CUDA_VISIBLE_DEVICES']) > 0)")
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output", has_text=f"{tmp_path} True").wait_for()
    # What runs there has neither token: the outer one does not leave, and the inner one not come.
    html = page.content()
    assert served.token not in html
    assert lab.token not in html
    assert page.evaluate("origin") == "null"
    assert errors == []
    for path in (Path(lab.home) / "jobs" / served.job / "tasks/worker-0").glob("std*"):
        assert served.token not in path.read_text()
        assert lab.token not in path.read_text()


@pytest.mark.long
def test_who_sits_elsewhere_is_told_that_it_ends_and_keeps_it(lab, served, panel, page):
    notice = page.locator(".Toastify__toast", has_text="explore: nobody has used it")
    notice.get_by_text("it ends in 10 min").wait_for()
    assert notice.count() == 1
    reason = page.locator(".submarine-Job-reason", has_text="Nobody has used it")
    reason.wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        panel.execute("apputils:change-theme", theme=theme)
        page.wait_for_function(LEGIBLE, arg=reason.element_handle())
        # JupyterLab removes its splash once for each change, wherever the one before has done it.
        page.locator("#jupyterlab-splash").wait_for(state="detached")
    notice.get_by_role("button", name="Keep").click()
    notice.wait_for(state="detached")
    events = Path(lab.home) / "jobs" / served.job / "events.jsonl"
    told = lambda: [json.loads(line) for line in events.read_text().splitlines()]  # noqa: E731
    until(lambda: [one["text"] for one in told() if one["event"] == "Warned"][1:2] == [""], LIMIT)
    notice.wait_for()  # nobody has used it since
    with page.context.expect_page() as opened:
        notice.get_by_role("button", name="Open notebook").click()
    assert "/submarine/proxy/" in opened.value.url
    notice.wait_for(state="detached")
