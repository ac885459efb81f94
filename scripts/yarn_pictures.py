"""The pictures of jobs on YARN: cards in a real JupyterLab, and the ResourceManager's own page."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab_driver import LIMIT, Lab, Notebook
from playwright.sync_api import Browser, Locator, Page
from submarine_engine.installer import HadoopCluster, Wanted

CELLS = [
    """
    %load_ext submarine_magics
    %submarine use yarn
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(digits.data / 16, digits.target)
    """,
    """
    import time

    def train(epochs):
        model = MLPClassifier((64,), learning_rate_init=0.01, random_state=0)
        history = []
        for epoch in range(1, epochs + 1):
            model.partial_fit(train_x, train_y, classes=range(10))
            history.append(model.score(test_x, test_y))
            print(f"Epoch {epoch}/{epochs} - loss: {model.loss_:.2f} - accuracy: {history[-1]:.0%}")
            time.sleep(2)
        return model, history
    """,
    """
    %%submarine --gpus 2 --name warm-up
    train(epochs=1);
    """,
    """
    %%submarine --gpus 2 --name digits
    model, history = train(epochs=8)
    """,
]
START = ".submarine-card[data-state=running] .smc-progress"
QUIET = """
.jp-Collapser, .jp-cell-toolbar { visibility: hidden !important }
.jp-Cell { border-color: transparent !important; outline: none !important }
.jp-Cell { box-shadow: none !important }
"""


@contextmanager
def yarn_lab() -> Iterator[Lab]:
    """Start a YARN cluster, and a JupyterLab that finds it; end both."""
    with tempfile.TemporaryDirectory(prefix="submarine-", ignore_cleanup_errors=True) as folder:
        cluster = HadoopCluster(Path(folder) / "home")
        try:
            cluster.up(Wanted(gpus=4))
            os.environ.update(cluster.environment())
            root = Path(folder) / "lab"
            root.mkdir()
            lab = Lab(root)
            try:
                yield lab
            finally:
                lab.stop()
        finally:
            cluster.down()


def take_yarn(browser: Browser, lab: Lab, folder: Path, theme: str, width: int = 960) -> None:
    """Take ``yarn-running.png``, ``yarn-ledger.png`` and ``yarn-application.png``."""
    context = browser.new_context(viewport={"width": width, "height": 1900}, device_scale_factor=2)
    page = context.new_page()
    page.set_default_timeout(LIMIT * 2)
    notebook = Notebook(lab, page, "digits", CELLS)
    notebook.theme(theme)
    notebook.run_all()
    last = page.locator(".jp-CodeCell").last
    last.locator(START).wait_for()
    last.locator("text=Epoch 4/8").last.wait_for()
    page.add_style_tag(content=QUIET)
    take_still(last, folder / "yarn-running.png")
    address = last.locator("a", has_text="application_").get_attribute("href")
    take_application(context.new_page(), str(address), folder / "yarn-application.png")
    last.locator(".submarine-card[data-state=succeeded]").wait_for()
    notebook.wait_idle()
    last.screenshot(path=folder / "yarn-ledger.png")
    context.close()


def take_still(cell: Locator, target: Path) -> None:
    """Take a picture of a cell whose log grows: one that did not while it was taken."""
    before = None
    while before != (before := cell.bounding_box()):
        cell.screenshot(path=target)


def take_application(page: Page, address: str, target: Path) -> None:
    """Take a picture of the application's page at the ResourceManager."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector("text=appattempt_")
    page.screenshot(path=target)
