"""``%%submarine`` and its kin for IPython, with the job card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import submarine_engine
from IPython import get_ipython

from submarine_magics.launching import launch, submit
from submarine_magics.workbench import bench_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from submarine_engine import (
        Executor,
        choice,
        integer,
        loguniform,
        map,  # noqa: A004 - what it is called everywhere
        open_map,
        open_sweep,
        sweep,
        uniform,
    )

__all__ = [
    "Executor", "choice", "integer", "launch", "load_ipython_extension", "loguniform", "map",
    "open_map", "open_sweep", "submit", "sweep", "uniform", "unload_ipython_extension",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load what the engine has when it is first used: each kernel imports this as it starts."""
    if name in __all__:
        return getattr(submarine_engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Do in `shell` what ``%load_ext submarine_magics`` asks for."""
    from submarine_magics.extension import load  # noqa: PLC0415 - launch alone needs no magics

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Do in `shell` what ``%unload_ext submarine_magics`` asks for; jobs go on."""
    from submarine_magics.extension import unload  # noqa: PLC0415 - as above

    unload(shell)


if (_shell := get_ipython()) is not None:
    bench_of(_shell)  # listens from now on: not every front end keeps a history of the cells
