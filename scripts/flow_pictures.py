"""The picture of a flow in JupyterLab, while it runs; see ``take_pictures``."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from textwrap import dedent

import nbformat
from lab_driver import LIMIT, Lab, change_theme, execute
from PIL import Image
from playwright.sync_api import Browser
from yarn_pictures import QUIET

CELLS = (
    'day = "2026-11-22"\nrate = 0.5',
    "import time\n\nrows = list(range(250_000))\nrows.append(len(day))",
    "%%submarine --gpus 1 --name fit-tall\ntall = [sum(rows) * rate]\ntime.sleep(3)",
    """
    %%submarine --gpus 1 --name fit-wide
    wide = [len(rows)]
    for _ in range(600):
        time.sleep(0.1)
    """,
    "%%submarine --name choose\nbest = max(tall, wide)",
    "%%submarine --name check\nassert best[0] > 0",
    "%%submarine --name alarm --after check --condition one_failed\nprint('too weak')",
    "%%submarine --name publish --after check\nprint(best)",
)


def take_flow(browser: Browser, lab: Lab, target: Path, theme: str) -> None:
    """Run a flow from its page, and take a picture of it when its first nodes are through."""
    cells = [nbformat.v4.new_code_cell(dedent(source).strip()) for source in CELLS]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), lab.work / "nightly.ipynb")
    page = browser.new_context(viewport={"width": 1100, "height": 860}).new_page()
    page.set_default_timeout(LIMIT)
    lab.show(page)
    change_theme(page, theme)
    execute(page, "submarine:show-flow", path="nightly.ipynb")
    page.get_by_role("button", name="Build and run").click()
    page.wait_for_selector(".smc-graph [data-name=fit-tall][data-state=succeeded]")
    page.wait_for_selector(".smc-graph [data-name=fit-wide][data-state=running]")
    page.add_style_tag(content=f"{QUIET} .Toastify {{ display: none }}")
    page.mouse.move(0, 0)
    shot = page.screenshot(clip={"x": 0, "y": 28, "width": 1100, "height": 808})
    Image.open(BytesIO(shot)).convert("RGB").quantize(128).save(target, optimize=True)
    page.locator("[data-action=flow-cancel]").click()
    page.get_by_role("button", name="Cancel the run", exact=True).click()
    page.wait_for_selector(".submarine-card[data-state=cancelled]")
