"""Logs: how much goes into the file, how late it is seen, and what a follower needs of memory."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles

from submarine_engine.logs import ALL, Renderer, follow

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

RANKS = 8
LINES_A_RANK = 1_000


def ticking(lines: int) -> str:
    """Return a program that writes so many lines a second, each with its time."""
    return f"""
import time

start = time.monotonic()
for number in range({lines} * {SECONDS}):
    while (due := start + number / {lines}) > time.monotonic():
        time.sleep(0.001)
    print(time.monotonic())
"""


TICK = ticking(LINES_A_SECOND)


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
        # Of several tasks each line begins with whose it is.
        self.late += [
            now - float(line.rpartition("| ")[2].removeprefix("\x1b[0m")) for line in lines if line
        ]


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


def lag_of_ranks(folder: Path) -> Figure:
    """Measure the same of eight tasks whose logs are all shown, 1,000 lines a second each."""

    def ours() -> float:
        renderer = Lateness()
        job = submit(ticking(LINES_A_RANK), workers=RANKS)
        follow(job, renderer, which=ALL, colour=True)
        if len(renderer.late) != RANKS * LINES_A_RANK * SECONDS:
            raise RuntimeError(f"{len(renderer.late)} lines came")
        return p95(renderer.late)

    def python() -> float:
        late: list[float] = []
        with ExitStack() as stack:
            run = [
                stack.enter_context(
                    plain(folder / f"plain{n}.py", ticking(LINES_A_RANK), stdout=subprocess.PIPE)
                )
                for n in range(RANKS)
            ]

            def read(process: subprocess.Popen[str]) -> None:
                assert process.stdout
                late.extend([time.monotonic() - float(line) for line in process.stdout])

            with ThreadPoolExecutor(RANKS) as readers:
                list(readers.map(read, run))
        return p95(late)

    with own_home(folder / "home"):
        mine, plains = in_turn(ROUNDS, ours, python)
    return Figure(
        what="lag p95, 8 ranks x 1,000 lines/s, --logs all",
        target="≤ 0.25 s",
        unit="s",
        ours=mine,
        peers={"plain python's pipes": plains},
    )
