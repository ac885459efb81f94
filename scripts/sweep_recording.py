"""A sweep that takes each GPU as it falls free, gives two to another job, and takes them again.

Each step says what is seen, so that it ends only once it is so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lab_driver import LIMIT, Lab, Notebook
from playwright.sync_api import Browser, Page
from reopen_recording import Shoot, recorded

GPUS = 4
CELLS = [
    """
    %load_ext submarine_magics
    rate = 0.01
    """,
    """
    %%submarine --detach --sweep "rate=loguniform(1e-4, 1e-1)" --trials 99 --minimize loss --gpus 1
    import math, time
    from submarine_runtime import report

    for step in range(20):
        loss = (math.log10(rate) + 2) ** 2 + 1 / (step + 1)
        report(step, loss=loss)
        time.sleep(0.2)
    """,
    """
    %%submarine --gpus 2 --name other
    import time

    print("this job waits for two GPUs, and has them at the trials' next reports")
    time.sleep(5)
    """,
]
SIZE = {"width": 860, "height": 960}
_CARDS = ".submarine-Card .submarine-card"
# How many GPUs it holds is what is to be seen, and both cards at once.
_CLOSE = """() => document.querySelectorAll("details.smc-trials[open]").forEach(
    (node) => node.removeAttribute("open"))"""
_NO_LOGS = ".submarine-Log { display: none; }"
_FRAME = 700
"""Milliseconds between two pictures."""
_HELD = 2500
"""Milliseconds that the last picture stays."""


def grow_and_yield(browser: Browser, lab: Lab, shoot: Shoot) -> str:
    """Do it all; return how many GPUs the sweep held, from picture to picture.

    Raises
    ------
    playwright.sync_api.TimeoutError
        The page does not show what it should.
    """
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    notebook = Notebook(lab, page, "search", CELLS)
    notebook.command("notebook:run-cell-and-select-next")
    notebook.command("notebook:run-cell-and-select-next")
    sweep = page.locator(_CARDS).first
    sweep.locator("details.smc-trials").first.wait_for()
    page.add_style_tag(content=_NO_LOGS)
    held: list[int] = []
    _until(page, shoot, held, lambda: held[-1] == GPUS)
    for _ in range(3):
        _look(page, shoot, held)
    notebook.command("notebook:run-cell")
    other = page.locator(_CARDS).nth(1)
    other.wait_for()
    _until(page, shoot, held, lambda: other.get_attribute("data-state") == "succeeded")
    _until(page, shoot, held, lambda: held[-1] == GPUS)
    for _ in range(4):
        _look(page, shoot, held)
    shoot(page, _HELD)
    context.close()
    return " ".join(map(str, held))


def record_sweep(browser: Browser, lab: Lab, target: Path) -> str:
    """Do the steps of `grow_and_yield`, and write them to `target` as an animated GIF."""
    return recorded(target, lambda shoot: grow_and_yield(browser, lab, shoot))


def _until(page: Page, shoot: Shoot, held: list[int], seen: Callable[[], bool]) -> None:
    _look(page, shoot, held)
    for _ in range(LIMIT // _FRAME):
        if seen():
            return
        _look(page, shoot, held)
    raise TimeoutError(f"the sweep held {held}")


def _look(page: Page, shoot: Shoot, held: list[int]) -> None:
    """Take a picture where the card has changed."""
    page.wait_for_timeout(_FRAME)
    page.evaluate(_CLOSE)
    words = page.locator(_CARDS).first.locator(".smc-sweep").text_content() or ""
    found = re.search(r"Held (\d+) GPU", words)
    held.append(int(found[1]) if found else 0)
    shoot(page, 350)
