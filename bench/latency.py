"""From the request to the first line, from the return to the result and to the free GPU."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from submarine_engine.clusters import open_cluster

from bench.peers import FIRST_LINE, first_line, own_home, plain, submit, submitit_job
from bench.table import Figure, in_turn
from bench.work import say_first_line

ROUNDS = 7
RETURN_NOW = "import time\ntime.monotonic()\n"
LOAD_SKLEARN = "import sklearn.datasets, sklearn.neural_network\n"


def seen_in(log: Path, text: str) -> float:
    """Look at the log until `text` is in it; return when that was, on the monotonic clock."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        if log.exists() and text in log.read_text():
            return time.monotonic()
        time.sleep(0.001)
    raise RuntimeError(f"{text!r} did not come within a minute: see {log}")


def first_lines(folder: Path) -> Figure:
    """Measure from the request to the first line of the log."""

    def ours() -> float:
        start = time.monotonic()
        job = submit(FIRST_LINE)
        seen = first_line(job)
        job.wait()
        return seen - start

    def theirs() -> float:
        start = time.monotonic()
        job = submitit_job(folder / "submitit", say_first_line)
        seen = seen_in(job.paths.stdout, "first line")
        job.result()
        return seen - start

    def python() -> float:
        start = time.monotonic()
        with plain(folder / "plain.py", FIRST_LINE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            return time.monotonic() - start

    with own_home(folder / "home"):
        mine, submitits, plains = in_turn(ROUNDS, ours, theirs, python)
    return Figure(
        what="request → first line",
        target="≤ 0.15 s above plain, ahead of submitit",
        unit="s",
        ours=mine,
        peers={"plain python": plains, "submitit": submitits},
    )


def results(folder: Path) -> Figure:
    """Measure from the function's return to its value in the hand of who waits for it."""

    def ours() -> float:
        returned = submit(RETURN_NOW).result()
        return time.monotonic() - returned

    def theirs() -> float:
        returned = submitit_job(folder / "submitit", time.monotonic).result()
        return time.monotonic() - returned

    def python() -> float:
        source = "import time\nprint(time.monotonic())\n"
        with plain(folder / "plain.py", source, stdout=subprocess.PIPE) as process:
            returned = float(process.communicate()[0])
            return time.monotonic() - returned

    with own_home(folder / "home"):
        mine, submitits, plains = in_turn(ROUNDS, ours, theirs, python)
    return Figure(
        what="return → result",
        target="≤ 0.1 s",
        unit="s",
        ours=mine,
        peers={"plain python": plains, "submitit": submitits},
    )


def leases(folder: Path) -> Figure:
    """Measure from the function's return to the GPU seen free by another process."""
    return _lease("return → GPU free", RETURN_NOW, folder)


def loaded_leases(folder: Path) -> Figure:
    """Measure the same where the job has loaded a large library, which takes long to let go."""
    return _lease(
        "return → GPU free, scikit-learn loaded", LOAD_SKLEARN + RETURN_NOW, folder, rounds=3
    )


def _lease(what: str, source: str, folder: Path, rounds: int = ROUNDS) -> Figure:
    def ours() -> float:
        job = submit(source, gpus=1)
        cluster = open_cluster()
        # The grant may be seen before or after the submission comes back, but it is certain.
        while not job.status().tasks or job.status().tasks[0].held is None:
            time.sleep(0.001)
        while any(gpu.job_id for gpu in cluster.gpus()):
            time.sleep(0.001)
        free = time.monotonic()
        return free - job.result()

    def python() -> float:
        printing = source.replace("time.monotonic()", "print(time.monotonic())")
        with plain(folder / "plain.py", printing, stdout=subprocess.PIPE) as process:
            assert process.stdout
            returned = float(process.stdout.readline())
            process.wait()
            return time.monotonic() - returned

    with own_home(folder / "home", gpus=1):
        mine, plains = in_turn(rounds, ours, python)
    return Figure(
        what=what,
        target="≤ 0.1 s",
        unit="s",
        ours=mine,
        peers={"plain python's exit": plains},
    )
