"""HDFS's delegation token under many jobs: what its renewal takes, whom a silent NameNode holds.

A real secure NameNode answers. The jobs are threads that ask for their token as the driver of each
does; that three quarters of the token's life are over, only the clock says by which they go.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from submarine_engine import kerberos
from submarine_engine.clusters.yarn.delegation import Delegation
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import Hdfs, open_hdfs
from submarine_engine.errors import SubmarineError
from submarine_engine.installer import HadoopCluster, Wanted

from bench.peers import own_home
from bench.table import Figure

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
JOBS = 200
STANDS_STILL = 3.0
"""Seconds that the NameNode is stopped for while a token is due."""
DUE = 0.76 * 86400
"""Seconds after which a token of Hadoop's defaults is to be renewed."""
LOOK = 0.25
"""Seconds between two questions of a job; the driver of a real one asks every 5."""
PATIENCE = 400.0


class Tokens:
    """A token of its own, or shared by several jobs, on a clock that can be put forward."""

    def __init__(self, hdfs: Hdfs) -> None:
        self.calls: list[str] = []
        self._hdfs = hdfs
        self._ahead = 0.0
        self.token = Delegation(self._call, lambda: time.monotonic() + self._ahead)
        self.token.current()
        self.calls.clear()

    def _call(self, op: str, token: str = "") -> object:
        found = self._hdfs._token_call(op, token)  # noqa: SLF001 - what is measured asks by it
        self.calls.append(op)
        return found

    def put_forward(self) -> None:
        """Let three quarters of the token's life be over."""
        self._ahead = DUE


def round_of(tokens: Sequence[Tokens], jobs: int) -> tuple[float, list[float]]:
    """Renew all tokens; return what that took, and the longest wait of each job for its token.

    Parameters
    ----------
    tokens
        Taken in turn by the jobs: one is everybody's.
    jobs
        How many ask, each in its thread, until all tokens are renewed.
    """
    barrier = threading.Barrier(jobs + 1)
    waits = [0.0] * jobs
    over = threading.Event()

    def asks(number: int) -> None:
        mine = tokens[number % len(tokens)].token
        barrier.wait()
        while True:
            begun = time.monotonic()
            with suppress(SubmarineError):
                mine.current(wait=False)
            waits[number] = max(waits[number], time.monotonic() - begun)
            if over.wait(LOOK):
                return

    threads = [threading.Thread(target=asks, args=(number,)) for number in range(jobs)]
    for thread in threads:
        thread.start()
    for one in tokens:
        one.put_forward()
    barrier.wait()
    begun = time.monotonic()
    try:
        while not all(one.calls for one in tokens):
            if time.monotonic() > begun + PATIENCE:
                raise RuntimeError("the tokens are not renewed")
            time.sleep(0.001)
        took = time.monotonic() - begun
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return took, waits


@contextmanager
def name_node(folder: Path) -> Iterator[tuple[HadoopCluster, Callable[[], Hdfs]]]:
    """Give a secure cluster of one's own, and what opens its HDFS as whoever runs this."""
    cluster = HadoopCluster(folder, "tokens")
    before = dict(os.environ)
    try:
        cluster.up(Wanted(gpus=0, secure=True))
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            del os.environ[name]
        os.environ.update(cluster.environment())
        with own_home(folder / "home"):

            def opened() -> Hdfs:
                hdfs = open_hdfs(load_hadoop())
                assert hdfs is not None
                return hdfs

            yield cluster, opened
    finally:
        cluster.down()
        kerberos.log_in(None)
        os.environ.clear()
        os.environ.update(before)


def renewal(folder: Path) -> list[Figure]:
    """Measure a renewal for 200 jobs, and their waits while the NameNode stands still."""
    rounds, alone, calls, waits = [], [], [], []
    stalls, former = [], []
    with name_node(folder) as (cluster, opened):
        hdfs = opened()
        for _ in range(ROUNDS):
            shared = Tokens(hdfs)
            took, waited = round_of([shared], JOBS)
            rounds.append(took)
            calls.append(len(shared.calls))
            waits.append(max(waited))
            each = [Tokens(hdfs) for _ in range(JOBS)]
            alone.append(round_of(each, JOBS)[0])
        pid = cluster.daemon("namenode").pid
        assert pid is not None
        for _ in range(ROUNDS):
            shared = Tokens(hdfs)
            os.kill(pid, signal.SIGSTOP)
            awake = threading.Timer(STANDS_STILL, os.kill, (pid, signal.SIGCONT))
            awake.start()
            took, waited = round_of([shared], JOBS)
            awake.join()
            stalls.append(max(waited))
            former.append(took)
        hdfs.close()
    print(
        f"\na round: {_spread(rounds)}, {max(calls)} call(s) to HDFS; the longest wait of a job: "
        f"{_spread(waits)}; with a token each: {_spread(alone)}, {JOBS} calls; NameNode stopped "
        f"for {STANDS_STILL:g} s: the longest wait of a job {_spread(stalls)}, renewed after "
        f"{_spread(former)} … ",
        end="",
        file=sys.stderr,
    )
    return [
        Figure(
            what=f"HDFS's token renewed for {JOBS} jobs",
            target="≤ 0.1 of a token each",
            unit="s",
            ours=rounds,
            peers={"a token for each job": alone},
            places=3,
        ),
        Figure(
            what=f"NameNode silent for {STANDS_STILL:g} s: longest wait of {JOBS} jobs",
            target="≤ 0.1 of its silence",
            unit="s",
            ours=stalls,
            peers={"until it has renewed": former},
            places=3,
        ),
    ]


def _spread(values: Sequence[float]) -> str:
    return (
        f"{min(values) * 1000:.0f}/{statistics.median(values) * 1000:.0f}/"
        f"{max(values) * 1000:.0f} ms (least/median/most)"
    )
