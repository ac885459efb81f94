"""What it costs to look at a task once a second: of a core, and of the task's own steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from submarine_runtime import sampling

from bench.table import Figure, in_turn

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_SECONDS = 10.0
_LIMIT = 0.5  # percent of a core
_TASK = """
import os, time
for _ in range(8):
    if not os.fork():
        while True: time.sleep(0.01)
import numpy as np
side = np.random.default_rng(0).normal(size=(128, 128))
begun, steps = time.monotonic(), 0
while time.monotonic() - begun < {seconds}:
    side = np.tanh(side @ side)
    steps += 1
print(steps / time.process_time(), flush=True)
"""
"""A training of one core and eight loaders of data.

Its steps for each second that it had a processor: what others take of it is no cost of the look.
"""


def costs(folder: Path) -> list[Figure]:
    """Measure the share of a core that is taken, and the task's steps with and without."""
    shares: list[float] = []

    def rate(*, watched: bool) -> float:
        process = subprocess.Popen(
            [sys.executable, "-c", _TASK.format(seconds=_SECONDS)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            watcher = sampling.start([(str(folder), process.pid, "")]) if watched else 0
            if watched:
                time.sleep(2.0)  # it has begun
                before, begun = _used(watcher), time.monotonic()
                time.sleep(_SECONDS - 4.0)
                took = time.monotonic() - begun
                shares.append((_used(watcher) - before) / took * 100)
            assert process.stdout
            return float(process.stdout.readline())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if watched:
                os.waitpid(watcher, 0)

    with_, without = in_turn(ROUNDS, lambda: rate(watched=True), lambda: rate(watched=False))
    return [
        Figure(
            what="a task looked at once a second: of a core",
            target="≤ 0.5 %",
            unit="%",
            ours=shares[1:],
            peers={"the limit": [_LIMIT] * len(shares[1:])},
        ),
        Figure(
            what="its steps in a second of a processor",
            target="≥ 0.995 of without",
            unit="steps/s",
            ours=with_,
            peers={"not looked at": without},
        ),
    ]


def _used(pid: int) -> float:
    """Return how many seconds a process of one thread has run, by ``schedstat`` of proc(5)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
