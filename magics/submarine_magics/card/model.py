"""The job card as plain data: what it shows, in words and numbers.

`read_record` reads what does not change, `view` makes the `CardView` of that and a status. Text
from jobs becomes visible and short here, and never becomes markup.
"""

from __future__ import annotations

import signal
import time
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine import webhooks
from submarine_engine.amounts import UNKNOWN, clock, count, duration, ordinal, size
from submarine_engine.artifacts import Listing
from submarine_engine.errors import SubmarineError, in_a_notebook
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobSpec, JobState, TaskState
from submarine_engine.lifecycle import JobStatus, TaskStatus
from submarine_engine.map_summary import FILE as CALLS
from submarine_engine.map_summary import CallRow, Calls, read_calls
from submarine_engine.metrics import Curve, curves, read_job
from submarine_engine.sweeps.rows import TrialRow, short
from submarine_engine.sweeps.summary import FILE as SWEEP
from submarine_engine.sweeps.summary import SHOWN, Summary, read_summary
from submarine_engine.waterfall import Startup

if TYPE_CHECKING:
    from submarine_engine.future import Job


# Times of day and foreign text as words of the card; hostile text becomes visible text.


# Characters that would reorder, hide or break the text around them: Unicode's control (Cc), format
# (Cf: right-to-left overrides, zero-width characters, tags), surrogate (Cs), line and paragraph
# separators (Zl, Zp), private use (Co).
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co"})
_JOINERS = "\u200c\u200d"  # spell words in Persian and Indic scripts, and join emoji


def visible(text: object, limit: int = 200) -> str:
    """Return foreign text as one line that cannot reorder or hide what stands around it.

    Control characters become their pictures (``␛``), other unseen ones ``[U+202E]``; longer text
    than `limit` characters is cut in the middle.
    """
    line = str(text)
    if len(line) > limit:
        head = limit * 2 // 3
        line = f"{line[:head]} … {line[len(line) - (limit - head) :]}"
    return "".join(map(_seen, line))


def visible_lines(text: str, limit: int) -> str:
    r"""Return foreign text with its lines and tabs kept, at most `limit` characters of it."""
    kept = text[:limit].replace("\r\n", "\n")
    return "".join(char if char in "\n\t" else _seen(char) for char in kept)


def _seen(char: str) -> str:
    if char == " " or char in _JOINERS or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    if code < 0x20:  # noqa: PLR2004 - the C0 controls, which have pictures
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"  # noqa: PLR2004 - delete's picture


