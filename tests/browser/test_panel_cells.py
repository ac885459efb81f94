"""*Run cell as job* and the state beside a cell, in a real JupyterLab and in both kernels."""

from __future__ import annotations

import re

import nbformat
import pytest
from lab_driver import Notebook

from tests.jobs import until

WHERE = "import os\nos.environ.get('SUBMARINE_TASK')"
BUTTON = ".jp-cell-toolbar [data-command='submarine:run-as-job']"
STATE = ".submarine-CellState"


@pytest.fixture
def one_cell(lab, page, request):
    """Open a notebook with one cell, in the kernel with that name; the cell is the active one."""
    name = re.sub(r"\W+", "-", request.node.name)
    yield lambda kernel: Notebook(lab, page, name, [WHERE], kernel)
    lab.tidy()


def run_active(cells):
    cells.command("notebook:run-cell")
    cells.wait_idle()


def tags(cells):
    return cells.save().cells[0].metadata.get("tags")


def test_the_button_runs_a_cell_as_a_job(one_cell, page):
    cells = one_cell("python3")  # the magics are not loaded there
    page.locator(BUTTON).first.click()
    page.wait_for_selector(f"{STATE}[data-state=succeeded]")
    cells.wait_idle()
    assert "'worker-0'" in page.text_content(".jp-OutputArea")
    assert tags(cells) == ["submarine"]


@pytest.mark.long
def test_the_tag_makes_a_cell_a_job(one_cell, page):
    cells = one_cell("submarine")
    cells.command("submarine:toggle-run")
    page.wait_for_selector(f"{STATE}[data-state=tagged]")
    assert tags(cells) == ["submarine"]
    run_active(cells)
    state = page.locator(f"{STATE}[data-state=succeeded]")
    state.wait_for()
    assert state.get_attribute("title").endswith(": succeeded")
    assert "'worker-0'" in page.text_content(".jp-OutputArea")
    assert page.locator(".jp-toast-message").count() == 0
    cells.command("submarine:toggle-run")
    until(lambda: tags(cells) is None)


@pytest.mark.long
def test_python_s_own_kernel_is_told_about_once_and_helped(one_cell, page):
    cells = one_cell("python3")
    cells.command("submarine:toggle-run")  # the tag alone; the button loads the magics itself
    words = page.locator(".jp-toast-message", has_text="%load_ext submarine_magics")
    words.wait_for()
    page.click("text=Load the magics")
    page.wait_for_function(
        """async () => {
            const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
            const future = kernel.requestExecute({ code: '', silent: true, user_expressions: {
                loaded: "'submarine' in get_ipython().magics_manager.magics['cell']" } });
            const reply = await future.done;
            return reply.content.user_expressions.loaded.data['text/plain'] === 'True';
        }"""
    )
    run_active(cells)
    page.wait_for_selector(f"{STATE}[data-state=succeeded]")
    assert "'worker-0'" in page.text_content(".jp-OutputArea")


@pytest.mark.long
def test_a_tagged_cell_that_ran_here_is_said_to_have(one_cell, page):
    cells = one_cell("python3")
    content = nbformat.read(cells.path, as_version=4)
    content.cells[0].metadata["tags"] = ["submarine:--gpus=1"]
    nbformat.write(content, cells.path)
    cells.open()
    state = page.locator(f"{STATE}[data-state=tagged]")
    state.wait_for()
    assert state.get_attribute("title") == "Runs as a job with --gpus=1: tag submarine"
    run_active(cells)
    page.wait_for_selector(".jp-toast-message >> text=That cell ran in the notebook")


@pytest.mark.long
def test_the_options_of_a_tag_come_back(one_cell, page):
    cells = one_cell("submarine")
    content = nbformat.read(cells.path, as_version=4)
    content.cells[0].metadata["tags"] = ["mine", "submarine:--gpus=1"]
    nbformat.write(content, cells.path)
    cells.open()
    page.wait_for_selector(f"{STATE}[data-state=tagged]")
    cells.command("submarine:toggle-run")
    until(lambda: tags(cells) == ["mine"])
    page.wait_for_selector(STATE, state="detached")
    cells.command("submarine:toggle-run")
    until(lambda: tags(cells) == ["mine", "submarine:--gpus=1"])
