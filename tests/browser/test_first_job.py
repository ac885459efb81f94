"""*Run your first job*: offered where there is nothing yet, and true to its last word."""

from __future__ import annotations

import pytest
from lab_driver import Lab, execute

pytestmark = pytest.mark.service
CELL = ".jp-NotebookPanel .jp-CodeCell"


@pytest.fixture(scope="module")
def fresh_lab(tmp_path_factory):
    """Start a JupyterLab whose user has no job yet, on a machine without a GPU."""
    lab = Lab(tmp_path_factory.mktemp("fresh"), gpus=0)
    yield lab
    lab.stop()


@pytest.fixture
def first(fresh_lab, page):
    fresh_lab.show(page)
    yield page
    fresh_lab.tidy()


@pytest.mark.long
def test_a_panel_without_jobs_offers_one(first):
    execute(first, "submarine:show-panel")
    first.wait_for_selector(".submarine-Panel >> text=No jobs yet")
    first.click(".submarine-Panel button:has-text('Run your first job')")
    first.wait_for_selector(f"{CELL} >> text=%%submarine --name first")


@pytest.mark.long
def test_the_job_that_the_launcher_offers_outlives_its_tab(first):
    first.click(".jp-LauncherCard:has-text('Run your first job')")
    first.wait_for_selector(f"{CELL} >> text=%%submarine --name longer")
    first.wait_for_function(  # or running its cells asks for a kernel
        """() => {
            const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
            return session?.kernel?.connectionStatus === "connected";
        }"""
    )
    execute(first, "notebook:run-all-cells")
    first.wait_for_selector(".submarine-card[data-state=succeeded]:has-text('first')")
    first.wait_for_selector(".submarine-card[data-state=running]:has-text('longer')")
    execute(first, "application:close")
    first.click(".jp-Dialog button:has-text('Save')")
    first.wait_for_selector(".jp-NotebookPanel", state="detached")
    first.dblclick(".jp-DirListing-item:has-text('first-job.ipynb')")
    again = first.locator(".submarine-card[data-state=running]:has-text('longer')")
    again.wait_for()
    first.wait_for_selector(".submarine-Log >> text=Training on the CPU")
    execute(first, "submarine:show-panel")
    first.wait_for_selector(".submarine-Panel .submarine-Job[data-state=running]")
    assert first.locator(".submarine-First").is_hidden()
