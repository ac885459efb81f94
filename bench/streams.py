"""Logs: how much goes into the file, how late it is seen, and what a follower needs of memory."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from statistics import quantiles

from submarine_engine.logs import Renderer, follow

from bench.peers import own_home, plain, submit
from bench.table import Figure, in_turn

ROUNDS = 3
MEGABYTES = 100
LINES_A_SECOND = 10_000
SECONDS = 3

WRITE = f"""
import sys
import time

line = "x" * 99 + "\\n"
start = time.perf_counter()
for _ in range({MEGABYTES} * 10_000):
    sys.stdout.write(line)
sys.stdout.flush()
speed = {MEGABYTES} / (time.perf_counter() - start)
print(speed, file=sys.stderr)
speed
"""

TICK = f"""
import time

start = time.monotonic()
for number in range({LINES_A_SECOND * SECONDS}):
    while (due := start + number / {LINES_A_SECOND}) > time.monotonic():
        time.sleep(0.001)
    print(time.monotonic())
"""


class Lateness(Renderer):
    """Notes how late each line is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[float] = []
        self._rest = ""

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - as in the base
        """Take lines that each say when they were written."""
        now = time.monotonic()
        *lines, self._rest = (self._rest + text).split("\n")
        self.late += [now - float(line) for line in lines if line]


def p95(values: list[float]) -> float:
    """Return the value that 95 % stay below."""
    return quantiles(values, n=20)[-1]


def throughput(folder: Path) -> Figure:
    """Measure how fast a job's log takes 100 MB, line by line."""

    def ours() -> float:
        speed: float = submit(WRITE).result()
        return speed

    def python() -> float:
        with (folder / "log").open("w") as log:
            process = plain(folder / "plain.py", WRITE, stdout=log, stderr=subprocess.PIPE)
            return float(process.communicate()[1])

    with own_home(folder / "home"):
        mine, plains = in_turn(ROUNDS, ours, python)
    return Figure(
        what="100 MB of log",
        target="≥ 50 MB/s",
        unit="MB/s",
        ours=mine,
        peers={"plain python > file": plains},
    )


def lag(folder: Path) -> Figure:
    """Measure the lag of a follower, 95th percentile, at 10,000 lines a second."""

    def ours() -> float:
        renderer = Lateness()
        follow(submit(TICK), renderer)
        return p95(renderer.late)

    def python() -> float:
        late = []
        with plain(folder / "plain.py", TICK, stdout=subprocess.PIPE) as process:
            assert process.stdout
            late = [time.monotonic() - float(line) for line in process.stdout]
        return p95(late)

    with own_home(folder / "home"):
        mine, plains = in_turn(ROUNDS, ours, python)
    return Figure(
        what="lag p95 at 10,000 lines/s",
        target="≤ 0.25 s",
        unit="s",
        ours=mine,
        peers={"plain python's pipe": plains},
    )
