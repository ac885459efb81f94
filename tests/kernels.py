"""A real kernel process, driven as a front end drives it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty

import nbformat
import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

PATIENCE = 180
"""Seconds: no test waits for them unless something is broken."""

OF_A_RUNNER = dict.fromkeys(("timeout", "iopub_timeout", "startup_timeout"), PATIENCE)
"""Likewise, for nbclient: by itself it gives a kernel a minute, and its last output 4 seconds."""

TRIES = 3
"""How often a kernel is started: a port of it that was picked ahead may be another's by then."""


ROOT = Path(__file__).parents[1]


def gives_what_it_shows(example: Path) -> None:
    """Run an example as its reader would, with two declared GPUs; compare all that it shows."""
    command = [sys.executable, "-m", "pytest", "--nbval", str(example)]
    command += ["--nbval-sanitize-with", str(ROOT / "examples/sanitize.cfg")]
    command += ["--nbval-cell-timeout", "400", "--nbval-kernel-startup-timeout", "180"]
    # Not this project's own pytest settings: warnings of nbval and its kernel are theirs.
    command += ["--config-file", os.devnull, "-p", "no:cacheprovider", "-p", "no:xdist"]
    for _ in range(TRIES):
        done = subprocess.run(
            command,
            cwd=example.parent,
            env={**os.environ, "SUBMARINE_LOCAL_GPUS": "2"},
            capture_output=True,
            text=True,
            check=False,
        )
        if "died before replying" not in done.stdout:  # no cell has run by then
            break
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)
    assert "skipped" not in done.stdout


def run_runner(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a notebook by a program, as people do; return what it has written."""
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if "died before replying" not in done.stdout + done.stderr:  # no cell has run by then
            break
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run_example(name: str, **environment: str) -> dict[str, str]:
    """Run an example's notebook from top to bottom; return the text that each cell shows.

    Parameters
    ----------
    name
        Of the notebook, without its ending.
    **environment
        Variables that its kernel has besides those of this process.
    """
    notebook = nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4)
    execute(
        notebook,
        ROOT / "examples",
        env={**os.environ, **environment},
        timeout=250,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )
    return texts_of(notebook)


def execute(
    notebook: nbformat.NotebookNode, folder: Path, env: dict[str, str] | None = None, **options
) -> None:
    """Run a notebook by nbclient.

    Parameters
    ----------
    notebook
        What to run; the outputs are put into it.
    folder
        Where its kernel runs.
    env
        The kernel's; that of this process unless given.
    **options
        Of `NotebookClient`.
    """
    told = {} if env is None else {"env": env}
    for left in reversed(range(TRIES)):
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, **{**OF_A_RUNNER, **options}, resources=resources)
        try:
            client.execute(**told)
        except RuntimeError as error:
            if not left or "died before replying" not in str(error):  # no cell has run by then
                raise
        else:
            return


def texts_of(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return the text that each cell of code shows, by the cell's id."""
    texts = {}
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        shown = [
            output.get("text")
            or "\n".join(output.get("traceback", ()))
            or output.get("data", {}).get("text/plain", "")
            for output in cell.outputs
        ]
        texts[cell.id] = "\n".join(shown)
    return texts


TRAIN = """
def train(epochs):
    for epoch in range(epochs):
        print("epoch", epoch)
    return {"epochs": epochs}
"""


@dataclass
class Ran:
    """What an execution sent: the messages on iopub, and the reply."""

    messages: list[dict] = field(default_factory=list)
    reply: dict = field(default_factory=dict)

    def stream(self, name: str) -> str:
        return "".join(
            m["content"]["text"]
            for m in self.messages
            if m["msg_type"] == "stream" and m["content"]["name"] == name
        )

    def of_type(self, *types: str) -> list[dict]:
        return [m["content"] for m in self.messages if m["msg_type"] in types]

    @property
    def text(self) -> str:
        """All that a person reads, in order; of a display that is updated only the last state."""
        shown: dict[object, str] = {}
        for number, message in enumerate(self.messages):
            content = message["content"]
            if message["msg_type"] == "stream":
                shown[number] = content["text"]
            elif message["msg_type"] == "error":
                shown[number] = "\n".join(content["traceback"])
            elif "data" in content:
                key = content.get("transient", {}).get("display_id") or number
                shown[key] = content["data"].get("text/plain", "") + "\n"
        return "".join(shown.values())

    @property
    def error(self) -> str:
        """The one error that was shown, without colours."""
        [error] = self.of_type("error")
        return re.sub(r"\x1b\[\d+m", "", "\n".join(error["traceback"]))

    @property
    def value(self) -> str | None:
        results = self.of_type("execute_result")
        return results[-1]["data"]["text/plain"] if results else None


class Driven:
    """A kernel that runs, and a client of it."""

    def __init__(
        self, home: str, module: str = "submarine_kernel", env: dict[str, str] | None = None
    ) -> None:
        self.home = home
        self.environment = {
            **os.environ,
            "SUBMARINE_HOME": home,
            "SUBMARINE_LOCAL_GPUS": "2",
            "SUBMARINE_GRACE": "120",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **(env or {}),
        }
        self.cwd = home
        left = TRIES - 1
        while not self._begin(module, left):
            left -= 1

    def _begin(self, module: str, left: int) -> bool:
        """Start the kernel; False where it died at its start, and there are tries `left`."""
        self.manager = KernelManager()
        self.manager.kernel_spec.argv = [sys.executable, "-m", module, "-f", "{connection_file}"]
        self.manager.start_kernel(env=self.environment, cwd=self.cwd)
        try:
            self.connect()
        except RuntimeError:
            alive = self.manager.is_alive()
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)
            if alive or not left:
                raise
            return False
        return True

    def connect(self) -> None:
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def restart(self) -> None:
        """Restart the kernel, as a front end does."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        try:
            self.connect()
        except RuntimeError:  # one of its ports is another's by now
            self.client.stop_channels()
            self.manager.restart_kernel(now=True, newports=True)
            self.connect()

    def send(
        self,
        code: str,
        metadata: dict | None = None,
        subshell: str | None = None,
        *,
        allow_stdin: bool = False,
    ) -> str:
        message = self.client.session.msg(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": allow_stdin,
                "stop_on_error": True,
            },
        )
        message["metadata"] = metadata or {}
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def messages(self, sent: str, patience: float = PATIENCE) -> Iterator[dict]:
        """Yield what an execution sends, until the kernel is idle again."""
        limit = time.monotonic() + patience
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                pytest.fail(f"the kernel said nothing more within {patience} s")
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message

    def run(self, code: str, metadata: dict | None = None, patience: float = PATIENCE) -> Ran:
        sent = self.send(code, metadata)
        return self.collect(sent, patience)

    def collect(self, sent: str, patience: float = PATIENCE) -> Ran:
        ran = Ran(list(self.messages(sent, patience)))
        while True:
            reply = self.client.get_shell_msg(timeout=patience)
            if reply["parent_header"].get("msg_id") == sent:
                ran.reply = reply["content"]
                return ran

    def value(self, expression: str) -> str | None:
        """Return the text of an expression's value."""
        ran = self.run(expression)
        assert ran.reply["status"] == "ok", ran.text
        return ran.value

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def start(kernel: Driven, cell: str) -> tuple[str, list[dict]]:
    """Send a cell, and return once its job has written something; with what came so far."""
    sent = kernel.send(cell)
    come = []
    for message in kernel.messages(sent):
        come.append(message)
        if message["msg_type"] == "stream":
            return sent, come
    raise AssertionError([m["content"] for m in come])