def time_of_day(moment: Moment | None) -> str:
    """Return the local time, ``14:03:59``; a dash where there is none or it is no time."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def date_and_time(moment: Moment | None) -> str:
    """Return the local date and time, ``2025-03-14 15:09``; a dash as `time_of_day` does."""
    if moment is None:
        return UNKNOWN
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment.wall))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


# What a card shows of a job besides its status: read once, from the job's record.


SCRIPT_LIMIT = 64 << 10
"""Bytes of a script that a card reads; the whole one is in the job's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The unchanging part of a job.

    Parameters
    ----------
    origin
        Where it was submitted, in words (``In [3]``); empty where nobody knows.
    machine_gpus
        GPUs of the whole cluster, asked only for a job without any; None where nobody knows.
    folder
        The job's folder on this machine, ``~`` for the user's own; empty where it is not here.
    log_url
        The page of the job's log.
    log_label
        What its link is called, in the cluster's words.
    links
        The cluster's other pages of the job, ``(label, url)``.
    task_links
        Pages of tasks' logs, by task.
    remembered
        Where the job's result was not computed anew: when it was, as `Job.remembered` says it.
    rerun_of
        The job that it runs once more; empty for all others.
    sweep
        What a job that runs a sweep has found by now; None for all others.
    calls
        How far the calls of a job that runs a map are; None for all others.
    curves
        What its tasks have used and reported by now.
    startup
        Where the time of its start went; None while none of its code runs.
    artifacts
        The files that it has left by now; None where there are none.
    script, script_name, script_size
        The entry script's beginning, at most `SCRIPT_LIMIT` bytes; its name; all its bytes.
    """

    job_id: str
    cluster: str
    spec: JobSpec
    origin: str = ""
    host: str = ""
    machine_gpus: int | None = None
    folder: str = ""
    log_url: str | None = None
    log_label: str = "Log"
    links: tuple[tuple[str, str], ...] = ()
    task_links: Mapping[str, str] = field(default_factory=dict)
    bundle_hash: str = ""
    remembered: str = ""
    rerun_of: str = ""
    sweep: Summary | None = None
    calls: Calls | None = None
    curves: tuple[Curve, ...] = ()
    startup: Startup | None = None
    artifacts: Listing | None = None
    script: str = ""
    script_name: str = ""
    script_size: int = 0


def read_record(job: Job, *, origin: str = "", machine: bool = True) -> Record:
    """Read what a card shows of `job`; what cannot be read is left out, a card never fails a job.

    Parameters
    ----------
    origin
        As in `Record`.
    machine
        Whether the cluster may be asked for `Record.machine_gpus`, which may take long.
    """
    paths = job_paths(job)
    data = _json(paths.record) if paths else {}
    spec = _spec(data)
    name, script, size = _read_script(paths.bundle) if paths else ("", "", 0)
    return Record(
        job_id=job.id,
        cluster=job.cluster.name,
        spec=spec,
        origin=origin,
        host=str(data.get("host", "")),
        machine_gpus=_machine_gpus(job) if machine and spec.gpus == 0 else None,
        folder=_folder(paths.root) if paths else "",
        log_label=job.cluster.log_label,
        bundle_hash=str(data.get("bundle_hash", "")),
        remembered=job.remembered,
        rerun_of=str(data.get("rerun_of", "")),
        script=script,
        script_name=name,
        script_size=size,
    )


def job_paths(job: Job) -> JobPaths | None:
    """Return the files of `job`; None where its record is not on this machine."""
    try:
        paths = JobPaths(getattr(job.cluster, "home", None) or default_home(), job.id)
    except SubmarineError:
        return None
    return paths if paths.root.is_dir() else None


def stored_spec(paths: JobPaths) -> JobSpec:
    """Return what a job was asked to run, as its record says; an empty one where it does not."""
    return _spec(_json(paths.record))


def read_sweep(job: Job, spec: JobSpec) -> Summary | None:
    """Return what a job that runs a sweep has found by now; None for all others."""
    paths = job_paths(job)
    return read_summary(paths.task(spec.tasks[0]).root) if paths else None


def read_map(job: Job, spec: JobSpec) -> Calls | None:
    """Return how far the calls of a job that runs a map are; None for all others."""
    paths = job_paths(job)
    return read_calls(paths.task(spec.tasks[0]).root) if paths else None


def sweep_stamp(job: Job, spec: JobSpec) -> tuple[int, int] | None:
    """Return what differs once a sweep or a map has found more; None for jobs that run none."""
    paths = job_paths(job)
    if paths is None:
        return None
    for name in (SWEEP, CALLS):
        try:
            found = (paths.task(spec.tasks[0]).root / name).stat()
        except OSError:
            continue
        return found.st_mtime_ns, found.st_ino
    return None


_CURVE_TASKS = 16
"""Tasks whose files are read for a card; those of more look alike."""
_CURVES_EVERY = 2.0
_CURVES_SHARE = 0.02
"""Of a core: a long job's files are a megabyte a task."""
_MOST_CURVES = 200
_curves: OrderedDict[str, tuple[float, object, tuple[Curve, ...]]] = OrderedDict()


