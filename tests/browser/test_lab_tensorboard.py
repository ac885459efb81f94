"""TensorBoard in JupyterLab: in a cell and from the card, drawing what a real job wrote."""

from __future__ import annotations

import pytest
from submarine_engine.tensorboard import list_boards, stop_board

pytestmark = pytest.mark.long

LOAD = "%load_ext submarine_magics"
WRITES = """
    %%submarine --name curves
    import os
    from tensorboard.summary import Writer

    writer = Writer(os.environ["SUBMARINE_LOGDIR"])
    for step in range(50):
        writer.add_scalar("loss/<b>train</b>", 1 / (step + 1), step)
    writer.close()
"""
SHOW = "%submarine tensorboard curves"
PATIENCE = 180_000


@pytest.fixture(autouse=True)
def none_left(lab):
    yield
    for board in list_boards(lab.home):
        stop_board(lab.home, board.id)


def drawn(frame):
    """Wait until a TensorBoard has drawn the run."""
    frame.get_by_text("loss/<b>train</b>").first.wait_for(timeout=PATIENCE)
    frame.locator("line-chart").first.wait_for(timeout=PATIENCE)


def test_a_cell_shows_what_the_job_wrote(notebook, page):
    notebook(LOAD, WRITES, SHOW).run_all()
    page.wait_for_selector(".jp-OutputArea iframe", timeout=PATIENCE)
    drawn(page.frame_locator(".jp-OutputArea iframe"))


def test_the_card_draws_curves_and_opens_tensorboard(notebook, page):
    notebook(LOAD, WRITES).run_all()
    curve = page.locator(".submarine-Card .smc-scalars").first
    curve.wait_for(timeout=PATIENCE)
    assert "loss/<b>train</b>" in curve.inner_text()
    button = page.get_by_role("button", name="TensorBoard", exact=True).first
    frame = page.locator("iframe[src*='submarine/tensorboards/']")
    button.click()
    drawn(frame.content_frame)
    assert "allow-top-navigation" not in frame.get_attribute("sandbox")
    page.evaluate(
        """() => {
            const { shell } = window.jupyterapp;
            const notebook = [...shell.widgets("main")].find((each) => each.sessionContext);
            shell.activateById(notebook.id);
        }"""
    )
    with page.expect_response("**/submarine/api/tensorboards?*"):
        button.click()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.id.startsWith('submarine-tensorboard')"
    )
    assert frame.count() == 1
