"""The pictures of jobs on Slurm and Kubernetes, and of the panel with jobs of several clusters."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path

from lab_driver import LIMIT, Lab, Notebook, execute
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize
from submarine_engine.installer.kubernetes import KubernetesCluster
from submarine_engine.installer.slurm import SlurmCluster
from yarn_pictures import QUIET

# Of plain Python: the image of a Kubernetes of one's own has no packages.
TRAINING = """
import random, time

random.seed(0)
points = [(x / 50, 3 * x / 50 + 1 + random.gauss(0, 0.1)) for x in range(100)]

def train(epochs, rate=0.01):
    slope = shift = 0.0
    for epoch in range(1, epochs + 1):
        loss = 0.0
        for x, y in random.sample(points, len(points)):
            error = slope * x + shift - y
            slope, shift = slope - rate * error * x, shift - rate * error
            loss += error ** 2 / len(points)
        print(f"Epoch {epoch}/{epochs} - loss: {loss:.4f}")
        time.sleep(0.5)
    return slope, shift
"""
CELLS = [
    TRAINING,
    "%%submarine --gpus 2 --name line\nslope, shift = train(epochs=8)",
    'print(f"y = {slope:.2f} x + {shift:.2f}")',
]
ALONGSIDE = [
    "%load_ext submarine_magics",
    TRAINING,
    "%%submarine --cluster local --gpus 1 --name try-out --detach\ntrain(epochs=600)",
    "%%submarine --cluster slurm --gpus 4 --name wide --detach\ntrain(epochs=600)",
    "%%submarine --cluster kubernetes --gpus 2 --name line --detach\ntrain(epochs=600)",
]


@contextmanager
def clusters_lab() -> Iterator[Lab]:
    """Start a Slurm, a Kubernetes, and a JupyterLab that finds both; end all three."""
    with (
        tempfile.TemporaryDirectory(prefix="submarine-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        home = Path(folder) / "home"
        slurm, kubernetes = SlurmCluster(home), KubernetesCluster(home)
        stack.callback(slurm.down)
        slurm.up(nodes=2, gpus=4)
        stack.callback(kubernetes.down)
        kubernetes.up(nodes=2, gpus=4)
        for cluster in (slurm, kubernetes):
            os.environ.update(cluster.environment())
        root = Path(folder) / "lab"
        root.mkdir()
        lab = Lab(root)
        stack.callback(lab.stop)
        yield lab


def take_clusters(browser: Browser, lab: Lab, folder: Path, theme: str, width: int = 960) -> None:
    """Take ``slurm.png``, ``kubernetes.png`` and ``panel.png``."""
    for cluster in ("slurm", "kubernetes"):
        size: ViewportSize = {"width": width, "height": 1700}
        context = browser.new_context(viewport=size, device_scale_factor=2)
        _take_cells(context.new_page(), lab, folder / f"{cluster}.png", cluster, theme)
        context.close()
    _take_panel(browser, lab, folder / "panel.png", theme)


def _take_cells(page: Page, lab: Lab, target: Path, cluster: str, theme: str) -> None:
    page.set_default_timeout(LIMIT)
    begin = f"%load_ext submarine_magics\n%submarine use {cluster}"
    notebook = Notebook(lab, page, cluster, [begin, *CELLS])
    notebook.theme(theme)
    notebook.run_all()
    page.wait_for_selector(".submarine-card[data-state=succeeded]")
    notebook.wait_idle()
    page.add_style_tag(content=QUIET)
    first = page.locator(".jp-CodeCell").first.bounding_box()
    last = page.locator(".jp-CodeCell").last.bounding_box()
    if first is None or last is None:
        raise RuntimeError("the notebook's cells are out of sight")
    clip = {**first, "height": last["y"] + last["height"] - first["y"]}
    _keep(page.screenshot(clip=clip), target)


def _take_panel(browser: Browser, lab: Lab, target: Path, theme: str) -> None:
    context = browser.new_context(viewport={"width": 1200, "height": 780}, device_scale_factor=2)
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    notebook = Notebook(lab, page, "alongside", ALONGSIDE)
    lab.show(page)
    page.evaluate(
        "path => window.jupyterapp.commands.execute('docmanager:open', {path})", notebook.path.name
    )
    notebook.theme(theme)
    execute(page, "submarine:show-panel")
    page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell")
    notebook.run_all()
    for number in range(3):
        page.locator(".submarine-card[data-state=running]").nth(number).wait_for(state="attached")
    page.locator(".submarine-Job-spark").nth(2).wait_for(state="attached")
    page.add_style_tag(content=QUIET)
    _keep(page.screenshot(clip={"x": 0, "y": 28, "width": 1200, "height": 720}), target)
    context.close()


def _keep(shot: bytes, target: Path) -> None:
    """Keep a picture with as many colours as can be told apart in it."""
    Image.open(BytesIO(shot)).convert("RGB").quantize(128).save(target, optimize=True)
