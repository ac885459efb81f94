"""What differs between jobs: options, what they reported last, GPU time, and code."""

from __future__ import annotations

import difflib
import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_engine.amounts import UNKNOWN, duration
from submarine_engine.command.parser import to_command
from submarine_engine.errors import CommandError
from submarine_engine.events import Moment
from submarine_engine.history import read_foreign
from submarine_engine.metrics import last_of, read_reported
from submarine_engine.records import job_name

from submarine_jupyter import jobs

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.history import JobPaths
    from submarine_engine.job import JobSpec
    from submarine_engine.lifecycle import JobStatus

STEP = "step"
"""The number of a report that says when it was made."""

_MOST_NUMBERS = 100
_MOST_FILES = 50
_MOST_BYTES = 400_000
"""Of a file of code: of one that is longer, its beginning is compared."""
_MOST_CODE = 5000
"""Lines likewise: what takes a minute to compare is nothing that people read."""
MOST_LINES = 1000
"""Of a diff."""


class _One(NamedTuple):
    id: str
    name: str
    spec: JobSpec
    status: JobStatus
    paths: JobPaths


def compared(ids: Sequence[str]) -> dict[str, Any]:
    """Return jobs beside each other.

    Parameters
    ----------
    ids
        The jobs; the code of each is compared with that of the first.

    Returns
    -------
    dict
        ``jobs``; ``sections``, each with rows of a name and a text for each job; ``code``: of each
        job but the first the lines of a unified diff.

    Raises
    ------
    JobNotFoundError
        There is no such job.
    """
    found = [_open(one) for one in ids]
    options = [_options(one.spec) for one in found]
    reported = [_reported(one) for one in found]
    ledgers = [_ledger(one.status) for one in found]
    first, *others = found
    return {
        "jobs": [
            {"id": one.id, "name": one.name, "state": one.status.state.value} for one in found
        ],
        "sections": [
            {"name": "Options", "rows": _rows(options)},
            {"name": "Reported last", "rows": _rows(reported)[:_MOST_NUMBERS]},
            {"name": "GPU time", "rows": _rows(ledgers)},
        ],
        "code": [{"id": one.id, **_diff(first.paths, one.paths)} for one in others],
    }


def _open(job_id: str) -> _One:
    from submarine_magics.card.record import stored_spec  # noqa: PLC0415 - brings IPython

    status = jobs.opened(job_id).status()
    paths = jobs.paths_of(job_id)
    return _One(job_id, job_name(job_id), stored_spec(paths), status, paths)


def _rows(columns: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, [column.get(name, UNKNOWN) for column in columns]) for name in names]
    return [
        {"name": name, "values": values, "same": len(set(values)) == 1} for name, values in rows
    ]


def _options(spec: JobSpec) -> dict[str, str]:
    """Return a job's options as one writes them, by name."""
    try:
        words = shlex.split(to_command(spec))[2:]
    except CommandError:  # roles that only a program can ask for
        return {"roles": ", ".join(f"{role.name} {role.count}" for role in spec.roles)}
    found: dict[str, list[str]] = {}
    name = ""
    for number, word in enumerate(words):
        if word == "--":
            found["arguments"] = words[number + 1 :]
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            found.setdefault(name, []).extend([value] if equals else [])
        else:
            found.setdefault(name, []).append(word)
    return {name: shlex.join(values) or "yes" for name, values in found.items()}


def _reported(one: _One) -> dict[str, str]:
    """Return the last of each number that a job's first task to report has told."""
    for task in one.status.tasks:
        if rows := read_reported(one.paths.task(task.task)):
            told = last_of(rows)
            names = sorted(told, key=lambda name: name == STEP)
            return {name: _number(told[name]) for name in names}
    return {}


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "NaN"


def _ledger(status: JobStatus) -> dict[str, str]:
    ledger = status.ledger
    spent = ledger.seconds(Moment.now())
    return {"GPUs": str(ledger.gpus), **{name: duration(value) for name, value in spent.items()}}


# Code.


def _diff(before: JobPaths, after: JobPaths) -> dict[str, Any]:
    one, two = _code(before.bundle), _code(after.bundle)
    lines: list[str] = []
    left_out = 0
    for name in sorted({*one, *two}):
        texts = one.get(name, []), two.get(name, [])
        if texts[0] == texts[1]:
            continue
        found = difflib.unified_diff(
            *texts,
            fromfile=f"{before.job_id}/{name}",
            tofile=f"{after.job_id}/{name}",
            lineterm="",
        )
        lines += itertools.islice(found, MOST_LINES - len(lines))
        left_out += sum(1 for _ in found)
    return {"lines": lines, "left_out": left_out}


def _code(bundle: Path) -> dict[str, list[str]]:
    found = {}
    for path in itertools.islice(sorted(bundle.rglob("*.py")), _MOST_FILES):
        try:
            text = read_foreign(path, _MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        found[path.relative_to(bundle).as_posix()] = text.splitlines()[:_MOST_CODE]
    return found
