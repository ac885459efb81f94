"""``%submarine serve``: a model of this notebook, or a folder with one, out to users."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.records import open_job

from submarine_magics.card import display
from submarine_magics.card.words import visible
from submarine_magics.show import Listing, answer

if TYPE_CHECKING:
    from submarine_engine.command import Command
    from submarine_engine.serving.launching import Serving
    from submarine_engine.serving.record import ServingRecord

    from submarine_magics.workbench import Workbench

# What serves is imported when it is asked for: no kernel starts with it.

_HEADS = ("NAME", "STATE", "READY", "VERSION", "ADDRESS", "JOB")


def start_serving(bench: Workbench, command: Command) -> None:
    """Serve a model: a variable of the notebook, a folder, or the one that a job has left.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    command
        Its ``model`` names that; the rest is as `serving.launching.start` has it.
    """
    from submarine_engine.serving.launching import start  # noqa: PLC0415 - as above

    word = command.values["model"]
    options = {**command.values}
    options.setdefault("cluster", bench.cluster_name())
    record = start(_model(bench, word), options, word)
    display.show_job(open_job(record.job))
    _follow(record, command)


def update_serving(bench: Workbench, command: Command) -> None:
    """Serve another model, or by another number of replicas, without a lost request.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    command
        Its ``serving`` says which, its ``model`` what instead; without one that stays.
    """
    from submarine_engine.serving.launching import update  # noqa: PLC0415 - as above

    word = command.values.get("model")
    model = None if word is None else _model(bench, word)
    _follow(update(command.values["serving"], model, command.values, word or ""), command)


def _model(bench: Workbench, word: str) -> str | AbstractContextManager[Path]:
    """Return the variable of that name as a folder, else the word."""
    if word.isidentifier() and word in bench.namespace:
        from submarine_engine.serving.model import saved  # noqa: PLC0415 - as above

        value = bench.namespace[word]
        return str(value) if isinstance(value, (str, Path)) else saved(value)
    return word


def _follow(record: ServingRecord, command: Command) -> None:
    from submarine_engine.serving.launching import stand, wait  # noqa: PLC0415 - as above

    now = stand(record) if command.values.get("detach") else wait(record)
    answer(visible(f"{now.words}: {record.address}"))


def list_servings(_: Workbench, __: Command) -> Listing[Serving]:
    """Return what is served."""
    from submarine_engine.serving.launching import servings  # noqa: PLC0415 - as above

    found = servings()
    return Listing(found, _HEADS, [tuple(map(visible, one.row())) for one in found])


def stop_serving(_: Workbench, command: Command) -> None:
    """End what is served under the name that `command` has for ``serving``."""
    from submarine_engine.history import default_home  # noqa: PLC0415 - as above
    from submarine_engine.serving.launching import stop  # noqa: PLC0415 - as above
    from submarine_engine.serving.record import find_serving  # noqa: PLC0415 - as above

    name = find_serving(default_home(), command.values["serving"]).name
    asked = stop(name)
    answer(f"{visible(name)} {'asked to end' if asked else 'was over already'}")
