"""Which way a job goes: as its mode says, and where it is on one already, by that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.warned import add_warning
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.cold import Cold
from submarine_engine.clusters.yarn.hdfslogs import Channel
from submarine_engine.clusters.yarn.queues import master_fits
from submarine_engine.clusters.yarn.warm import Warm
from submarine_engine.clusters.yarn.way import Way
from submarine_engine.history import JobPaths, read_json

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.keeper import Services
    from submarine_engine.job import JobSpec


def _blind(services: Services) -> str:
    """Return why nothing of a container can be seen from here while its application lives.

    A warm application lives on after its job, and with it what only its end would show.
    """
    choice = services.logs.choice()
    return choice.why if choice.channel is Channel.AFTER else ""


def open_way(services: Services, paths: JobPaths, spec: JobSpec, launch: Mapping[str, Any]) -> Way:
    """Return the way of a job: the one it is on already, else as its mode says.

    Where the log can only come after the application's end, the job has one of its own.
    """
    noted = read_json(paths.root / "yarn.json")
    mode = noted["mode"] if noted else spec.mode
    note = ""
    if not noted and (blind := _blind(services)):
        mode, note = "cold", f"its log comes after its end: {blind}"
        with suppress(OSError):
            add_warning(paths, f"the log and the result came after the end only: {blind}")
    elif mode == "auto" and spec.tensorboard:
        mode = "cold"  # skein proxies a page for as long as its application lives
    elif mode == "auto":
        mode = "warm" if spec.notebook and spec.priority is None else "cold"
        if mode == "warm":
            warm = Warm(services, paths, spec, launch)
            if warm.has_master or master_fits(services.rm, spec.queue, MASTER_MEMORY):
                return warm
            mode = "cold"
            note = "one application for this job: the queue has no room for a warm one"
    way = (Warm if mode == "warm" else Cold)(services, paths, spec, launch)
    way.note = note
    return way
