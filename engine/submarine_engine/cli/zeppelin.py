"""``zeppelin install``, ``uninstall`` and ``doctor``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from submarine_engine.cli import exits
from submarine_engine.cli.machine import show_checks
from submarine_engine.cli.output import Output
from submarine_engine.command.parser import Command
from submarine_engine.errors import UnsupportedError


def install(command: Command, output: Output) -> int:
    """Put the interpreter into a Zeppelin."""
    ours = _module("install")
    zeppelin = ours.find_zeppelin(command.values.get("zeppelin_home"))
    python = ours.install(zeppelin, command.values.get("python"))
    if output.json:
        output.data({"folder": str(zeppelin.folder), "python": python})
        return exits.OK
    output.line(f"Zeppelin {zeppelin.told_release} has the interpreter %submarine now:")
    output.line(f"  {zeppelin.folder}")
    output.line(f"  notes run on {python}")
    if zeppelin.aside.exists():
        output.line(f"  the one that was there is kept in {zeppelin.aside}")
    output.line("\nRestart Zeppelin: bin/zeppelin-daemon.sh restart")
    return exits.OK


def uninstall(command: Command, output: Output) -> int:
    """Take the interpreter out of a Zeppelin."""
    ours = _module("install")
    zeppelin = ours.find_zeppelin(command.values.get("zeppelin_home"))
    there = ours.uninstall(zeppelin)
    if output.json:
        output.data({"folder": str(zeppelin.folder), "was_there": there})
    else:
        gone = "is gone; restart Zeppelin" if there else "was not there"
        output.line(f"The interpreter in {zeppelin.folder} {gone}.")
    return exits.OK


def doctor(command: Command, output: Output) -> int:
    """Check a Zeppelin's interpreter."""
    zeppelin = _module("install").find_zeppelin(command.values.get("zeppelin_home"))
    return show_checks(_module("checks").checks(zeppelin), output)


def _module(name: str) -> Any:  # noqa: ANN401 - a module is typed by what it holds
    """Load what the engine does without: front ends are no part of it."""
    try:
        return import_module(f"submarine_zeppelin.{name}")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Submarine's interpreter for Zeppelin is not installed here: there is no {error.name}",
            fix="pip install 'submarine-notebook[zeppelin]'",
        ) from error
