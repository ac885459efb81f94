"""Many cells, many jobs, many records, and a very long log."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from submarine_engine import Cell
from submarine_engine.bundle import build
from submarine_engine.history import JobPaths

from bench.peers import own_home, submit, submitit_job
from bench.table import Figure, in_turn

CELLS = 1_000
QUEUED = 1_000
RECORDS = 10_000
MEGABYTES = 1_000

CELL = '''
import math

LIMIT_{n} = {n}


def step_{n}(value):
    """Take one step."""
    if value > LIMIT_{n}:
        return step_{before}(value - 1)
    return math.sqrt(value + LIMIT_{n})


class Model_{n}:
    def fit(self, data):
        return [step_{n}(value) for value in data]
'''
WRITE = f"""
import sys

line = "x" * 99 + "\\n"
for _ in range({MEGABYTES} * 100):
    sys.stdout.write(line * 100)
"""


def bundling(folder: Path) -> Figure:  # noqa: ARG001 - one shape for all figures
    """Measure the bundle of one cell in a notebook of 1,000."""
    sources = [CELL.format(n=n, before=max(0, n - 1)) for n in range(CELLS)]
    cells = [Cell(number=n + 1, source=source) for n, source in enumerate(sources)]
    main = Cell(number=CELLS + 1, source="Model_5().fit(range(10))")
    names = {f"LIMIT_{n}": n for n in range(CELLS)}

    def ours() -> float:
        start = time.perf_counter()
        build(main, cells, names)
        return (time.perf_counter() - start) * 1000

    def parsing() -> float:
        start = time.perf_counter()
        for source in sources:
            ast.parse(source)
        return (time.perf_counter() - start) * 1000

    mine, parsed = in_turn(7, ours, parsing)
    return Figure(
        what="bundle in a notebook of 1,000 cells",
        target="≤ 50 ms",
        unit="ms",
        ours=mine,
        peers={"ast.parse of the cells": parsed},
    )


def queue(folder: Path) -> Figure:
    """Measure each of 1,000 submissions to a queue that does not move."""

    def ours() -> float:
        start = time.perf_counter()
        waiting.append(submit("1", gpus=1))
        return (time.perf_counter() - start) * 1000

    def theirs() -> float:
        start = time.perf_counter()
        job = submitit_job(folder / "submitit", int)
        spent = (time.perf_counter() - start) * 1000
        job.result()
        return spent

    with own_home(folder / "home", gpus=1):
        holder = submit("import time\ntime.sleep(3600)", gpus=1)
        waiting = [holder]
        while not holder.running():
            time.sleep(0.01)
        mine = [ours() for _ in range(QUEUED)][1:]
        submitits = [theirs() for _ in range(10)]
        for job in reversed(waiting):
            job.kill()
        holder.wait()
    per_round = [mine[i :: len(submitits)] for i in range(len(submitits))]
    return Figure(
        what="submission into a queue of up to 1,000",
        target="≤ 20 ms",
        unit="ms",
        ours=[sum(values) / len(values) for values in per_round],
        peers={"submitit": submitits},
    )


def listing(folder: Path) -> Figure:
    """Measure ``submarine job list`` over 10,000 records."""
    home = folder / "home"
    with own_home(home):
        job = submit("1")
        job.result()
        paths = JobPaths(home, job.id)
        record, status = (json.loads(path.read_bytes()) for path in (paths.record, paths.status))
        for number in range(RECORDS - 1):
            copy = JobPaths(home, f"20200101-{number:06}-aaaaa")
            copy.root.mkdir(mode=0o700)
            copy.record.write_text(json.dumps({**record, "id": copy.job_id}))
            copy.status.write_text(json.dumps({**status, "id": copy.job_id}))

        def ours() -> float:
            start = time.perf_counter()
            command = [sys.executable, "-m", "submarine_engine.cli", "job", "list"]
            subprocess.run(command, check=True, capture_output=True)
            return time.perf_counter() - start

        def reading() -> float:
            start = time.perf_counter()
            for name in os.listdir(home / "jobs"):  # noqa: PTH208 - as quick as can be
                json.loads((home / "jobs" / name / "status.json").read_bytes())
            return time.perf_counter() - start

        mine, read = in_turn(5, ours, reading)
    return Figure(
        what="job list of 10,000 records",
        target="≤ 0.5 s",
        unit="s",
        ours=mine,
        peers={"reading each status.json": read},
    )


def memory(folder: Path) -> Figure:
    """Measure the memory of a process that follows a log of 1 GB, at its end and at its start."""
    ends, starts = [], []
    with own_home(folder / "home"):
        for _ in range(2):
            job = submit(WRITE)
            command = [sys.executable, "-m", "bench.follower", job.id]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            early, late = map(float, done.stdout.split())
            starts.append(early)
            ends.append(late)
            JobPaths(folder / "home", job.id).task("worker-0").stdout.unlink()
    return Figure(
        what="memory of a follower after 1 GB of log",
        target="flat",
        unit="MB",
        ours=ends,
        peers={"the same follower after 100 MB": starts},
    )
