"""Kernels that start fast: real ones, forked from a process that has imported what most use."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking import BlockingKernelClient
from nbclient import NotebookClient
from nbclient.client import CellExecutionComplete

from tests.jobs import until

PATIENCE = 300
"""Seconds: nothing waits for them unless something is broken."""

IMPORTED_AHEAD = [
    "ipykernel.debugger",
    "ipykernel.kernelapp",
    "jupyter_client.blocking",
    "matplotlib.pyplot",
    "nbclient",
    "pandas",
    "pytest",
    "submarine_kernel",
    "submarine_magics.card.widget",
    "submarine_magics.extension",
    "sklearn.ensemble",
    "sklearn.model_selection",
]


class ForkedKernel:
    """The "Submarine (Python)" kernel, and a front end that keeps a notebook of what it sent.

    Parameters
    ----------
    folder
        Where the notebook lies, and the kernel runs.
    home
        ``SUBMARINE_HOME``.
    hook
        Called by the kernel's process with the shell and `folder` as soon as there is one. It is
        imported there by its name.
    """

    def __init__(
        self, folder: Path, home: Path, hook: Callable[[Any, Path], None] | None = None
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED_AHEAD)
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # the debugger's own warning
        # The kernel picks its ports itself and writes them there: those picked for it ahead may be
        # another's by the time it listens.
        file = home / f"{folder.name}-kernel.json"
        environment = {
            "SUBMARINE_HOME": str(home),
            "SUBMARINE_LOCAL_GPUS": "2",
            "SUBMARINE_GRACE": "120",
            "IPYTHONDIR": str(home / "ipython"),
        }
        arguments = (str(file), str(folder), environment, hook)
        # A shell of another test that was this process's `__main__` has been emptied with it.
        vars(sys.modules["__main__"]).setdefault("__spec__", None)
        self.process: ForkServerProcess = context.Process(target=_serve, args=arguments)
        self.process.start()
        until(lambda: _is_whole(file) or not self.process.is_alive(), PATIENCE)
        self.client = BlockingKernelClient(connection_file=str(file))
        self.client.load_connection_file()
        self.client.start_channels(hb=False)  # a heart that does not beat yet is no death
        self.client.wait_for_ready(timeout=PATIENCE)
        self.notebook = nbformat.v4.new_notebook()
        self._front = NotebookClient(self.notebook, record_timing=False)
        self._front.reset_execution_trackers()
        self._front.clear_before_next_output = False

    def run(self, source: str, *, interrupt: bool = False) -> list[Any]:
        """Run a cell to its end and return its outputs, as a notebook file would hold them.

        Parameters
        ----------
        source
            The cell.
        interrupt
            Interrupt it once it has written its first line.
        """
        cell = nbformat.v4.new_code_cell(source)
        self.notebook.cells.append(cell)
        sent = self.client.execute(source, allow_stdin=False)
        number = len(self.notebook.cells) - 1
        for message in self._messages(sent):
            try:
                self._front.process_message(message, cell, number)
            except CellExecutionComplete:
                break
            if interrupt and message["msg_type"] == "stream":
                os.kill(self.process.pid or 0, signal.SIGINT)
                interrupt = False
        # A later update changes an output of an earlier cell: the notebook's own lists are kept.
        return cell.outputs

    def _messages(self, sent: str) -> Iterator[dict[str, Any]]:
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            if message["parent_header"].get("msg_id") == sent:
                yield message

    def stop(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.process.terminate()
        self.process.join()


def _is_whole(file: Path) -> bool:
    """Return whether a connection file is written to its end."""
    try:
        return bool(json.loads(file.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return False


def _serve(
    file: str, folder: str, environment: dict[str, str], hook: Callable[[Any, Path], None] | None
) -> None:
    """Be a kernel."""
    from ipykernel.kernelapp import IPKernelApp
    from submarine_kernel import SubmarineKernel

    os.chdir(folder)
    os.environ.update(environment)
    multiprocessing.set_start_method(None, force=True)  # what a fresh interpreter has
    sys.argv = ["kernel"]
    # What a fresh interpreter started in that folder would have: not the tests' own path.
    sys.path[:] = [folder, *(entry for entry in sys.path if _installed(entry))]
    app = IPKernelApp.instance(kernel_class=SubmarineKernel, log_level=40)
    app.parent_handle = os.getppid()  # it ends with the fork server
    app.initialize(["-f", file])
    if hook:
        hook(app.shell, Path(folder))
    app.start()


def _installed(entry: str) -> bool:
    roots = (sys.prefix, sys.base_prefix)
    return entry.startswith(roots) or Path(entry, "submarine_engine").exists() or _room(entry)


def _room(entry: str) -> bool:
    """Return whether an entry is one of an editable installation of ours."""
    return any(Path(entry).glob("submarine_*/__init__.py"))
