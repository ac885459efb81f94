"""The panel of jobs and GPUs as a test drives it."""

from __future__ import annotations

import json

from lab_driver import execute
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import JobPaths, write_json

from tests.jobs import bundle_of, spec_of, until

ROW = ".submarine-Job"
WAITS = """
import pathlib, sys, time
print("epoch 1", flush=True)
while not pathlib.Path({gate!r}).exists():
    time.sleep(0.05)
print("epoch 2")
"""


def errors_of(page):
    """Collect the errors of a page's scripts as they come.

    A request of JupyterLab's that ends because its page is left or loaded again is none.
    """
    found, leaves = [], []

    def asked(request):
        left = "/lab" in request.url or "/doc/" in request.url
        if request.is_navigation_request() and left:
            leaves.append(request)

    def failed(error):
        if not (leaves and str(error) == "Failed to fetch"):
            found.append(f"{error}\n{error.stack}")

    page.on("request", asked)
    page.on("load", lambda _: leaves.clear())
    page.on("pageerror", failed)
    return found


class Panel:
    """JupyterLab with the panel open, without a notebook."""

    def __init__(self, lab, page):
        self.lab, self.page = lab, page
        self.errors = errors_of(page)

    def open(self):
        """Open the page and the panel, by the panel's command."""
        self.lab.show(self.page)
        self.show()
        return self

    def show(self):
        self.execute("submarine:show-panel")
        self.page.wait_for_selector("#submarine-panel", state="visible")
        return self

    def execute(self, name, **arguments):
        """Execute a command; waits for nothing."""
        execute(self.page, name, **arguments)

    def row(self, job_id, state=None):
        """Return a job's row, once it is there, in this state."""
        which = f"{ROW}[data-job='{job_id}']" + (f"[data-state={state}]" if state else "")
        self.page.wait_for_selector(which)
        return self.page.locator(which)

    def rows(self):
        return self.page.eval_on_selector_all(ROW, "rows => rows.map(row => row.dataset.job)")

    def wait_for_free(self, words):
        """Wait until the first cluster's count says this, and the status bar with it."""
        self.page.wait_for_selector(f".submarine-mod-whole:has-text('{words} GPUs free')")
        self.page.wait_for_selector(f".submarine-Status:has-text('{words} GPUs free')")

    def button(self, command):
        return self.page.locator(f".submarine-Buttons [data-command='submarine:{command}']")


class Jobs:
    """Local jobs that a test submits past all notebooks."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.cluster = LocalCluster(lab.home)
        self._ids = []

    def start(self, *, gpus=0, name="job"):
        """Submit a job that prints, waits for `finish`, and prints again."""
        self.folder.mkdir(exist_ok=True)
        gate = self.folder / f"gate-{len(self._ids)}"
        bundle = bundle_of(WAITS.format(gate=str(gate)))
        spec = spec_of(gpus=gpus, name=name)
        job_id = self.cluster.submit(spec, bundle, workdir=self.folder)
        self._ids.append(job_id)
        return job_id

    def finish(self, job_id):
        """Let a job end."""
        (self.folder / f"gate-{self._ids.index(job_id)}").touch()

    def renamed(self, job_id, name):
        """Give a job that is over another name on record, as somebody's own program might."""
        path = JobPaths(self.lab.home, job_id).status
        until(lambda: json.loads(path.read_text())["finished"])
        path.write_text(json.dumps({**json.loads(path.read_text()), "name": name}))

    def aged(self, job_id, seconds):
        """Have a job that runs be so much older on record."""
        path = JobPaths(self.lab.home, job_id).status
        until(lambda: json.loads(path.read_text())["state"] == "running")  # its writer is through
        told = json.loads(path.read_text())
        told["created"] = [moment - seconds for moment in told["created"]]
        write_json(path, told)  # at once: an empty one is no job

    def state(self, job_id):
        return self.cluster.status(job_id).state.value

    def end(self):
        for job_id in self._ids:
            self.cluster.kill(job_id)
        for job_id in self._ids:  # or the page of the next test tells of its end
            until(lambda job_id=job_id: self.cluster.status(job_id).state.final)
