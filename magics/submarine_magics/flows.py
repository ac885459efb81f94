"""``%submarine flow``: a notebook's flow in a cell, as one card with all of its nodes.

A run is seen through by a process of its own: a kernel that is restarted loses sight of it, and no
more. The card follows it.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from IPython.display import display, update_display
from submarine_engine.errors import CommandError, FlowError
from submarine_engine.interrupts import Interrupts, noted

from submarine_magics.card.words import visible
from submarine_magics.show import answer

if TYPE_CHECKING:
    from submarine_engine.command import Command
    from submarine_engine.flows.folder import Place
    from submarine_engine.flows.runner import RunStatus

    from submarine_magics.workbench import Workbench

# What flows need is imported when one is asked for: no kernel starts with it.

_LOOK = 0.25  # seconds between two looks at a run
_TICK = 1.0  # seconds after which the card's times are drawn anew, though nothing else has changed


def show_flow(_: Workbench, command: Command) -> None:
    """Show the graph of the flow of `command`, or of the one that its notebook would become."""
    from submarine_engine.flows.folder import place_of  # noqa: PLC0415 - as above

    display(_bundle(place_of(command.values["flow"]), None), raw=True)


def flow_status(_: Workbench, command: Command) -> None:
    """Show how far the run of `command` is, the newest one of its folder unless it names one."""
    folder, run = _run_of(command)
    display(_bundle(folder, _status(folder, run)), raw=True)


def run_flow(_: Workbench, command: Command) -> None:
    """Run the flow of `command` to its end, or go on with a run of it; an interrupt cancels it."""
    from submarine_engine.flows.folder import place_of  # noqa: PLC0415 - as above
    from submarine_engine.flows.runner import start_run  # noqa: PLC0415 - as above

    folder, values = place_of(command.values["folder"]), command.values
    given: dict[str, str] = dict(values.get("param", ()))
    if len(given) < len(values.get("param", ())):
        raise CommandError("a --param is given twice", fix="give each once")
    _follow(folder, start_run(folder, values.get("run", ""), given or None))


def retry_flow(_: Workbench, command: Command) -> None:
    """Run again what has failed in the run of `command`, and what follows it."""
    from submarine_engine.flows.runner import retry_run  # noqa: PLC0415 - as above

    folder, run = _run_of(command)
    if not retry_run(folder, run) and _status(folder, run).over:
        answer("nothing of it has failed")
    else:
        _follow(folder, run)


def cancel_flow(_: Workbench, command: Command) -> None:
    """Ask the run of `command` to end, the newest one of its folder unless it names one."""
    from submarine_engine.flows.runner import cancel_run  # noqa: PLC0415 - as above

    folder, run = _run_of(command)
    asked = cancel_run(folder, run)
    answer(f"run {visible(run)} {'is asked to end' if asked else 'was over already'}")


def _run_of(command: Command) -> tuple[Place, str]:
    from submarine_engine.flows.folder import place_of  # noqa: PLC0415 - as above
    from submarine_engine.flows.runner import newest_run  # noqa: PLC0415 - as above

    folder = place_of(command.values["folder"])
    return folder, newest_run(folder, command.values.get("run"))


def _status(folder: Place, run: str) -> RunStatus:
    from submarine_engine.flows.runner import status_of  # noqa: PLC0415 - as above

    return status_of(folder, run)


def _bundle(path: Place, status: RunStatus | None) -> dict[str, Any]:
    from submarine_engine.flows.current import current_flow  # noqa: PLC0415 - as above

    from submarine_magics.card.flows import flow_bundle, view_flow  # noqa: PLC0415 - as above

    return flow_bundle(view_flow(current_flow(path), status))


def _follow(folder: Place, run: str) -> None:
    """Show a run's card until the run is over.

    Raises
    ------
    FlowError
        A node has failed, or the run was cancelled.
    """
    from submarine_engine.flows.runner import cancel_run  # noqa: PLC0415 - as above

    status, shown = _status(folder, run), uuid.uuid4().hex
    display(_bundle(folder, status), raw=True, display_id=shown)
    drawn, asked = time.monotonic(), False
    with noted(Interrupts()) as interrupts:
        # A process that was killed leaves the run where it stands: the card says what to do then.
        while status.driven and not status.over:
            time.sleep(_LOOK)
            if interrupts.pending and not asked:
                asked = True
                cancel_run(folder, run)
            before, status = status, _status(folder, run)
            if status != before or time.monotonic() > drawn + _TICK:
                update_display(_bundle(folder, status), raw=True, display_id=shown)
                drawn = time.monotonic()
    status = _status(folder, run)
    update_display(_bundle(folder, status), raw=True, display_id=shown)
    if not status.over or status.failed:
        raise _ended(folder, status)


def _ended(folder: Place, status: RunStatus) -> FlowError:
    ends = [(name, one.state.value, one.error) for name, one in status.records.items()]
    bad = next((one for one in ends if one[1] == "failed"), None)
    if bad is not None:
        what = f"node {bad[0]} has failed: {bad[2]}" if bad[2] else f"node {bad[0]} has failed"
        fix = f"%submarine flow retry {folder} runs it again, with what follows it"
    elif status.over:
        what, fix = "the run was cancelled", f"%submarine flow retry {folder} goes on with it"
    else:
        what = "the process that saw the run through has ended"
        fix = f"%submarine flow run {folder} --run {status.run} goes on where it stands"
    return FlowError(visible(what, 900), where=f"run {visible(status.run, 80)}", fix=fix)
