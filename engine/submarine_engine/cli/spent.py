"""The verb that tells what jobs have cost."""

from __future__ import annotations

from submarine_engine.cli.output import OK, Output, visible
from submarine_engine.command.parser import Command
from submarine_engine.config import load_config
from submarine_engine.usage import WORDS, heads, others
from submarine_engine.usage import usage as spent


def usage(command: Command, output: Output) -> int:
    """Tell what jobs have cost.

    Parameters
    ----------
    command
        May have ``by``: what jobs are put together by, the user unless given; and ``since``: how
        many seconds ago they were submitted at most, all unless given.
    output
        Where the table is written.
    """
    by, price = command.values.get("by", "user"), load_config().value("gpu_hour_price")
    found = spent(by, command.values.get("since"))
    if output.json:
        for one in found:
            output.data(one.to_json(price))
        return OK
    if found:
        output.table(heads(by, price), [tuple(map(visible, one.row(price))) for one in found])
        output.note(WORDS)
    else:
        output.note("no job is on record")
    for line in others():
        output.note(visible(line, line=True))
    return OK
