"""The verbs of what is served: start, list, update, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_engine.cli.output import FAILED, OK, Output, visible
from submarine_engine.command.parser import Command
from submarine_engine.history import default_home
from submarine_engine.serving.launching import servings, stand, wait
from submarine_engine.serving.launching import start as start_serving
from submarine_engine.serving.launching import stop as stop_serving
from submarine_engine.serving.launching import update as update_serving
from submarine_engine.serving.record import find_serving

if TYPE_CHECKING:
    from submarine_engine.serving.record import ServingRecord

HEADS = ("name", "state", "ready", "version", "address", "job")


def start(command: Command, output: Output) -> int:
    """Serve a model; wait until it is ready unless told to detach.

    Parameters
    ----------
    command
        Names the model: a path, or ``job:NAME``; has its name and the options of its replicas.
    output
        Where its address is written, and how it stands meanwhile.
    """
    values = command.values
    return _follow(start_serving(values["model"], values), command, output)


def update(command: Command, output: Output) -> int:
    """Serve another model, or the same one by other replicas; wait as `start` does.

    Parameters
    ----------
    command
        Names what is served; has the model, the same one unless given, and the options of its
        replicas that are to be otherwise.
    output
        As of `start`.
    """
    values = command.values
    record = update_serving(values["serving"], values.get("model"), values)
    return _follow(record, command, output)


def _follow(record: ServingRecord, command: Command, output: Output) -> int:
    if command.values.get("detach"):
        now = stand(record)
    else:
        now = wait(record, lambda words: output.note(visible(words, line=True)))
    if output.json:
        output.data(now.to_json())
    else:
        output.line(visible(record.address, line=True))
    return OK


def list_(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """List on `output` what is served; `command` says nothing."""
    found = servings()
    if output.json:
        for one in found:
            output.data(one.to_json())
    elif found:
        output.table(
            HEADS, [tuple(visible(word, line=True) for word in one.row()) for one in found]
        )
    else:
        output.note("nothing is served: submarine serve start PATH --name NAME")
    return OK


def stop(command: Command, output: Output) -> int:
    """End what is served under the name that `command` has; tell `output`."""
    record = find_serving(default_home(), command.values["serving"])
    asked = stop_serving(record.name)
    if output.json:
        output.data({"name": record.name, "job": record.job, "asked": asked})
    else:
        output.line(f"{record.name} {'asked to end' if asked else 'was over already'}")
    return OK if asked else FAILED
