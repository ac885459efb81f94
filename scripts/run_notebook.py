"""Run notebooks as a front end does and show in the terminal what a user would see.

A real kernel runs the cells; log lines are shown when they come, then the job card and the values.
With ``--save``, the outputs are kept in the notebooks. Jobs go to a folder of their own; with
``--yarn``, a YARN cluster of their own is there for them.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from submarine_engine.installer import HadoopCluster, Wanted

LIMIT = 300
USUAL_HOME = "~/.local/share/submarine"
WIDGET = "application/vnd.jupyter.widget-view+json"


class ShownClient(NotebookClient):
    """A client that shows each log line at once, and the rest of a cell's outputs at its end."""

    def output(
        self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> Any:  # noqa: ANN401 - as in nbclient
        """Keep an output; show it now if it is a piece of a log."""
        if msg["msg_type"] == "stream":
            sys.stdout.write(msg["content"]["text"])
            sys.stdout.flush()
        return super().output(outs, msg, display_id, cell_index)


def show_source(cell: Any, **_: object) -> None:  # noqa: ANN401 - a notebook's node
    """Show what is about to run."""
    if cell.cell_type == "code":
        print("\n" + "\n".join(f"  │ {line}" for line in cell.source.splitlines()), flush=True)


def show_results(cell: Any, **_: object) -> None:  # noqa: ANN401 - a notebook's node
    """Show what the cell left besides its log: values, and the job card in its last state."""
    for output in cell.outputs:
        if output.output_type in ("display_data", "execute_result"):
            print(output.data.get("text/plain", ""), flush=True)
        elif output.output_type == "error":
            print("\n".join(output.traceback), flush=True)


def run(path: Path) -> nbformat.NotebookNode:
    """Run the notebook from its first cell to its last and return it with the outputs."""
    notebook = nbformat.read(path, as_version=4)
    ShownClient(
        notebook,
        timeout=LIMIT,
        iopub_timeout=LIMIT,
        startup_timeout=LIMIT,
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        on_cell_start=show_source,
        on_cell_executed=show_results,
    ).execute()
    return notebook


def declare_gpus() -> None:
    """Let the queue and the ledger have something to count on a machine without GPUs."""
    if shutil.which("nvidia-smi") is None and "SUBMARINE_LOCAL_GPUS" not in os.environ:
        os.environ["SUBMARINE_LOCAL_GPUS"] = "2"
        print(
            "No NVIDIA GPU here: SUBMARINE_LOCAL_GPUS=2 declares two, for the queue to share out."
        )


@contextmanager
def yarn_cluster(home: Path) -> Iterator[None]:
    """Start a YARN cluster of one node with four declared GPUs; take it down afterwards."""
    cluster = HadoopCluster(home)
    try:
        cluster.up(Wanted(gpus=4))
        os.environ.update(cluster.environment())
        yield
    finally:
        cluster.down()


def save(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write the notebook with the outputs that can be shown without its kernel.

    The names of this machine and of the passing folder of jobs are nobody's business.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
    notebook.metadata.pop("language_info", None)
    host = platform.node()
    text = nbformat.writes(notebook).replace(os.environ["SUBMARINE_HOME"], USUAL_HOME)
    width = max(len("HOST"), len(host))  # of the column, which has to stay straight
    text = re.sub(rf"(?<=  ){re.escape(host.ljust(width))}(?=  )", "localhost", text)
    text = re.sub(rf"(?<=  ){'HOST'.ljust(width)}(?=  )", "HOST".ljust(len("localhost")), text)
    text = re.sub(rf"(?<= on ){re.escape(host)}(?=:)", "localhost", text)
    text = text.replace(f"<td>{host}</td>", "<td>localhost</td>")
    text = re.sub(r"~?/[^\s\"'<>&]+/usercache/[^\s\"'<>&]+/job/", "CONTAINER/job/", text)
    path.write_text(text + "\n")


def main() -> int:
    """Run the notebooks named on the command line; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="keep the outputs in the notebooks")
    parser.add_argument("--yarn", action="store_true", help="start a YARN cluster for them")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    options = parser.parse_args()
    # Whoever sees to jobs on YARN ends when its folder is gone, and may still write into it then.
    with tempfile.TemporaryDirectory(prefix="submarine-", ignore_cleanup_errors=True) as home:
        os.environ["SUBMARINE_HOME"] = home
        if not options.yarn:
            declare_gpus()
            return run_all(options.notebooks, keep=options.save)
        with yarn_cluster(Path(home)):
            return run_all(options.notebooks, keep=options.save)


def run_all(paths: Sequence[Path], *, keep: bool) -> int:
    """Run notebooks one after the other until a cell fails: then 1, else 0."""
    for path in paths:
        print(f"\n━━ {path} ━━")
        try:
            notebook = run(path)
        except CellExecutionError as error:
            print(f"{path} stopped: {error}", file=sys.stderr)
            return 1
        if keep:
            save(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