def read_curves(job: Job, spec: JobSpec, *, final: bool = False) -> tuple[Curve, ...]:
    """Return what a job's tasks have used and reported, as it was some seconds ago at most.

    Parameters
    ----------
    spec
        What the job was asked to run.
    final
        Whether the job is over: then nothing comes any more, and the last of it is wanted.
    """
    paths = job_paths(job)
    if paths is None:
        return ()
    due, known, found = _curves.get(str(paths.root), (0.0, None, ()))
    began = time.monotonic()
    if began < due and not final:
        return found
    tasks = spec.tasks[:_CURVE_TASKS]
    stamp = [
        _stamp(file) for t in tasks for file in (paths.task(t).metrics, paths.task(t).reported)
    ]
    if stamp != known:
        found = curves(read_job(paths, tasks))
    pause = max(_CURVES_EVERY, (time.monotonic() - began) / _CURVES_SHARE)
    _curves[str(paths.root)] = began + pause, stamp, found
    _curves.move_to_end(str(paths.root))
    while len(_curves) > _MOST_CURVES:
        _curves.popitem(last=False)
    return found


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _folder(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # elsewhere, or nobody's home is known
        return str(path)


def _json(path: Path) -> dict[str, object]:
    try:
        data: object = read_json(path)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _spec(data: dict[str, object]) -> JobSpec:
    try:
        return JobSpec.from_json(data["spec"])  # type: ignore[arg-type]  # whatever is there
    except (SubmarineError, AttributeError, KeyError, TypeError, ValueError):
        return JobSpec()


def _read_script(bundle: Path) -> tuple[str, str, int]:
    """Return the entry script's name, its first part, and its size in bytes."""
    name = str(_json(bundle / "manifest.json").get("entry", "script.py"))
    path = bundle / name
    try:
        if not path.resolve().is_relative_to(bundle.resolve()):
            return "", "", 0
        with path.open("rb") as file:
            return name, file.read(SCRIPT_LIMIT).decode("utf-8", "replace"), path.stat().st_size
    except (OSError, ValueError):
        return "", "", 0


def _machine_gpus(job: Job) -> int | None:
    try:
        return len(job.cluster.gpus())
    except (SubmarineError, OSError):
        return None


# The GPU ledger of a job as the card shows it: stages with their times, and one sentence.
#
# What the ledger calls held and busy is "starting" and "running" here: of a GPU that is held people
# ask by whom, and busy says how hard it works, which nobody measured.


_MUCH = 100_000
_LONG = 1.0
"""Bytes and seconds of results from which on people may ask what they cost."""

_MEANING = {
    "queued": "waiting for GPUs",
    "starting": "GPUs granted, code not yet running",
    "running": "wall time of the code, with its GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the ledger: ``queued``, ``starting`` or ``running``.

    Parameters
    ----------
    text
        How long, in words.
    meaning
        What the stage is, for who does not know the word.
    ticking
        Whether it goes on now.
    """

    name: str
    seconds: float
    text: str
    meaning: str
    ticking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The ledger in words and numbers.

    Parameters
    ----------
    gpus
        Which, in words: ``GPUs 0, 1``, ``2 GPUs``; or why there are none.
    stages
        Those reached, in order; none for a job without GPUs.
    released
        ``released 38 ms after return``, with what was written for the notebook before that where
        it is much; empty while they are not, and without GPUs.
    """

    gpus: str
    stages: tuple[Stage, ...]
    released: str


def view_ledger(record: Record, status: JobStatus, now: Moment) -> LedgerView:
    """Return the ledger of a job at the moment `now`."""
    number = status.ledger.gpus
    if not number:
        return LedgerView(gpus=_without(record), stages=(), released="")
    ids = [visible(gpu, 20) for task in status.tasks for gpu in task.named_gpus]
    named = 0 < len(ids) <= 8  # noqa: PLR2004 - one line
    kind = "GPU" if number == 1 else "GPUs"
    return LedgerView(
        gpus=f"{kind} {', '.join(ids)}" if named else count(number, "GPU"),
        stages=_stages(status, now),
        released=_released(status),
    )


def _without(record: Record) -> str:
    if record.machine_gpus == 0:
        return "no GPU on this machine"
    return "no GPU"


def _stages(status: JobStatus, now: Moment) -> tuple[Stage, ...]:
    spent = status.ledger.seconds(now)
    seconds = {
        "queued": spent["queued"],
        "starting": spent["held"],
        "running": spent["busy"],
    }
    reached = {
        "queued": status.submitted is not None,
        "starting": any(task.held for task in status.tasks),
        "running": any(task.busy for task in status.tasks),
    }
    current = _current(status)
    return tuple(
        Stage(
            name=name,
            seconds=round(seconds[name], 3),
            text=clock(seconds[name]) if name == current else duration(seconds[name]),
            meaning=meaning,
            ticking=name == current,
        )
        for name, meaning in _MEANING.items()
        if reached[name]
    )


def _current(status: JobStatus) -> str | None:
    """Return the stage that goes on now: the first one that any task is in."""
    if status.state.final:
        return None
    for task in status.tasks:
        if task.returned or task.exited:
            continue
        return "running" if task.busy else "starting" if task.held else "queued"
    return None


def _wrote(status: JobStatus) -> str:
    """Return what was written while the GPUs were still held, where it is much or took long."""
    written = sum(task.wrote[0] for task in status.tasks)
    seconds = max((task.wrote[1] for task in status.tasks), default=0.0)
    much = written >= _MUCH or seconds >= _LONG
    return f"; results: {size(written)} in {duration(seconds)}" if much else ""


def _released(status: JobStatus) -> str:
    after = status.ledger.released_after
    if after is not None:
        returned = all(task.returned for task in status.tasks if task.held)
        return f"released {duration(after)} after {'return' if returned else 'exit'}" + _wrote(
            status
        )
    held = status.ledger.held_now
    if not held:
        return "never held" if status.state.final else ""
    over = status.state is not JobState.RUNNING and status.state.final
    return f"{count(held, 'GPU')} still held" if over else ""


# A sweep as the card shows it: the best so far, its trials, and what it holds.


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
    """Return the parameters of a trial in one line."""
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


# The view model of the job card: what it shows, as plain data, ready to be written anywhere.
#
# `view` is pure: the job's record, its status and the time in, words and numbers out. All text from
# outside is made visible and short here; a renderer only has to escape for its own language.


SCRIPT_SHOWN = 16_000
"""Characters of a script in a card: a notebook keeps them for every job."""

_GLYPHS = {
    JobState.QUEUED: "○",
    JobState.STARTING: "◌",
    JobState.RUNNING: "●",
    JobState.SUCCEEDED: "✓",
    JobState.FAILED: "✕",
    JobState.CANCELLED: "■",
    JobState.LOST: "?",
}
_TASKS_SHOWN = 64
_LONGEST_REASON = 40
FEW_TASKS = 4
"""How many tasks a card shows as they are; of more, it shows first what there is of each state."""

_FIRST = {TaskState.FAILED: 0}
KILLED = "killed"
"""The reason of a job that was ended at once: every cluster gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One row of the tasks table, in words."""

    role: str
    task: str
    host: str
    state: str
    detail: str
    gpus: str
    started: str
    finished: str
    progress: float | None
    log_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptView:
    """The script: its name and hash, its text, and how much of it is left out here."""

    name: str
    hash: str
    text: str
    lines: str
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """All that a card shows.

    Parameters
    ----------
    state
        The job's state, ``cancelling`` where it was asked to end.
    word
        The state as it is shown: who ended a job at once has not cancelled it.
    elapsed
        Seconds since submission, to the end where there is one.
    ticking
        Whether `elapsed` goes on growing.
    as_of
        When this was so, for what will not change by itself; empty once the job is over.
    facts
        What the job is and has, short: ``In [3]``, ``on local``.
    sentence
        What it waits for, what is wrong with it, or why it ended; empty where there is nothing to
        say.
    remembered
        Of a result that was not computed anew: ``from 14:02, job train``.
    error, warning
        Whether `sentence` tells of a failure, or of what is wrong with a job that goes on.
    task_states
        How many of all tasks are in which state, those that failed first.
    progress, message
        From 0 to 1, None where unknown; what the task says about it.
    log_url, log_label
        The page of the job's log, and what its link is called.
    log_path, log_command
        Where the log is, and how to see it from a terminal, when its page is gone.
    links
        The cluster's own pages of the job, ``(label, url)``.
    sweep, calls
        What a sweep has found, or how far the calls of a map are, in place of the controller's own
        GPUs and tasks; None for other jobs.
    curves
        What the tasks have used and reported over time.
    startup
        Where the time of the start went; None for what shows a sweep or a map, whose calls are the
        work, and where nothing was started.
    artifacts
        The files that the job has left; None where there are none.
    """

    job_id: str
    cluster: str
    title: str
    state: str
    word: str
    glyph: str
    final: bool
    elapsed: float
    elapsed_text: str
    ticking: bool
    as_of: str
    facts: tuple[str, ...]
    sentence: str
    remembered: str
    error: bool
    warning: bool
    progress: float | None
    message: str
    tasks: tuple[TaskView, ...]
    tasks_left_out: int
    task_states: tuple[tuple[str, int], ...]
    ledger: LedgerView
    log_url: str | None
    log_label: str
    log_path: str
    log_command: str
    script: ScriptView | None
    links: tuple[tuple[str, str], ...]
    quicklinks: tuple[tuple[str, str], ...]
    sweep: SweepView | None = None
    calls: CallsView | None = None
    curves: tuple[Curve, ...] = ()
    startup: Startup | None = None
    artifacts: Listing | None = None


def view(record: Record, status: JobStatus, now: Moment) -> CardView:
    """Return what to show of a job at the moment `now`."""
    end = status.finished or now
    elapsed = round(status.submitted.until(end), 3) if status.submitted else 0.0
    ticking = not status.state.final and status.submitted is not None
    final = status.state.final
    sweep = (
        view_sweep(record.sweep, end, job_id=record.job_id, final=final) if record.sweep else None
    )
    return CardView(
        job_id=visible(record.job_id, 64),
        cluster=visible(record.cluster, 40),
        title=visible(record.spec.name, 80),
        state=_state(status),
        word=_word(status),
        glyph=_GLYPHS[status.state],
        final=status.state.final,
        elapsed=elapsed,
        elapsed_text=clock(elapsed) if ticking else duration(elapsed),
        ticking=ticking,
        as_of="" if status.state.final else f"as of {date_and_time(now)}",
        facts=_facts(record, status),
        sentence=_remembered(record) or _sentence(status),
        remembered=visible(record.remembered, 120),
        error=status.state in (JobState.FAILED, JobState.LOST),
        warning=_warns(status),
        progress=_fraction(status.progress),
        message=_message(status) if sweep is None else sweep.left,
        tasks=tuple(
            _task(status, task, record.task_links.get(task.task))
            for task in _in_order(status)[:_TASKS_SHOWN]
        ),
        tasks_left_out=max(0, len(status.tasks) - _TASKS_SHOWN),
        task_states=_states(status),
        ledger=view_ledger(record, status, now),
        log_url=web_address(record.log_url),
        log_label=visible(record.log_label, 40),
        log_path=visible(f"{record.folder}/tasks", 400) if record.folder else "",
        log_command=f"submarine job logs {visible(record.job_id, 64)}",
        script=_script_view(record),
        links=_links(record.links),
        quicklinks=_links(record.spec.quicklinks),
        sweep=sweep,
        calls=view_calls(record.calls, end, final=final) if record.calls else None,
        curves=tuple(
            replace(curve, name=visible(curve.name, 30), last=visible(curve.last, 30))
            for curve in record.curves
        )
        if sweep is None and record.calls is None
        else (),
        startup=None if record.remembered or record.sweep or record.calls else record.startup,
        artifacts=_artifacts(record.artifacts),
    )


def _artifacts(found: Listing | None) -> Listing | None:
    if found is None:
        return None
    files = tuple(replace(one, name=visible(one.name, 80)) for one in found.files)
    return replace(found, words=visible(found.words, 300), files=files)


def web_address(url: object) -> str | None:
    """Return `url` where a link may lead there (``http``, ``https``, nothing unseen), else None."""
    if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
        return None
    return url if len(url) <= 2000 and visible(url, 2000) == url and " " not in url else None  # noqa: PLR2004 - what browsers take


def _state(status: JobStatus) -> str:
    return "cancelling" if status.cancelling and not status.state.final else status.state.value


def _killed(status: JobStatus) -> bool:
    return status.reason == KILLED


def _word(status: JobStatus) -> str:
    state = _state(status)
    words = {"cancelling": "killing", "cancelled": "killed"}
    return words.get(state, state) if _killed(status) else state


def _task_word(status: JobStatus, task: TaskStatus) -> str:
    """Return a task's state: one that ended as it was asked to was not killed."""
    asked = status.cancelling and not _killed(status)
    if task.state is TaskState.KILLED and asked and task.exit_code != -signal.SIGKILL:
        return "cancelled"
    return task.state.value


def _fraction(progress: float | None) -> float | None:
    return None if progress is None else round(progress, 4)


def _facts(record: Record, status: JobStatus) -> tuple[str, ...]:
    tasks, told = len(status.tasks), record.spec.notify
    facts = [
        visible(record.origin, 40),
        count(tasks, "task") if tasks > 1 else "",
        f"attempt {status.attempt}" if status.attempt > 1 else "",
        f"again: job {visible(record.rerun_of, 40)}" if record.rerun_of else "",
        f"queue {visible(record.spec.queue, 40)}" if record.spec.queue else "",
        f"on {visible(record.cluster, 40)}",
        f"tells {visible(webhooks.host(told), 40)}" if told and told != webhooks.NONE else "",
        date_and_time(status.submitted) if status.submitted else "",
    ]
    return tuple(fact for fact in facts if fact)


def _remembered(record: Record) -> str:
    if not record.remembered:
        return ""
    return f"Result {visible(record.remembered, 120)}; with --refresh the cell runs again"


def _sentence(status: JobStatus) -> str:
    if status.state is JobState.QUEUED and not status.cancelling:
        return _while_it_waits(status)
    if _killed(status) or status.state is JobState.SUCCEEDED:
        return ""
    if status.state is JobState.CANCELLED or _state(status) == "cancelling":
        return _begun(visible(status.reason, 300))
    if status.state in (JobState.STARTING, JobState.RUNNING):
        return _while_it_goes_on(status)
    reasons = [status.reason, *(task.reason for task in status.tasks if task.exit_code)]
    reason = next(filter(None, reasons), "")
    failed = status.task(status.failed_task) if len(status.tasks) > 1 else None
    if failed and not reason.startswith(failed.place):
        reason = f"{failed.place}: {reason}" if reason else f"{failed.place} failed"
    return visible(reason, 600)


def _while_it_waits(status: JobStatus) -> str:
    reason = visible(status.waiting_reason, 300)
    known = any(word in reason for word in ("ahead", "behind"))
    if status.ahead is None or (reason and (known or not status.ahead)):
        return _begun(reason)
    return ", ".join(filter(None, (f"{ordinal(status.ahead + 1)} in the queue", reason)))


def _while_it_goes_on(status: JobStatus) -> str:
    if _warns(status):
        return _begun(in_a_notebook(visible(status.warning, 600)))
    if status.growing and status.state is JobState.RUNNING:
        return f"Goes on with more workers: {visible(status.growing, 300)}"
    if status.attempt > 1 and status.retried:
        return f"The attempt before this one ended: {visible(status.retried, 300)}"
    return ""


def _begun(text: str) -> str:
    """Return words as a sentence begins."""
    return text[:1].upper() + text[1:]


def _warns(status: JobStatus) -> bool:
    going = status.state is JobState.RUNNING and not status.cancelling
    return going and bool(status.warning)


def _message(status: JobStatus) -> str:
    running = [task.message for task in status.tasks if task.message]
    return visible(running[0], 80) if running and not status.state.final else ""


def _states(status: JobStatus) -> tuple[tuple[str, int], ...]:
    words = Counter(_task_word(status, task) for task in _in_order(status))
    return tuple(sorted(words.items(), key=lambda item: item[0] != TaskState.FAILED.value))


def _in_order(status: JobStatus) -> list[TaskStatus]:
    """Return the tasks in the order of their ranks; of many, those that failed come first."""
    tasks = list(status.ranked)
    if len(tasks) > FEW_TASKS:
        tasks.sort(key=lambda task: (task.task != status.failed_task, _FIRST.get(task.state, 9)))
    return tasks


def _task(status: JobStatus, task: TaskStatus, log_url: str | None) -> TaskView:
    detail = [f"attempt {task.attempt}"] if task.attempt > 1 else []
    # Why the job failed is said above; of the others, in a word, by what.
    other = status.failed_task not in ("", task.task)
    if other and task.reason and task.state is TaskState.FAILED:
        detail.append(visible(task.reason.partition(":")[0], _LONGEST_REASON))
    elif other and task.state is TaskState.KILLED:
        detail.append("as the job failed")  # a signal alone would read as out of memory
    elif task.exit_code:
        word = "signal" if task.exit_code < 0 else "exit code"
        detail.append(f"{word} {abs(task.exit_code)}")
    return TaskView(
        role=visible(task.role, 20),
        task=visible(task.task, 30),
        host=visible(task.host, 60) or UNKNOWN,
        state=_task_word(status, task),
        detail=", ".join(detail),
        gpus=", ".join(visible(gpu, 20) for gpu in task.named_gpus)
        or (str(len(task.gpus)) if task.gpus else UNKNOWN),
        started=time_of_day(task.busy),
        finished=time_of_day(task.exited),
        progress=1.0 if task.state is TaskState.SUCCEEDED else _fraction(task.progress),
        log_url=web_address(log_url),
    )


def _script_view(record: Record) -> ScriptView | None:
    if not record.script_name:
        return None
    text = visible_lines(record.script, SCRIPT_SHOWN)
    left_out = max(0, record.script_size - len(text.encode("utf-8", "replace")))
    return ScriptView(
        name=visible(record.script_name, 60),
        hash=visible(record.bundle_hash, 64),
        text=text,
        lines=count(len(text.splitlines()), "line") + ("+" if left_out else ""),
        left_out=f"… {left_out:,} bytes more" if left_out else "",
    )


def _links(found: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    links = ((visible(label, 40), web_address(url)) for label, url in found)
    return tuple((label, url) for label, url in links if url)
