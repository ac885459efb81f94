"""Many short calls: by workers of ours that stay, beside pools of processes on this machine."""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import joblib
from submarine_engine import Executor

from bench import peers
from bench.table import Figure, in_turn

CALLS = 400
_WARM = 20
_ONE_BY_ONE = 20


def short(n: int) -> int:
    """Take next to no time."""
    return n * 2


def calls(folder: Path) -> Figure:
    """Measure a short call among many, each in a fork of its own, on workers that are there."""
    workers = os.cpu_count() or 1
    with (
        peers.own_home(folder),
        Executor(workers, gpus=0) as ours,
        Executor(workers, gpus=0, forks=False) as together,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as theirs,
        joblib.parallel_config(backend="loky", n_jobs=workers),
    ):

        def by(pool: Executor | ProcessPoolExecutor) -> float:
            list(pool.map(short, range(_WARM)))
            begun = time.perf_counter()
            assert sum(pool.map(short, range(CALLS))) == CALLS * (CALLS - 1)
            return (time.perf_counter() - begun) / CALLS * 1000

        def by_joblib() -> float:
            one = joblib.delayed(short)
            joblib.Parallel()(one(n) for n in range(_WARM))
            begun = time.perf_counter()
            joblib.Parallel(batch_size=1)(one(n) for n in range(CALLS))
            return (time.perf_counter() - begun) / CALLS * 1000

        found = in_turn(3, lambda: by(ours), lambda: by(together), lambda: by(theirs), by_joblib)
    return Figure(
        what=f"one of {CALLS} short calls, each in a fork",
        target="<= 50 ms (20 a second)",
        unit="ms",
        ours=found[0],
        peers={
            "ours, forks=False": found[1],
            "ProcessPoolExecutor": found[2],
            "joblib (loky)": found[3],
        },
    )


def one_by_one(folder: Path) -> Figure:
    """Measure from a call's submission to its value, where each waits for the one before."""
    with (
        peers.own_home(folder),
        Executor(1, gpus=0) as ours,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as theirs,
    ):

        def by(pool: Executor | ProcessPoolExecutor) -> float:
            pool.submit(short, 0).result()
            begun = time.perf_counter()
            for n in range(_ONE_BY_ONE):
                pool.submit(short, n).result()
            return (time.perf_counter() - begun) / _ONE_BY_ONE * 1000

        found = in_turn(3, lambda: by(ours), lambda: by(theirs))
    return Figure(
        what="a call's value, and then the next call",
        target="<= 100 ms",
        unit="ms",
        ours=found[0],
        peers={"ProcessPoolExecutor": found[1]},
    )
