"""A sweep and a map as the card shows them: words, numbers, and a row for each trial or call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from submarine_engine.amounts import clock, count, duration
from submarine_engine.events import Moment
from submarine_engine.map_summary import CallRow, Calls
from submarine_engine.sweeps.rows import TrialRow, short
from submarine_engine.sweeps.summary import SHOWN, Summary

from submarine_magics.card.words import visible

_OPEN = frozenset({"running", "waiting"})
_COLUMNS = 6
"""Parameters that have a column each; more share one."""
_VALUE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """A trial or a call as one row: its number and state, and what stands in each column."""

    number: int
    state: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepView:
    """What a card shows of a sweep, in words and numbers.

    Parameters
    ----------
    best
        The best so far: ``loss 0.0123 by trial 17``; or that there is none yet.
    params
        Those of the best: ``rate=0.01 units=32``; empty where there is none, or several.
    trials
        How many are in which state: ``12 complete, 2 failed, 2 running of 40``.
    failed
        Whether a trial has failed.
    left
        ``about 3 min left``; empty where nobody can say.
    columns
        The heads of the tables: number, state, values, parameters, time, error.
    objectives
        How many columns hold values.
    sorts
        Of each column whether a reader may want its largest values first; None for one that has
        no order.
    best_rows, newest_rows
        The best trials, and those that began last with those that still go on; of few trials all
        are among the first.
    command
        How to see all trials, where they are not all here.
    held
        ``3 GPUs of at most 4``.
    holding
        How many were held, from when on, and in the end until now.
    history, improved
        Values by number of the trial, and the best by then.
    history_words
        What that picture shows, for who does not see it.
    importance
        How much each parameter matters to the first objective, in parts of 1; the largest first.
    """

    best: str
    params: str
    trials: str
    failed: bool
    left: str
    columns: tuple[str, ...]
    objectives: int
    sorts: tuple[bool | None, ...]
    best_rows: tuple[RowView, ...]
    newest_rows: tuple[RowView, ...]
    command: str
    held: str
    holding: tuple[tuple[float, float], ...]
    history: tuple[tuple[float, float], ...]
    improved: tuple[tuple[float, float], ...]
    history_words: str
    importance: tuple[tuple[str, float], ...]


def view_sweep(found: Summary, end: Moment, *, job_id: str, final: bool) -> SweepView:
    """Return what to show of a sweep at the moment `end`.

    Parameters
    ----------
    found
        What the sweep has told last.
    job_id
        The job that runs it.
    final
        Whether its job is over: then no trial runs, whatever was told last.
    """
    states = Counter[str]()
    for state, number in found.states:
        states[_trial_word(state, final=final)] += number
    few = sum(states.values()) <= SHOWN
    newest = _newest(found)
    rows = {row.number: row for row in (*newest, *found.best)}
    best = [rows[number] for number in sorted(rows)] if few else found.best
    told = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    names = tuple(visible(name, _VALUE) for name, _ in found.objectives)
    return SweepView(
        best=_best_words(found, names),
        params=params_words(found, found.best[0]) if found.best and found.bests == 1 else "",
        trials=f"{told or 'none yet'} of {found.total:,}",
        failed="failed" in states,
        left=_left(found, end) if not final else "",
        columns=("Trial", "State", *names, *_parameters(found), "Took", "Error"),
        objectives=len(names),
        sorts=_sorts(found),
        best_rows=tuple(trial_view(found, row, final=final) for row in best),
        newest_rows=tuple(trial_view(found, row, final=final) for row in newest) if not few else (),
        command="" if few else f"submarine sweep show {visible(job_id, 64)}",
        held=_held(found, final=final),
        holding=_held_until(found.holding, found.began, end, final=final),
        history=found.history,
        improved=found.improved,
        history_words=_history_words(found, names),
        importance=tuple((visible(name, _VALUE), part) for name, part in found.importance),
    )


def _newest(found: Summary) -> tuple[TrialRow, ...]:
    """Return the newest trials, and those which began before them and still go on."""
    oldest = min((row.number for row in found.newest), default=0)
    older = [row for row in found.open if row.number < oldest and row.state != "waiting"][:SHOWN]
    return (*found.newest, *sorted(older, key=lambda row: -row.number))


def _parameters(found: Summary) -> tuple[str, ...]:
    """Return the heads of the parameters' columns."""
    if len(found.params) > _COLUMNS:
        return ("Parameters",)
    return tuple(visible(name, _VALUE) for name in found.params)


def _sorts(found: Summary) -> tuple[bool | None, ...]:
    from submarine_engine.sweeps.plan import MAXIMIZE  # noqa: PLC0415 - no kernel starts with it

    one = len(found.params) <= _COLUMNS
    params: tuple[bool | None, ...] = (False,) * len(found.params) if one else (None,)
    values = tuple(way == MAXIMIZE for _, way in found.objectives)
    return (True, False, *values, *params, True, True)


def sort_key(found: Summary, row: TrialRow, column: int) -> float | int | str:
    """Return what a row is sorted by in a column of the tables; an empty text where nothing stands.

    Parameters
    ----------
    found
        The sweep's.
    row
        The trial.
    column
        Its place in `SweepView.columns`.
    """
    params = row.params if len(found.params) <= _COLUMNS else ("",)
    took: float | str = "" if row.seconds is None else row.seconds
    keys = (row.number, row.state, *row.values, *params, took, row.error)
    return keys[column]


