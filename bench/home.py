"""The way home: a cell as a job beside a plain one, and how fast what it made and changed comes."""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path

import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs, open_job
from traitlets.config import Config

from bench.peers import own_home
from bench.table import Figure, in_turn

ROUNDS = 7
_CELL = "total = 0\nfor i in range(10):\n    total += i\nlosses.append(total)"
_BYTES = 1 << 30


class _Notebook:
    """A shell whose cells become jobs of the local cluster."""

    def __init__(self) -> None:
        self._main = sys.modules["__main__"]
        self.shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
        self.shell.run_line_magic("load_ext", "submarine_magics")

    def timed(self, source: str) -> float:
        """Run a cell; return how long that took."""
        start = time.perf_counter()
        result = self.shell.run_cell(source, store_history=True)
        spent = time.perf_counter() - start
        if result.error_before_exec or result.error_in_exec:
            raise result.error_before_exec or result.error_in_exec
        return spent

    def close(self) -> None:
        """Put this process's own main module back."""
        self.shell.restore_sys_module_state()
        sys.modules["__main__"] = self._main


def overhead(folder: Path) -> Figure:
    """Measure a cell that does next to nothing, as a job and plain."""
    with own_home(folder / "home"):
        notebook = _Notebook()
        try:
            notebook.timed("losses = []")
            mine, theirs = in_turn(
                ROUNDS,
                lambda: notebook.timed(f"%%submarine --gpus 0\n{_CELL}"),
                lambda: notebook.timed(_CELL),
            )
        finally:
            notebook.close()
    return Figure(
        what="a cell that binds and appends, from run to done",
        target="≤ 0.15 s more",
        unit="s",
        ours=mine,
        peers={"the plain cell": theirs},
    )


def journey(folder: Path) -> Figure:
    """Measure how long a job holds its GPU to write a gigabyte that its cell has made."""
    with own_home(folder / "home") as home:
        notebook = _Notebook()
        values = np.zeros(_BYTES // 8)
        try:
            notebook.timed("import numpy as np")

            def ours() -> float:
                cell = f"made = np.zeros({_BYTES // 8})\nmade += 1"
                notebook.timed(f"%%submarine --gpus 0 -o made\n{cell}")
                newest = list_jobs(limit=1)[0]
                job = open_job(newest.id)
                assert job.status().state is JobState.SUCCEEDED
                [task] = job.status().tasks
                for path in home.glob("jobs/*/tasks/*/results/home.pkl"):
                    path.unlink()
                return _BYTES / task.wrote[1] / 1e9

            def plain() -> float:
                start = time.perf_counter()
                with (folder / "plain.pkl").open("wb") as file:
                    pickle.dump(values, file, protocol=5)
                return _BYTES / (time.perf_counter() - start) / 1e9

            mine, theirs = in_turn(3, ours, plain)
        finally:
            notebook.close()
    return Figure(
        what="results written before the release, 1 GiB",
        target="≥ 1 GB/s",
        unit="GB/s",
        ours=mine,
        peers={"pickle.dump to a file": theirs},
    )


def unchanged(folder: Path) -> Figure:
    """Measure how long a job takes to see that its cell has changed nothing of a gigabyte."""
    with own_home(folder / "home") as home:
        notebook = _Notebook()
        try:
            notebook.timed(f"import numpy as np\nvalues = np.ones({_BYTES // 8})")
            values = notebook.shell.user_ns["values"]

            def ours() -> float:
                notebook.timed("%%submarine --gpus 0\nfound = float(values[-1])")
                [outcome] = home.glob(f"jobs/{list_jobs(limit=1)[0].id}/tasks/*/outcome.json")
                seconds: float = json.loads(outcome.read_text())["home"]["seconds"]
                return seconds

            def plain() -> float:
                start = time.perf_counter()
                with (folder / "plain.pkl").open("wb") as file:
                    pickle.dump(values, file, protocol=5)
                return time.perf_counter() - start

            mine, theirs = in_turn(3, ours, plain)
        finally:
            notebook.close()
    return Figure(
        what="seeing that 1 GiB of arrays is unchanged",
        target="≤ 10 % of pickling",
        unit="s",
        ours=mine,
        peers={"pickle.dump to a file": theirs},
    )
