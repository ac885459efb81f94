"""The picture of a flow's graph in a real Airflow's own page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import nbformat
from lab_driver import LIMIT
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
NAME = "nightly"
PARAMETERS = "epochs = 3"
CELLS = [
    "%%submarine --name load --gpus 0\nimages = list(range(60))\nlabels = images[::-1]",
    "%%submarine --name small --gpus 1\nsmall = sum(images) * epochs",
    "%%submarine --name large --gpus 2\nlarge = sum(images) * sum(labels) * epochs",
    "%%submarine --name compare --gpus 0\nbest = max(small, large)",
    "%%submarine --name report --gpus 0\nprint('the best is', best, 'of', len(labels))",
]


def take_airflow(browser: Browser, target: Path, width: int) -> None:
    """Run a flow by Airflow, and take a picture of its graph."""
    sys.path.insert(0, str(ROOT))  # what drives Airflow for tests drives it for pictures
    from tests.flows.airflow_site import PAGE, Airflow  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory(prefix="submarine-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
        cells += map(new_code_cell, CELLS)
        nbformat.write(new_notebook(cells=cells), home / f"{NAME}.ipynb")
        flow = home / f"{NAME}.flow"
        words = ["submarine_engine.cli", "flow", "build", f"{NAME}.ipynb", "--to", "airflow"]
        words += ["--output", str(flow), "--schedule", "0 2 * * *"]
        subprocess.run([sys.executable, "-m", *words], cwd=home, check=True)
        os.environ |= {"SUBMARINE_HOME": str(home / "jobs"), "SUBMARINE_LOCAL_GPUS": "2"}
        site = Airflow(home / "airflow", flow, "3")
        try:
            site.run("dags", "test", NAME)
            site.start(PAGE)
            context = browser.new_context(
                viewport={"width": width, "height": 420}, device_scale_factor=2
            )
            context.add_init_script("localStorage.setItem('default_dag_view', '\"graph\"')")
            page = context.new_page()
            page.set_default_timeout(LIMIT)
            page.goto(f"{site.url}/dags/{NAME}/runs/{quote(site.last_run(NAME))}")
            page.wait_for_selector(".react-flow__node >> text=report")
            page.get_by_label("Collapse Details Panel").click()
            # The overview of the graph would lie on it.
            page.add_style_tag(content=".react-flow__minimap { display: none }")
            page.get_by_label("Fit View").click()
            page.wait_for_timeout(2000)  # the graph glides to its place
            page.screenshot(path=target)
            context.close()
        finally:
            site.close()