def _trial_word(state: str, *, final: bool) -> str:
    return "not ended" if final and state in _OPEN else visible(state, 20)


def _best_words(found: Summary, names: tuple[str, ...]) -> str:
    if not found.best:
        return "no trial has come to a value" + ("" if found.total == 0 else " yet")
    if len(names) > 1:
        return f"{count(found.bests, 'trial')} that none beats in {' and '.join(names)}"
    first = found.best[0]
    return f"{names[0]} {trial_value(first.values[0])} by trial {first.number}"


def params_words(found: Summary, row: TrialRow) -> str:
    """Return the parameters of the trial `row` in one line, by their names in `found`."""
    pairs = zip(found.params, row.params, strict=False)
    return " ".join(f"{visible(name, _VALUE)}={trial_value(value)}" for name, value in pairs)


def trial_value(value: object) -> str:
    """Return a value of a trial as it is shown: a number to four digits, or text."""
    return visible(short(value), _VALUE)


def _left(found: Summary, now: Moment) -> str:
    left = (found.until or 0.0) - now.wall
    return f"about {clock(left)} left" if left >= 1 else ""


def _held(found: Summary, *, final: bool) -> str:
    most = max((number for _, number in found.holding), default=0)
    if final:
        return f"at most {count(int(most), found.unit)} at once"
    return f"{count(found.held, found.unit)} of at most {found.most:,}"


def _held_until(
    holding: tuple[tuple[float, float], ...], began: float, end: Moment, *, final: bool
) -> tuple[tuple[float, float], ...]:
    if not holding:
        return ()
    last = max(end.wall - began, holding[-1][0])
    return (*holding, (round(last, 1), 0.0 if final else holding[-1][1]))


def _history_words(found: Summary, names: tuple[str, ...]) -> str:
    if not found.history:
        return ""
    values = [value for _, value in found.history]
    return f"{names[0]} by trial, from {min(values):.4g} to {max(values):.4g}"


def trial_view(found: Summary, row: TrialRow, *, final: bool) -> RowView:
    """Return a trial as a row of a table.

    Parameters
    ----------
    found
        The sweep's.
    row
        The trial.
    final
        Whether the sweep's job is over.
    """
    state = _trial_word(row.state, final=final)
    one = len(found.params) <= _COLUMNS
    given = tuple(map(trial_value, row.params))
    if not one:
        given = (visible(params_words(found, row), 200),)
    values = tuple(map(trial_value, row.values))
    took = duration(row.seconds) if row.seconds is not None else ""
    return RowView(
        number=row.number,
        state=state,
        cells=(str(row.number), state, *values, *given, took, visible(row.error, 120)),
    )


# A map as the card shows it: how far its calls are, those that failed, and what it holds.


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsView:
    """What a card shows of a map, in words and numbers.

    Parameters
    ----------
    words
        How many are in which state: ``12 done, 2 failed, 2 running of 40``.
    failed_words
        How many have failed, and how many of them are here.
    failures, newest
        The first ones that failed; those that run, and the last ones that ended.
    held
        ``3 GPUs``; at most how many, once it is over.
    holding
        How many were held, from when on, and in the end until now.
    """

    words: str
    failed_words: str
    failures: tuple[RowView, ...]
    newest: tuple[RowView, ...]
    held: str
    holding: tuple[tuple[float, float], ...]


def view_calls(found: Calls, end: Moment, *, final: bool) -> CallsView:
    """Return what to show of a map at the moment `end`.

    Parameters
    ----------
    found
        What the map has told last.
    final
        Whether its job is over: then no call runs, whatever was told last.
    """
    waiting = max(0, found.total - found.done - found.failed - found.cancelled - found.running)
    states = Counter(
        {"running": found.running, "done": found.done, "failed": found.failed,
         "cancelled": found.cancelled, "waiting": waiting}
    )  # fmt: skip
    if final:
        states["not ended"] = states.pop("running") + states.pop("waiting")
    told = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    left = found.failed - len(found.failures)
    held = f"at most {count(found.most, found.unit)} at once"
    return CallsView(
        words=f"{told or 'none yet'} of {found.total:,}",
        failed_words=count(found.failed, "call")
        + (f", the first {len(found.failures)}" * (left > 0)),
        failures=tuple(call_view(row, final=final) for row in found.failures),
        newest=tuple(call_view(row, final=final) for row in found.newest),
        held=held if final else count(found.held, found.unit),
        holding=_held_until(found.holding, found.began, end, final=final),
    )


def call_view(row: CallRow, *, final: bool) -> RowView:
    """Return a call as a row of a table.

    Parameters
    ----------
    row
        The call.
    final
        Whether the map's job is over.
    """
    state = _trial_word(row.state, final=final)
    took = duration(row.seconds) if row.seconds is not None else ""
    label, host = visible(row.label, 60), visible(row.host, 60)
    cells = (str(row.index), label, state, took, host, visible(row.error, 300))
    return RowView(number=row.index, state=state, cells=cells)
