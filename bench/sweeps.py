"""Sweeps on four declared GPUs: what of them is used, and what trials cost beyond themselves."""

from __future__ import annotations

import random
import time
from pathlib import Path

from submarine_engine import Found, sweep, uniform

from bench import peers
from bench.table import Figure

GPUS = 4
_UNEVEN = 100
_EVEN = 200
_SECOND = 1.0


def uneven(x: float) -> float:
    """Take from half a second to three."""
    time.sleep(0.5 + 2.5 * random.Random(x).random())  # noqa: S311 - no secret
    return x


def even(x: float) -> float:
    """Take a second."""
    time.sleep(_SECOND)
    return x


def usage(folder: Path) -> Figure:
    """Measure how much of four GPUs the trials of a sweep use, from the first to the last."""
    with peers.own_home(folder, gpus=GPUS):
        found = _search(uneven, _UNEVEN)
    trials = found.study.trials
    begin = min(trial.datetime_start for trial in trials if trial.datetime_start)
    end = max(trial.datetime_complete for trial in trials if trial.datetime_complete)
    used = sum(trial.seconds or 0 for trial in found.trials)
    return Figure(
        what=f"GPU-seconds that {_UNEVEN} uneven trials use on {GPUS} GPUs",
        target=">= 0.95",
        unit="s",
        ours=[used],
        peers={"offered": [GPUS * (end - begin).total_seconds()]},
    )


def overhead(folder: Path) -> Figure:
    """Measure what 200 trials of a second take beyond that second, the sweep's start with it."""
    with peers.own_home(folder, gpus=GPUS):
        begun = time.perf_counter()
        _search(even, _EVEN)
        took = time.perf_counter() - begun
    return Figure(
        what=f"{_EVEN} trials of a second on {GPUS} GPUs, the sweep's start with them",
        target="<= 1.10",
        unit="s",
        ours=[took],
        peers={"the trials alone": [_EVEN * _SECOND / GPUS]},
    )


def _search(function: object, trials: int) -> Found:
    return sweep(
        function,  # type: ignore[arg-type] # one of those above
        {"x": uniform(0, 1)},
        trials=trials,
        minimize="x",
        sampler="random",
        gpus=1,
        wait=False,
    ).wait()
