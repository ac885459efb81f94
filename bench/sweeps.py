"""Sweeps on four declared GPUs: what of them is used, and what trials cost beyond themselves."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import venv
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
    """Measure what 200 trials of a second take beyond that second, the sweep's start with it.

    Ray Tune has its turn where it can be installed; else its column says that it has none.
    """
    with peers.own_home(folder, gpus=GPUS):
        begun = time.perf_counter()
        _search(even, _EVEN)
        took = time.perf_counter() - begun
    return Figure(
        what=f"{_EVEN} trials of a second on {GPUS} GPUs, the sweep's start with them",
        target="<= 1.10",
        unit="s",
        ours=[took],
        peers={"the trials alone": [_EVEN * _SECOND / GPUS], **_by_ray(folder)},
    )


def _by_ray(folder: Path) -> dict[str, list[float]]:
    """Return what the same trials take by Ray Tune on as many CPUs; nothing where it cannot run."""
    python = folder / "ray" / "bin" / "python"
    script = Path(__file__).with_name("raytrials.py")
    words = [str(_EVEN), str(GPUS), str(folder / "ray-results")]
    try:
        venv.create(folder / "ray", with_pip=True)
        for command in (
            [python, "-m", "pip", "install", "--quiet", "ray[tune]>=2.40"],
            [python, script, *words],
        ):
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        print(f"no Ray Tune here: {' '.join(said)} … ", end="", file=sys.stderr, flush=True)
        return {}
    return {"Ray Tune": [float(done.stdout.splitlines()[-1])]}


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
