"""``python -m bench [FIGURE...]``: measure, and print one table of ratios."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from bench import (
    again,
    charts,
    debugging,
    drivers,
    flownodes,
    flows,
    gangs,
    gangyarn,
    gates,
    home,
    inside,
    jupyter,
    kernels,
    kubernetesstart,
    latency,
    maps,
    metrics,
    scale,
    server,
    serving,
    sharing,
    slurmstart,
    streams,
    sweepcards,
    sweeps,
    training,
    yarnlogs,
    yarnmany,
    yarnpack,
    yarnrepeat,
    yarnstart,
    yarntokens,
    zeppelin,
    zygote,
)
from bench.table import Figure, markdown

FIGURES: dict[str, Callable[[Path], Figure | list[Figure]]] = {
    "first-line": latency.first_lines,
    "zygote": zygote.first_lines,
    "zygote-torch": zygote.torch_first_lines,
    "zygote-step": zygote.torch_steps,
    "cell-overhead": home.overhead,
    "cache-hit": home.remembered,
    "results-journey": home.journey,
    "unchanged": home.unchanged,
    "hashing": home.hashing,
    "result": latency.results,
    "lease": latency.leases,
    "lease-loaded": latency.loaded_leases,
    "training": training.loops,
    "throughput": streams.throughput,
    "lag": streams.lag,
    "lag-ranks": streams.lag_of_ranks,
    "bundle": scale.bundling,
    "flow": flows.building,
    "flow-azkaban": flownodes.azkaban,
    "flow-airflow": flownodes.airflow,
    "queue": scale.queue,
    "shared-queue": sharing.submission,
    "list": scale.listing,
    "memory": scale.memory,
    "gang-launch": gangs.launch,
    "gang-yarn": gangyarn.gang,
    "gate": gates.gate,
    "first-failure": gates.first_failure,
    "post-mortem": debugging.freed,
    "noting": again.noting,
    "scaling": gates.scaling,
    "driver": drivers.costs,
    "metrics": metrics.costs,
    "map": maps.calls,
    "map-next": maps.one_by_one,
    "sweep": sweeps.usage,
    "sweep-overhead": sweeps.overhead,
    "sweep-card": sweepcards.python,
    "lab-sweep-card": sweepcards.page,
    "server-followers": server.followers,
    "server-100mb": server.hundred,
    "server-lag": server.lag,
    "serving": serving.added,
    "serving-updates": serving.updates,
    "exec": inside.local,
    "yarn-exec": inside.yarn,
    "kernel": kernels.local,
    "yarn-kernel": kernels.yarn,
    "yarn-kernel-cold": kernels.cold,
    "yarn-warm": yarnstart.warm,
    "yarn-secure": yarnstart.secure,
    "yarn-first": yarnstart.first,
    "yarn-command": yarnstart.command,
    "yarn-cold": yarnstart.cold,
    "yarn-release": yarnstart.release,
    "yarn-lag": yarnlogs.lag,
    "yarn-100mb": yarnlogs.hundred,
    "yarn-many": yarnmany.many,
    "yarn-repeat": yarnrepeat.repeat,
    "yarn-tokens": yarntokens.renewal,
    "yarn-pack": yarnpack.first,
    "yarn-pack-again": yarnpack.again,
    "slurm-first": slurmstart.first,
    "slurm-result": slurmstart.results,
    "slurm-release": slurmstart.release,
    "slurm-calls": slurmstart.calls,
    "kubernetes-first": kubernetesstart.first,
    "kubernetes-result": kubernetesstart.results,
    "kubernetes-release": kubernetesstart.release,
    "lab-paint": jupyter.paint,
    "lab-lag": jupyter.lag,
    "lab-open": jupyter.opening,
    "lab-scroll": jupyter.scrolling,
    "lab-bundle": jupyter.bundle,
    "lab-chart": charts.week,
    "lab-sparklines": charts.sparklines,
    "zeppelin-launch": zeppelin.launch,
    "zeppelin-overhead": zeppelin.overhead,
    "zeppelin-lag": zeppelin.lag,
    "zeppelin-cancel": zeppelin.cancel,
}


def main() -> int:
    """Measure the figures named on the command line, or all."""
    names = sys.argv[1:] or list(FIGURES)
    if unknown := set(names) - set(FIGURES):
        print(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
        return 2
    figures: list[Figure] = []
    for name in names:
        print(f"measuring {name} … ", end="", file=sys.stderr, flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
            found = FIGURES[name](Path(folder))
            figures += found if isinstance(found, list) else [found]
        print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    print(
        f"Python {platform.python_version()}, submitit {version('submitit')}, "
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}. "
        "Ratios are ours to theirs, round by round.\n"
    )
    print(markdown(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
