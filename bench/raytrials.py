"""Trials of a second by Ray Tune, in an environment of its own; prints what all of them took.

Run as a script: ``python raytrials.py COUNT CPUS FOLDER``.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def even(config: dict[str, Any]) -> dict[str, Any]:
    """Take a second."""
    time.sleep(1.0)
    return {"x": config["x"]}


def main(count: int, cpus: int, folder: str) -> None:
    """Run the trials, and print the seconds from Ray's start on; its import is not counted."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray  # type: ignore[import-not-found] # noqa: PLC0415 - in its own environment
    from ray import tune  # type: ignore[import-not-found] # noqa: PLC0415 - likewise

    begun = time.perf_counter()
    ray.init(num_cpus=cpus, include_dashboard=False, logging_level="ERROR")
    tuner = tune.Tuner(
        tune.with_resources(even, {"cpu": 1}),
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=count, metric="x", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=folder),
    )
    found = tuner.fit()
    took = time.perf_counter() - begun
    done = sum("x" in (trial.metrics or {}) for trial in found)
    if done != count:
        sys.exit(f"{done} of Ray's {count} trials came to their end")
    print(took)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
