"""The verbs that run a job once more from the start, and that compare two."""

from __future__ import annotations

from submarine_engine.cli.output import OK, Output, visible
from submarine_engine.cli.terminal_view import follow_new
from submarine_engine.command.parser import Command, overridden
from submarine_engine.difference import as_text
from submarine_engine.future import Job
from submarine_engine.records import open_job
from submarine_engine.rerun import rerun as run_again


def rerun(command: Command, output: Output) -> int:
    """Run a job again from the start, and follow the new one.

    Parameters
    ----------
    command
        Names the job; its options of ``job run`` say what is to be otherwise.
    output
        Where the new job is shown, and what is another now than it was.
    """

    def say(text: str) -> None:
        output.note(visible(text, line=True))

    former = open_job(command.values["job"])
    former.cluster.tell = say
    where, again = run_again(
        former.id,
        lambda spec: overridden(spec, command.values),
        cluster=command.values.get("cluster") or former.cluster,
        tell=say,
        say_choice=say,
    )
    return follow_new(Job(where, again), command, output)


_COLOURS = {"-": "red", "+": "green", "@": "cyan", "#": "bold", "?": "dim"}


def diff(command: Command, output: Output) -> int:
    """Show how two jobs differ; in colours in a terminal alone.

    Parameters
    ----------
    command
        Names the two: ``before`` and ``after``.
    output
        Where the differences are written.
    """
    before, after = (open_job(command.values[which]) for which in ("before", "after"))
    found = before.diff(after)
    if output.json:
        output.data(found.to_json())
        return OK
    for line in found.lines():
        text = visible(as_text(line), line=True)
        colour = _COLOURS.get(line.sign[:1])
        output.line(output.style(text, colour) if colour else text)
    return OK
