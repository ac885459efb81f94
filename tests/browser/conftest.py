"""One real JupyterLab and one real Chromium for all tests of a process."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest
from playwright.sync_api import Page, sync_playwright

LIMIT = 60_000  # ms; a busy machine is no failure
FLAGS = """
--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync
""".split()  # noqa: SIM905 - as one types them
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}


class Lab:
    """A JupyterLab server of our own.

    Parameters
    ----------
    root
        Everything of it lies there: notebooks in ``work``, jobs in ``home``.
    """

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.home = root / "home"
        self.token = secrets.token_hex(16)
        self._runtime = root / "runtime"
        settings = root / "settings"
        for name, values in SETTINGS.items():
            file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        self.work.mkdir()
        own = {
            "HOME": root, "IPYTHONDIR": root / "ipython", "SUBMARINE_HOME": self.home,
            "SUBMARINE_LOCAL_GPUS": "2", "JUPYTER_CONFIG_DIR": root / "config",
            "JUPYTER_DATA_DIR": root / "data", "JUPYTER_RUNTIME_DIR": self._runtime,
            "JUPYTERLAB_SETTINGS_DIR": settings, "JUPYTERLAB_WORKSPACES_DIR": root / "workspaces",
        }  # fmt: skip
        self._log = root / "lab.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                    "--expose-app-in-browser", f"--ServerApp.root_dir={self.work}",
                    "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0",
                    f"--IdentityProvider.token={self.token}",
                ],
                env={**os.environ, **{key: str(value) for key, value in own.items()}},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.url = self._wait_for_url()

    def _wait_for_url(self) -> str:
        told = self._runtime / f"jpserver-{self.process.pid}.json"
        end = time.monotonic() + LIMIT / 1000
        while time.monotonic() < end and self.process.poll() is None:
            if told.exists():
                return str(json.loads(told.read_text())["url"])
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text()}")

    def stop(self) -> None:
        """End the server, which ends its kernels."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Notebook:
    """A notebook in a page of the browser.

    Parameters
    ----------
    sources
        The source of each code cell.
    """

    def __init__(self, lab: Lab, page: Page, name: str, sources: list[str]) -> None:
        self.page = page
        self.path = lab.work / f"{name}.ipynb"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.path)
        self._url = f"{lab.url}doc/tree/{quote(self.path.name)}?token={lab.token}&reset"
        self.open()

    def open(self) -> None:
        """Open or reload the page, and wait until the kernel answers."""
        self.page.goto(self._url)
        self.page.wait_for_selector(".jp-NotebookPanel .jp-CodeCell")
        self.page.wait_for_function(
            """() => {
                const panel = window.jupyterapp?.shell.currentWidget;
                return panel?.sessionContext?.session?.kernel?.connectionStatus === "connected";
            }"""
        )

    def command(self, name: str, **arguments: str) -> None:
        """Execute a command of JupyterLab; waits for nothing."""
        self.page.evaluate(
            "([name, args]) => { window.jupyterapp.commands.execute(name, args) }",
            [name, arguments],
        )

    def run_all(self) -> None:
        """Run all cells; returns at once."""
        self.command("notebook:run-all-cells")

    def wait_idle(self) -> None:
        """Wait until every cell has run."""
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")];
                return prompts.length && prompts.every((p) => /\\[\\d+\\]/.test(p.textContent));
            }"""
        )

    def save(self) -> nbformat.NotebookNode:
        """Save, and return what was saved."""
        before = self.path.stat().st_mtime_ns
        self.command("docmanager:save")
        end = time.monotonic() + LIMIT / 1000
        while self.path.stat().st_mtime_ns == before and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        return nbformat.read(self.path, as_version=4)

    def theme(self, name: str) -> None:
        """Change the theme, and wait until it is there."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_selector(f'body[data-jp-theme-name="{name}"]', state="attached")


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture(scope="session")
def chromium():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("chromium is missing: `scripts/require chromium` or `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.set_default_timeout(LIMIT)
    yield page
    context.close()


@pytest.fixture
def notebook(lab, page, request):
    """Return a function that makes a notebook of cells and opens it."""
    return lambda *sources: Notebook(lab, page, request.node.name, list(sources))
