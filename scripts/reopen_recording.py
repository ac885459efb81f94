"""Run a training cell, close the page, restart the kernel, reopen: the steps, and a recording.

The steps are what a test does too; each says what is seen, so that they end only once it is so.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from lab_driver import LIMIT, Lab, Notebook
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page

CELLS = [
    "%load_ext submarine_magics",
    """
    %%submarine --gpus 2 --name digits
    import time
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    digits = load_digits()
    model = MLPClassifier((64,), learning_rate_init=0.01, random_state=0)
    for epoch in range(1, EPOCHS + 1):
        model.partial_fit(digits.data / 16, digits.target, classes=range(10))
        print(f"Epoch {epoch:2}/EPOCHS - loss: {model.loss_:.3f}")
        time.sleep(PAUSE)
    """,
]
CARD = ".submarine-Card .submarine-card"
SIZE = {"width": 820, "height": 1040}
_COLOURS = 48
_EVERY = 1000
"""Milliseconds between two pictures of the reopened cell."""
_HELD = 2500
"""Milliseconds that the last picture stays."""

Shoot = Callable[[Page, int], None]


def reopen(
    browser: Browser, lab: Lab, shoot: Shoot, *, epochs: int = 70, pause: float = 0.5
) -> str:
    """Do it all; return the first line of the log as the reopened cell shows it.

    Parameters
    ----------
    shoot
        Called at each moment worth a picture, with the page and how long to show it, in ms.
    epochs, pause
        How many lines the job writes, and the seconds between two.

    Raises
    ------
    playwright.sync_api.TimeoutError
        The page does not show what it should.
    """
    source = CELLS[1].replace("EPOCHS", str(epochs)).replace("PAUSE", str(pause))
    context = browser.new_context(viewport=SIZE)
    page = _page(context)
    notebook = Notebook(lab, page, "reopen", [CELLS[0], source])
    notebook.run_all()
    page.wait_for_selector(f"{CARD}[data-state=running]")
    for epoch in (1, 2, 3, 4):
        page.wait_for_selector(f".jp-OutputArea >> text=Epoch  {epoch}/")
        shoot(page, 500)
    notebook.save()
    page.close()
    blank = context.new_page()
    _say(blank, "the page is closed …")
    shoot(blank, 1200)
    lab.restart_kernels()
    _say(blank, "… and its kernel restarted. The job goes on.")
    shoot(blank, 1600)
    blank.close()
    page = notebook.page = _page(context)
    notebook.open()
    page.wait_for_selector(".submarine-Log .smc-row:has-text('Epoch')")
    pane = page.locator(".submarine-Log .smc-pane")
    pane.press("Home")
    first = page.locator(".submarine-Log .smc-row[data-line='0']")
    first.wait_for()
    shoot(page, 1600)
    text = first.text_content() or ""
    pane.press("End")
    seen: str | None = ""
    while page.locator(f"{CARD}[data-state=running]").count():
        lines = page.locator(".submarine-Log .smc-status").text_content()
        if lines != seen:
            shoot(page, 400)
        seen = lines
        page.wait_for_timeout(_EVERY)
    page.wait_for_selector(f"{CARD}[data-state=succeeded]")
    page.wait_for_selector(f".submarine-Log .smc-row:has-text('Epoch {epochs}/{epochs}')")
    shoot(page, _HELD)
    context.close()
    return text


def record(
    browser: Browser, lab: Lab, target: Path, *, epochs: int = 70, pause: float = 0.5
) -> str:
    """Do the steps of `reopen`, and write them to `target` as an animated GIF."""
    return recorded(target, lambda shoot: reopen(browser, lab, shoot, epochs=epochs, pause=pause))


def recorded(target: Path, steps: Callable[[Shoot], str]) -> str:
    """Do the steps, write their pictures to `target` as an animated GIF, return what they do."""
    pictures: list[Image.Image] = []
    times: list[int] = []

    def shoot(page: Page, shown: int) -> None:
        with Image.open(io.BytesIO(page.screenshot())) as picture:
            pictures.append(picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=_COLOURS))
        times.append(shown)

    text = steps(shoot)
    first, *rest = pictures
    first.save(
        target, save_all=True, append_images=rest, duration=times, loop=0, optimize=True, disposal=1
    )
    return text


def _page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    return page


def _say(page: Page, words: str) -> None:
    style = "font:22px system-ui,sans-serif;color:#59636e;display:grid;place-items:center;"
    page.set_content(f"<body style='{style}height:90vh;margin:0'>{words}</body>")
