"""``%%submarine`` and its kin for IPython, with the job card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_magics.launching import launch, submit

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["launch", "load_ipython_extension", "submit", "unload_ipython_extension"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Do what ``%load_ext submarine_magics`` asks for."""
    from submarine_magics.extension import load  # noqa: PLC0415 - launch alone needs no magics

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Do what ``%unload_ext submarine_magics`` asks for; jobs go on."""
    from submarine_magics.extension import unload  # noqa: PLC0415 - as above

    unload(shell)
