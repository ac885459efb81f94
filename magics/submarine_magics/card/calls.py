"""A map as its card shows it: how far its calls are, what it holds, and those that failed."""

from __future__ import annotations

from collections.abc import Sequence

from submarine_magics.card.nodes import Node, node
from submarine_magics.card.rows import CallsView, RowView
from submarine_magics.card.sweeps import (
    Looking,
    blocks,
    held_node,
    log_actions,
    log_node,
    opener,
    rows_table,
    slot,
)

FEW_CALLS = 5
"""How many of the failed calls stand in text."""

_HEADS = ("Call", "Input", "State", "Took", "On", "Error")
_NAMED = 2


def calls_lines(calls: CallsView) -> list[str]:
    """Return how far a map's calls are, a line each."""
    drawn = f" {blocks(calls.holding)}" if len(calls.holding) > _NAMED else ""
    lines = [f"calls: {calls.words}", f"held: {calls.held}{drawn}"]
    for row in calls.failures[:FEW_CALLS]:
        number, label, *_, error = row.cells
        lines.append(f"  call {number}{f' ({label})' if label else ''}: {error}")
    left = len(calls.failures) - FEW_CALLS
    return [*lines, f"  … {left} more have failed"] if left > 0 else lines


def calls_node(calls: CallsView, *, opened: bool, served: bool) -> Node:
    """Return what a card shows of a map.

    Parameters
    ----------
    opened
        Whether the newest calls are shown.
    served
        Whether a server answers what readers ask of the calls.
    """
    looking = Looking() if served else None
    tables = calls_nodes(calls, looking, opened=opened)
    return node("div", "sweep", held_node(calls.held, calls.holding), slot(tables))


def calls_nodes(
    calls: CallsView,
    looking: Looking | None,
    shown: Node | None = None,
    *,
    opened: bool = True,
) -> tuple[Node | None, ...]:
    """Return the tables of calls, and the one that a reader has opened.

    Parameters
    ----------
    looking
        At what the reader looks; None where there is nobody to answer.
    shown
        The call that is open.
    opened
        Whether the newest calls are shown.
    """
    failed = None
    if calls.failures:
        failed = _table("Failed", calls.failed_words, calls.failures, looking, is_open=True)
    newest = _table("Calls", calls.words, calls.newest, looking, is_open=opened)
    return (failed, newest, shown)


def call_node(row: RowView, log: str, left_out: int, worker: str) -> Node:
    """Return a call with its log.

    Parameters
    ----------
    row
        What the tables have of it.
    log, left_out
        The end of what it has written, and how many bytes stand before that.
    worker
        The job that ran it last; empty where there is none.
    """
    name = f"call {row.number}"
    facts = " · ".join(filter(None, row.cells[1:5]))
    return node(
        "div", "opened",
        node("div", "head", node("strong", "label", name.capitalize()), " ",
             node("span", "quiet", facts), " ", log_actions(row.number, worker)),
        node("div", "error", row.cells[-1]) if row.cells[-1] else None,
        *log_node(name, log, left_out),
    )  # fmt: skip


def _table(
    title: str, words: str, rows: Sequence[RowView], looking: Looking | None, *, is_open: bool
) -> Node:
    shown = [at for at in range(len(_HEADS)) if any(row.cells[at] for row in rows)]
    heads = [node("th", "", _HEADS[at], scope="col") for at in shown]

    def cells(row: RowView) -> list[Node]:
        found = [node("td", "", row.cells[at]) for at in shown]
        if looking is not None:
            found[0] = opener(row, f"call {row.number}", looking)
        return found

    return rows_table(title, words, heads, rows, cells, is_open=is_open)
