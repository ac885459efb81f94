"""A real JupyterLab and a real Chromium, driven by a program: for pictures and for tests.

Both start with folders and settings of their own: nothing of the user's is seen or touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from urllib.parse import quote
from urllib.request import Request, urlopen

import nbformat
from playwright.sync_api import Browser, Page, sync_playwright
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.errors import SubmarineError
from submarine_engine.history import job_ids

LIMIT = 180_000  # ms; a busy machine is no failure
FLAGS = """
--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync
""".split()  # noqa: SIM905 - as one types them
OURS = "@submarine-notebook/labextension"
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}


class Lab:
    """A JupyterLab server of our own.

    Parameters
    ----------
    root
        Everything of it lies there: notebooks in ``work``, jobs in ``.local/share/submarine``.
    ours
        Whether the page has our own extension; without it, cards are widgets.
    gpus
        How many the machine is said to have.
    """

    def __init__(self, root: Path, *, ours: bool = True, gpus: int = 2) -> None:
        self.work = root / "work"
        self.home = root / ".local/share/submarine"
        self.token = secrets.token_hex(16)
        self._runtime = root / "runtime"
        settings = root / "settings"
        for name, values in SETTINGS.items():
            file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        disabled = root / "config/labconfig/page_config.json"
        disabled.parent.mkdir(parents=True)
        disabled.write_text(json.dumps({"disabledExtensions": {OURS: not ours}}))
        self.work.mkdir()
        self._environment = {
            "HOME": root, "XDG_CONFIG_HOME": root / ".config", "IPYTHONDIR": root / "ipython",
            "SUBMARINE_HOME": self.home,
            "SUBMARINE_LOCAL_GPUS": gpus, "JUPYTER_CONFIG_DIR": root / "config",
            "JUPYTER_DATA_DIR": root / "data", "JUPYTER_RUNTIME_DIR": self._runtime,
            "JUPYTERLAB_SETTINGS_DIR": settings, "JUPYTERLAB_WORKSPACES_DIR": root / "workspaces",
        }  # fmt: skip
        self._log = root / "lab.log"
        # Nobody else is given it while the server is away, and the server may bind it.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self._port = self._held.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start the server, the second time at the same address, and wait until it answers."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                    "--expose-app-in-browser", f"--ServerApp.root_dir={self.work}",
                    "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self._port}",
                    "--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}",
                ],
                env={**os.environ, **{k: str(v) for k, v in self._environment.items()}},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.url = self._wait_for_url()

    def kill(self) -> None:
        """Kill the server at once, as a crash does; its kernels are left alone."""
        self.process.kill()
        self.process.wait()

    def _wait_for_url(self) -> str:
        told = self._runtime / f"jpserver-{self.process.pid}.json"
        end = time.monotonic() + LIMIT / 1000
        while time.monotonic() < end and self.process.poll() is None:
            # Not there yet, or not all of it; and the server tells its address before it listens.
            with suppress(OSError, ValueError):
                url = str(json.loads(told.read_text())["url"])
                urlopen(f"{url}api", timeout=60).close()  # noqa: S310 - our own
                return url
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text()}")

    def end_kernels(self) -> None:
        """Shut all kernels down."""
        for kernel in json.loads(self._ask("GET", "api/kernels")):
            self._ask("DELETE", f"api/kernels/{kernel['id']}")

    def restart_kernels(self) -> None:
        """Restart all kernels, as the notebook's menu does."""
        for kernel in json.loads(self._ask("GET", "api/kernels")):
            self._ask("POST", f"api/kernels/{kernel['id']}/restart")

    def tidy(self) -> None:
        """Shut all kernels down, and kill the jobs that go on."""
        self.end_kernels()
        for job_id in job_ids(self.home):
            with suppress(SubmarineError):
                LocalCluster(self.home).kill(job_id)

    def show(self, page: Page, *, reset: bool = True) -> None:
        """Show JupyterLab in a page, and wait until what it had open is there.

        Parameters
        ----------
        reset
            Whether it begins with nothing open.
        """
        page.goto(f"{self.url}lab?token={self.token}{'&reset' if reset else ''}")
        wait_restored(page)

    def _ask(self, method: str, path: str) -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        request = Request(self.url + path, method=method, headers=headers)  # noqa: S310 - our own
        with urlopen(request, timeout=LIMIT / 1000) as answer:  # noqa: S310 - likewise
            return answer.read()

    def stop(self) -> None:
        """End the server, its kernels and their jobs."""
        if self.process.poll() is None and hasattr(self, "url"):
            self.tidy()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._held.close()


class Notebook:
    """A notebook in a page of the browser.

    Parameters
    ----------
    sources
        The source of each code cell.
    kernel
        The name of its kernel.
    """

    def __init__(
        self, lab: Lab, page: Page, name: str, sources: list[str], kernel: str = "python3"
    ) -> None:
        self.page = page
        self.path = lab.work / f"{name}.ipynb"
        cells = [nbformat.v4.new_code_cell(dedent(source).strip()) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel}
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
        execute(self.page, name, **arguments)

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

    def wait_kernel_idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            """() => {
                const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
                return session.kernel.status === "idle";
            }"""
        )

    def save(self) -> nbformat.NotebookNode:
        """Save, and return what was saved."""
        self.page.evaluate(
            "() => window.jupyterapp.commands.execute('docmanager:save').then(() => null)"
        )
        return nbformat.read(self.path, as_version=4)

    def theme(self, name: str) -> None:
        """Change the theme, and wait until it is there."""
        change_theme(self.page, name)


def wait_restored(page: Page) -> None:
    """Wait until JupyterLab is in a page, with what it had open."""
    page.wait_for_function("() => window.jupyterapp?.restored")
    page.evaluate("() => window.jupyterapp.restored.then(() => null)")


def execute(page: Page, name: str, **arguments: str) -> None:
    """Execute a command of JupyterLab; waits for nothing."""
    page.evaluate(
        "([name, args]) => { window.jupyterapp.commands.execute(name, args) }", [name, arguments]
    )


def change_theme(page: Page, name: str) -> None:
    """Change JupyterLab's theme, and wait until it is there."""
    execute(page, "apputils:change-theme", theme=name)
    page.wait_for_selector(f'body[data-jp-theme-name="{name}"]', state="attached")


def find_chromium() -> str:
    """Return the path of Chromium.

    Raises
    ------
    FileNotFoundError
        It is not installed; the message says how to.
    """
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise FileNotFoundError(
            "chromium is missing: run `scripts/require chromium` (Debian: apt-get install chromium)"
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window; end it afterwards."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
