"""Take the pictures of the docs in a real JupyterLab; run it by hand after a change of the card.

``docs/images/cell.png``: a finished ``%%submarine`` cell that trains a model of the notebook in
place and draws its losses, and the cell that uses the model; ``charts.png``: what two workers
report and use, over time;
``slurm.png``, ``kubernetes.png``: a cell on each, and ``panel.png``: jobs of both beside a local
one (as root, and Kubernetes has to be built: `make kubernetes`);
``yarn-*.png``: one on YARN while it runs and after, and its application at the ResourceManager;
``zeppelin.png``: a note in Zeppelin; ``airflow.png``: a flow in Airflow; ``flow.png``: one in
JupyterLab, as it runs; ``reopen.gif``: a cell
whose page was closed and whose kernel was restarted while it trained; ``sweep.gif``: a sweep that
grows, yields to another job, and grows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from airflow_pictures import take_airflow
from cluster_pictures import clusters_lab, take_clusters
from flow_pictures import take_flow
from lab_driver import LIMIT, Lab, Notebook, change_theme, chromium, execute
from PIL import Image
from playwright.sync_api import Browser
from reopen_recording import record
from submarine_engine.bundle import Bundle, Manifest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, Resources, Role
from sweep_recording import GPUS, record_sweep
from yarn_pictures import QUIET, take_yarn, yarn_lab
from zeppelin_pictures import take_zeppelin

IMAGES = Path(__file__).parents[1] / "docs/images"
CELLS = [
    """
    %load_ext submarine_magics
    import matplotlib.pyplot as plt
    from IPython.display import clear_output
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(digits.data / 16, digits.target)
    model = MLPClassifier((64,), learning_rate_init=0.01, random_state=0)
    losses = []
    """,
    """
    %%submarine --name digits
    for epoch in range(1, 21):
        model.partial_fit(train_x, train_y, classes=range(10))
        losses.append(model.loss_)
        clear_output(wait=True)
        print(f"Epoch {epoch}/20 - loss: {losses[-1]:.3f}")
        plt.figure(figsize=(7, 2.4))
        plt.plot(losses, "o-")
        plt.show()
    """,
    """
    print(f"{model.score(test_x, test_y):.0%} of {len(test_x)} pictures read right")
    print(f"loss {losses[0]:.2f} → {losses[-1]:.2f}, and no GPU is held any more")
    """,
]


REPORTS = """
import time
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from submarine_runtime import job, report

digits = load_digits()
model = MLPClassifier((64,), learning_rate_init=0.002, random_state=job.rank)
for epoch in range(120):
    model.partial_fit(digits.data / 16, digits.target, classes=range(10))
    accuracy = model.score(digits.data / 16, digits.target)
    report(epoch, loss=model.loss_, accuracy=accuracy)
    print(f"epoch {epoch}: loss {model.loss_:.4f}, {accuracy:.1%} read right", flush=True)
    time.sleep(0.5)
"""


def take_charts(browser: Browser, lab: Lab, folder: Path, target: Path, theme: str) -> None:
    """Run a job of two workers, and take a picture of its charts."""
    cluster = LocalCluster(lab.home)
    manifest = Manifest(entry="train.py", python=f"3.{sys.version_info.minor}")
    bundle = Bundle(files={"train.py": REPORTS.encode()}, manifest=manifest)
    roles = (Role(count=2, resources=Resources(gpus=0)),)
    job = Job(cluster, cluster.submit(JobSpec(name="digits", roles=roles), bundle, workdir=folder))
    job.result()
    page = browser.new_context(viewport={"width": 1200, "height": 780}).new_page()
    page.set_default_timeout(LIMIT)
    lab.show(page)
    change_theme(page, theme)
    execute(page, "submarine:show-panel")
    page.wait_for_selector(".submarine-Job-spark")
    execute(page, "submarine:show-metrics", job=job.id)
    place = page.locator(".submarine-Chart .u-over").first
    box = place.bounding_box()
    if box is None:
        raise RuntimeError("the chart is out of sight")
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2)
    page.wait_for_selector(".submarine-Moment [aria-current]")
    page.add_style_tag(content=QUIET)
    shot = page.screenshot(clip={"x": 0, "y": 28, "width": 1200, "height": 720})
    Image.open(BytesIO(shot)).convert("RGB").quantize(128).save(target, optimize=True)


def take_cell(browser: Browser, lab: Lab, target: Path, theme: str) -> None:
    """Run the cells, and take a picture of them."""
    context = browser.new_context(viewport={"width": 960, "height": 1700}, device_scale_factor=2)
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    notebook = Notebook(lab, page, "digits", CELLS)
    notebook.theme(theme)
    notebook.run_all()
    page.wait_for_selector(".submarine-card[data-state=succeeded]")
    notebook.wait_idle()
    page.wait_for_selector(".jp-OutputArea >> text=no GPU is held any more")
    page.wait_for_selector(".jp-OutputArea img")
    page.add_style_tag(content=QUIET)
    first = page.locator(".jp-CodeCell").first.bounding_box()
    last = page.locator(".jp-CodeCell").last.bounding_box()
    if first is None or last is None:
        raise RuntimeError("the notebook's cells are out of sight")
    bottom = last["y"] + last["height"]
    page.screenshot(path=target, clip={**first, "height": bottom - first["y"]})
    context.close()


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to put them into")
    parser.add_argument("--theme", default="JupyterLab Light")
    parser.add_argument("--width", type=int, default=960)
    parser.add_argument(
        "--scene",
        choices=(
            "airflow",
            "cell",
            "charts",
            "clusters",
            "flow",
            "reopen",
            "sweep",
            "yarn",
            "zeppelin",
        ),
        help="only this one",
    )
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        if options.scene in (None, "cell"):
            with local_lab() as lab:
                take_cell(browser, lab, options.to / "cell.png", options.theme)
        if options.scene in (None, "charts"):
            with local_lab() as lab:
                take_charts(browser, lab, lab.work, options.to / "charts.png", options.theme)
        if options.scene in (None, "flow"):
            with local_lab() as lab:
                take_flow(browser, lab, options.to / "flow.png", options.theme)
        if options.scene in (None, "reopen"):
            with local_lab() as lab:
                record(browser, lab, options.to / "reopen.gif")
        if options.scene in (None, "sweep"):
            with local_lab(GPUS) as lab:
                record_sweep(browser, lab, options.to / "sweep.gif")
        if options.scene in (None, "clusters"):
            with clusters_lab() as lab:
                take_clusters(browser, lab, options.to, options.theme, options.width)
        if options.scene in (None, "yarn"):
            with yarn_lab() as lab:
                take_yarn(browser, lab, options.to, options.theme, options.width)
        if options.scene in (None, "zeppelin"):
            take_zeppelin(browser, options.to / "zeppelin.png", options.width)
        if options.scene in (None, "airflow"):
            take_airflow(browser, options.to / "airflow.png", options.width)


@contextmanager
def local_lab(gpus: int = 2) -> Iterator[Lab]:
    """Start a JupyterLab whose jobs run on this machine; end it."""
    with tempfile.TemporaryDirectory(prefix="submarine-") as folder:
        lab = Lab(Path(folder), gpus=gpus)
        try:
            yield lab
        finally:
            lab.stop()


if __name__ == "__main__":
    main()
