"""The verbs of sweeps: list them, show one, follow, pause, resume, extend, retry, cancel."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from submarine_engine.cli.output import FAILED, OK, Output, visible
from submarine_engine.cli.terminal_view import attach_to
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError
from submarine_engine.history import default_home
from submarine_engine.sweeps.found import Found, sweeps
from submarine_engine.sweeps.record import find_sweep

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 20


def list_(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """List on `output` the 20 newest sweeps on record, the newest first; `command` says nothing."""
    found = sweeps(_SHOWN)
    if output.json:
        for one in found:
            output.data(
                {"sweep": one.id, "name": one.name, "job": one.job_id, "trials": one.counts()}
            )
        return OK
    if not found:
        output.note("no sweep is on record")
        return OK
    output.table(("sweep", "name", "job", "trials", "best"), [one.row() for one in found])
    return OK


def show(command: Command, output: Output) -> int:
    """Show the trials of a sweep; or one with its log, or two side by side.

    Parameters
    ----------
    command
        Names the sweep; may have ``sort``, the column to sort by, or ``trial``: the numbers of
        those to show.
    output
        Where the table is written, and of one trial its log.
    """
    found = _sweep(command)
    if wanted := command.values.get("trial"):
        return _show_trials(found, wanted, output)
    names, rows = found.table(command.values.get("sort", ""))
    if output.json:
        trials = {str(trial.number): trial for trial in found.trials}
        for row in rows:
            output.data(asdict(trials[row[0]]))
        return OK
    output.table(names, [tuple(map(visible, row)) for row in rows])
    output.note(repr(found))
    return OK


def _show_trials(found: Found, wanted: tuple[str, ...], output: Output) -> int:
    names, rows = found.table()
    known = {row[0]: row for row in rows}
    if missing := [one for one in wanted if one not in known]:
        raise CommandError(
            f"there is no trial {missing[0]!r:.40}",
            where=f"sweep {found.name}",
            fix=f"see them: submarine sweep show {found.name}",
        )
    if output.json:
        for trial in found.trials:
            if str(trial.number) in wanted:
                output.data({**asdict(trial), "log": found.log(trial.number)})
        return OK
    shown = [known[one] for one in dict.fromkeys(wanted)]
    columns = list(zip(names, *shown, strict=True))
    output.table(tuple(map(visible, columns[0])),
                 [tuple(map(visible, row)) for row in columns[1:] if any(row[1:])])  # fmt: skip
    if len(shown) == 1:
        for line in found.log(int(shown[0][0])).splitlines():
            output.line(visible(line))
    return OK


def attach(command: Command, output: Output) -> int:
    """Follow a sweep from the first byte of its job that runs it now, or ran it last.

    Parameters
    ----------
    command
        Names the sweep; may have ``logs`` and ``offset``, as for a job.
    output
        Where it is shown.
    """
    return attach_to(_sweep(command).job, command, output)


def pause(command: Command, output: Output) -> int:
    """Let each trial of the sweep that `command` names end at its next report; tell `output`."""
    return _change(command, output, lambda found: found.pause(), "pauses")


def resume(command: Command, output: Output) -> int:
    """Go on with the sweep that `command` names; tell `output` which job runs it."""
    return _change(command, output, lambda found: found.resume(), "goes on")


def retry(command: Command, output: Output) -> int:
    """Try the failed trials of the sweep that `command` names once more; tell `output`."""
    return _change(command, output, lambda found: found.retry_failed(), "tries them again")


def extend(command: Command, output: Output) -> int:
    """Add as many trials as `command` says to the sweep that it names; tell `output`."""
    more = command.values.get("trials")
    if not more:
        raise CommandError(
            "--trials is missing" if more is None else "--trials 0 is not possible",
            where="sweep extend",
            fix="say how many more, 1 at least: --trials 20",
        )
    return _change(command, output, lambda found: found.extend(more), f"has {more} more trials")


def cancel(command: Command, output: Output) -> int:
    """End the sweep that `command` names; say on `output` whether it was over already."""
    found = _sweep(command)
    asked = found.cancel()
    if output.json:
        output.data({"sweep": found.id, "job": found.job_id, "asked": asked})
    else:
        output.line(f"{found.name} {'asked to end' if asked else 'was over already'}")
    return OK if asked else FAILED


def _change(command: Command, output: Output, change: Callable[[Found], object], word: str) -> int:
    found = _sweep(command)
    change(found)
    if output.json:
        output.data({"sweep": found.id, "job": found.job_id})
    else:
        output.line(f"{found.name} {word}: job {found.job_id}")
    return OK


def _sweep(command: Command) -> Found:
    return Found(find_sweep(default_home(), command.values["sweep"]).folder)
