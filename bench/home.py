"""The way home: a cell as a job beside a plain one, and how fast what it made and changed comes."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from hashlib import blake2b
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
_KINDS = {
    "arrays": "values = [np.ones(1 << 24) for _ in range(4)]",
    "frames": "values = pd.DataFrame(np.ones((1 << 22, 16)))",
    "dicts": "values = [{'a': i, 'b': str(i)} for i in range(300_000)]",
    "tuples": "values = [(i, str(i)) for i in range(300_000)]",
    "lists": "values = [[i, i / 2] for i in range(300_000)]",
    "objects": "values = [Point(i, str(i)) for i in range(300_000)]",
}
"""What a cell captures, and does not change."""
_IMPORTS = """
import numpy as np, pandas as pd
from dataclasses import dataclass

@dataclass
class Point:
    a: int
    b: str
"""


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


def remembered(folder: Path) -> Figure:
    """Measure a cell whose result is known, from run to done, and the cell as a job."""
    with own_home(folder / "home"):
        notebook = _Notebook()
        cell = "total = sum(range(10))\nprint(total)\nmade = {'total': total}"
        here = Path.cwd()
        os.chdir(folder)  # beside this project, its modules would be the notebook's own
        try:
            # Not within the rounds: the first one runs, and loads what the others have.
            notebook.timed(f"%%submarine --gpus 0 --cache\n{cell}")
            mine, theirs = in_turn(
                ROUNDS,
                lambda: notebook.timed(f"%%submarine --gpus 0 --cache\n{cell}"),
                lambda: notebook.timed(f"%%submarine --gpus 0\n{cell}"),
            )
            jobs = len(list_jobs())
        finally:
            os.chdir(here)
            notebook.close()
    if jobs != ROUNDS + 2:
        raise RuntimeError(f"{jobs} jobs ran, where those without --cache should have alone")
    return Figure(
        what="a cell whose result is remembered, from run to done",
        target="≤ 0.1 s",
        unit="s",
        ours=mine,
        peers={"the cell as a job": theirs},
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


def hashing(folder: Path) -> list[Figure]:
    """Measure how long a job takes to see that its cell has changed nothing of what it captured.

    Large blocks, arrays and frames, are below a tenth of pickling them: the kernel knows whether a
    page was written to. Many small objects are not, and cannot be: any of them may have
    changed, Python tells nobody, and reading alone writes to their pages (reference counts). So
    each is looked at, by C's pickler against the file that it came in: about one more pickling. Of
    two cores under load, with pickling as 1.00: that detection 0.9 to 2; a hash of the file alone
    (blake2b), which looks at no object, 0.02 to 0.10; ``==`` with a second copy 0.12 to 0.35, to
    which comes the making and the memory of that copy; `marshal`, the fastest way to write them,
    0.12 to 0.20 twice (before the cell and after it), for built-in types only, and blind to which
    objects are one. Even a list of what the outer one holds (`gc.get_referents`) is 0.03 to 0.15.
    """
    return [_hashing(folder / kind, kind, source) for kind, source in _KINDS.items()]


def _hashing(folder: Path, kind: str, source: str) -> Figure:
    folder.mkdir()
    with own_home(folder / "home") as home:
        notebook = _Notebook()
        try:
            notebook.timed(_IMPORTS)
            notebook.timed(source)
            values = notebook.shell.user_ns["values"]
            plain = folder / "plain.pkl"

            def ours() -> float:
                notebook.timed("%%submarine --gpus 0\nfound = len(values)")
                [outcome] = home.glob(f"jobs/{list_jobs(limit=1)[0].id}/tasks/*/outcome.json")
                seconds: float = json.loads(outcome.read_text())["home"]["seconds"]
                return seconds

            def pickled() -> float:
                start = time.perf_counter()
                with plain.open("wb") as file:
                    pickle.dump(values, file, protocol=5)
                return time.perf_counter() - start

            def hashed() -> float:
                data = plain.read_bytes()
                start = time.perf_counter()
                blake2b(data).digest()
                return time.perf_counter() - start

            mine, theirs, digests = in_turn(3, ours, pickled, hashed)
        finally:
            notebook.close()
    return Figure(
        what=f"seeing that {kind} are unchanged",
        target="≤ 10 % of pickling" if kind in ("arrays", "frames") else "one more pickling",
        unit="s",
        ours=mine,
        peers={"pickle.dump to a file": theirs, "hashing that file": digests},
    )
