"""How jobs differ: code, values, options, versions, data, git, results; by their folders alone.

`compare` finds it, with all secrets masked; `job diff` shows it in lines, Jupyter's server as JSON.

So it tells of jobs of any cluster, of one that cannot be used here, and of a job that is not over,
as far as that is known: `Difference.unknown` says what is not. Everything in the folders may have
been written by the jobs' own code, and nothing of that is run: of values and results only those are
shown that are plain (numbers, texts, lists and dicts of such).
"""

from __future__ import annotations

import difflib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from submarine_runtime.reported import STEP

from submarine_engine.amounts import count, duration
from submarine_engine.bundle.model import Manifest
from submarine_engine.bundle.secrets import has_secret_name, looks_secret
from submarine_engine.clusters.store import StatusCache
from submarine_engine.command.values import format_memory, format_seconds, format_workers
from submarine_engine.errors import CommandError
from submarine_engine.events import Moment
from submarine_engine.history import SPOILT, JobPaths, read_foreign, read_json
from submarine_engine.job import JobSpec, Role, options_of
from submarine_engine.lifecycle import JobStatus
from submarine_engine.masking import Masks
from submarine_engine.metrics import last_of, read_reported
from submarine_engine.outcome import Outcome, clean, read_outcome
from submarine_engine.provenance import Data, Environment, Provenance, Repository, read_provenance
from submarine_engine.stored_values import StoredValue, results_of, values_of

_MOST_CODE = 1 << 20
_MOST_CODE_LINES = 10_000
MOST_LINES = 500
"""Of the code of two jobs, and rows of a section."""
_LONGEST = 300
_MOST_NAMED = 5
_MOST_TASKS = 32
"""Tasks that are looked through for one that has reported."""
_SHORT_COMMIT = 12

_COLOURS = {
    "-": "--jp-error-color1, #c62828",
    "+": "--jp-success-color1, #2e7d32",
    "@": "--jp-ui-font-color2, #767676",
    "?": "--jp-ui-font-color2, #767676",
}
"""Of lines in a notebook; the variable is JupyterLab's."""


class DiffLine(NamedTuple):
    """A line of a difference.

    Parameters
    ----------
    sign
        ``-`` for the earlier job's, ``+`` for the later one's, ``~`` for a line that tells all,
        ``@`` for a heading within, else a blank.
    text
        Without control characters.
    """

    sign: str
    text: str


class Compared(NamedTuple):
    """A job that is compared: its state is empty where nobody knows it."""

    id: str
    name: str
    state: str


class Code(NamedTuple):
    """How a job's code differs from that of the first job.

    Parameters
    ----------
    id
        The job.
    lines
        Of a unified diff; none where it is the same.
    left_out
        How many more there are.
    """

    id: str
    lines: tuple[DiffLine, ...]
    left_out: int = 0


class Row(NamedTuple):
    """What each job has of something.

    Parameters
    ----------
    name
        Of an option, a value, a package …
    values
        By job, in words; None for a job that has none.
    same
        Whether all have the same. Values may be others though their words are alike.
    """

    name: str
    values: tuple[str | None, ...]
    same: bool

    def lines(self, absent: str) -> Iterator[DiffLine]:
        """Yield it as people read it.

        Parameters
        ----------
        absent
            What is said of a job that has none; unless given, a line tells of one that has.
        """
        there = [value for value in self.values if value is not None]
        if len(self.values) == len(there) > 0 and len(set(there)) == 1:
            yield DiffLine("~", f"{self.name}: {there[0]}, with another content")
        elif absent or len(there) > 1 or len(self.values) > 2:  # noqa: PLR2004 - two jobs
            words = [absent or "nothing" if value is None else value for value in self.values]
            yield DiffLine("~", f"{self.name}: {' → '.join(words)}")
        else:
            yield DiffLine("+" if self.values[0] is None else "-", f"{self.name}: {there[0]}")


class Section(NamedTuple):
    """What jobs have of a kind.

    Parameters
    ----------
    title
        What it is about.
    rows
        What differs; what is worth a look in any case, too.
    alike
        How many more there are, which are the same.
    left_out
        How many more there are that differ.
    absent
        What is said of a job that lacks one.
    measured
        Whether no two runs are alike in it: then it makes no difference.
    """

    title: str
    rows: tuple[Row, ...] = ()
    alike: int = 0
    left_out: int = 0
    absent: str = ""
    measured: bool = False

    @property
    def same(self) -> bool:
        """Whether nothing differs in it."""
        return self.measured or all(row.same for row in self.rows)

    def lines(self) -> Iterator[DiffLine]:
        """Yield what differs as people read it."""
        for row in self.rows:
            if not row.same:
                yield from row.lines(self.absent)
        yield from _more(self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How jobs differ.

    Parameters
    ----------
    jobs
        The jobs, the one first with which the others are compared.
    code
        Of each job but the first; none of one whose code is not known.
    sections
        What else there is of them.
    unknown
        What nobody can tell, in words.
    """

    jobs: tuple[Compared, ...]
    code: tuple[Code, ...] = ()
    sections: tuple[Section, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs, as far as it is known."""
        return not any(code.lines for code in self.code) and all(
            section.same for section in self.sections
        )

    def lines(self) -> Iterator[DiffLine]:
        """Yield what differs line by line, as people read it."""
        names = {job.id: f"{job.name} ({job.id})" for job in self.jobs}
        for number, name in enumerate(names.values()):
            yield DiffLine("+++" if number else "---", name)
        if self.same:
            yield DiffLine(
                " ", "nothing differs" + (", as far as it is known" * bool(self.unknown))
            )
        for code in self.code:
            if code.lines:
                others = len(self.jobs) > 2  # noqa: PLR2004 - of two it is plain whose it is
                yield DiffLine("#", f"code of {names[code.id]}" if others else "code")
                yield from code.lines
                yield from _more(code.left_out)
        for section in self.sections:
            if not section.same:
                yield DiffLine("#", section.title)
                yield from section.lines()
        yield from (DiffLine("?", f"not known: {text}") for text in self.unknown)

    def __str__(self) -> str:
        return "\n".join(map(as_text, self.lines()))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return it for a notebook."""
        rows = []
        for line in self.lines():
            text = escape(as_text(line))
            if colour := _COLOURS.get(line.sign[:1]):
                text = f'<span style="color:var({colour})">{text}</span>'
            rows.append(f"<b>{text}</b>" if line.sign == "#" else text)
        return f"<pre>{chr(10).join(rows)}</pre>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "jobs": [job._asdict() for job in self.jobs],
            "same": self.same,
            "code": [
                {**code._asdict(), "lines": [list(line) for line in code.lines]}
                for code in self.code
            ],
            "sections": [
                {
                    "title": section.title,
                    "rows": [{**row._asdict(), "values": list(row.values)} for row in section.rows],
                    "alike": section.alike,
                    "left_out": section.left_out,
                }
                for section in self.sections
            ],
            "unknown": list(self.unknown),
        }


def _more(left: int) -> Iterator[DiffLine]:
    if left:
        yield DiffLine("@", f"… and {count(left, 'more line')}")


def as_text(line: DiffLine) -> str:
    """Return a line as a terminal shows it."""
    if line.sign in ("#", "---", "+++"):
        return line.text if line.sign == "#" else f"{line.sign} {line.text}"
    bare = {"~": " ", "?": " ", "@": " "}.get(line.sign, line.sign)
    return f"  {bare} {line.text}".rstrip()


def compare(*jobs: JobPaths) -> Difference:
    """Return how jobs differ.

    Parameters
    ----------
    jobs
        Their files, of two at least: the earlier one first.

    Raises
    ------
    CommandError
        It is one job.
    """
    if len({paths.root for paths in jobs}) < max(2, len(jobs)):
        raise CommandError(
            f"both are the job {jobs[0].job_id}",
            where="job diff",
            fix="name the other one by its id: `submarine job list` has it",
        )
    told = [_JobFiles(paths) for paths in jobs]
    mask = _Mask(paths.root for paths in jobs)
    unknown: list[str] = []
    code = _code(told, mask, unknown)
    sections = [
        _laid(Section("values"), _values(told), mask, secrets=True),
        _laid(Section("options", absent="not given"), _options(told, unknown), mask, secrets=True),
        _laid(Section("versions"), _versions(told, unknown), mask),
        _laid(Section("data"), _data(told, unknown), mask),
        _laid(Section("git"), _git(told, unknown), mask),
        _laid(Section("results"), _results(told, unknown), mask, secrets=True),
        _laid(Section("reported last", absent="nothing"), _reported(told), mask, whole=True),
        _laid(Section("GPU time", measured=True), _ledgers(told), mask, whole=True),
    ]
    return Difference(
        jobs=tuple(
            Compared(one.id, mask(one.name), one.status.state.value if one.status else "")
            for one in told
        ),
        code=tuple(code),
        sections=tuple(section for section in sections if section.rows or section.alike),
        unknown=tuple(map(mask, unknown)),
    )


class _Mask(Masks):
    """Makes text of jobs fit to be shown: the secrets of all masked, no control characters."""

    def __call__(self, text: str) -> str:
        text = clean(self.text(text)).replace("\n", "\u23ce")
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class _Cell(Protocol):
    """What a job has of something."""

    def same(self, other: Any, /) -> bool:  # noqa: ANN401 - another of its kind
        """Return whether another job has the same."""

    def shown(self, masks: Masks, /) -> str:
        """Return it in words, without secrets."""


class _Words(NamedTuple):
    """What a job has of something, in words, and what tells it from others."""

    words: str
    key: object

    def same(self, other: Any, /) -> bool:  # noqa: ANN401 - a cell
        return isinstance(other, _Words) and self.key == other.key

    def shown(self, masks: Masks, /) -> str:
        return masks.text(self.words)


_Column = Mapping[str, _Cell]
"""What a job has, by name; a job of which it is not known has None in the place of one."""


def _laid(
    section: Section,
    columns: Sequence[_Column | None],
    mask: _Mask,
    *,
    whole: bool = False,
    secrets: bool = False,
) -> Section:
    """Return a section with what jobs have beside each other.

    Parameters
    ----------
    columns
        Of each job.
    whole
        Whether what is the same is a row, too.
    secrets
        Whether values are hidden whose names or looks are a secret's.
    """
    known = [column for column in columns if column is not None]
    if len(known) < 2:  # noqa: PLR2004 - one has nothing to differ from
        return section
    rows, alike = [], 0
    for name in dict.fromkeys(name for column in known for name in column):
        cells = [column.get(name) if column else None for column in columns]
        first, *others = (column.get(name) for column in known)
        same = first is not None and all(one is not None and first.same(one) for one in others)
        if same and not whole:
            alike += 1
            continue
        texts = [None if cell is None else cell.shown(mask) for cell in cells]
        if secrets:
            texts = [None if text is None else _hidden(name, text) for text in texts]
        rows.append(
            Row(mask(name), tuple(None if text is None else mask(text) for text in texts), same)
        )
    left_out = len(rows[MOST_LINES:])
    return section._replace(rows=tuple(rows[:MOST_LINES]), alike=alike, left_out=left_out)


def _hidden(name: str, shown: str) -> str:
    """Return a value for people, unless its name or look is a secret's."""
    return "(a secret)" if has_secret_name(name) or looks_secret(shown) else shown


class _JobFiles:
    """What a job's folder says of it; what cannot be read is empty."""

    def __init__(self, paths: JobPaths) -> None:
        self.paths = paths
        self.id = paths.job_id
        self.record = _json(paths.record)
        spec = self.record.get("spec")
        self.spec: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
        self.name = str(self.spec.get("name", ""))
        self.provenance: Provenance = read_provenance(paths)
        self.manifest: Manifest | None = None
        with suppress(*SPOILT):
            told = read_foreign(paths.bundle / "manifest.json", 64 << 20)
            self.manifest = Manifest.from_json(json.loads(told))
        self.status: JobStatus | None = None
        with suppress(*SPOILT):
            self.status = StatusCache().status(paths)
        self.outcome: Outcome | None = None
        self.first = ""
        with suppress(*SPOILT, IndexError):
            self.first = self.status.ranked[0].task if self.status else ""
            self.outcome = read_outcome(paths.task(self.first).root)

    def file(self, path: str, most: int) -> bytes:
        """Return the beginning of a file of the bundle; raises OSError."""
        return read_foreign(self.paths.bundle / path, most)


def _json(path: Path) -> dict[str, Any]:
    with suppress(*SPOILT):
        found = read_json(path)
        return found if isinstance(found, dict) else {}
    return {}


# Code.


def _code(told: Sequence[_JobFiles], mask: _Mask, unknown: list[str]) -> Iterator[Code]:
    """Yield how the code of each job differs from that of the first."""
    first, *others = (_code_files(one) if one.manifest else None for one in told)
    _say_missing(told, [first, *others], "its script", unknown)
    if first is None:
        return
    for one, files in zip(told[1:], others, strict=True):
        if files is None:
            continue
        lines = _code_lines(first, files)
        shown = tuple(
            DiffLine(sign, mask(text)) for sign, text in itertools.islice(lines, MOST_LINES)
        )
        yield Code(one.id, shown, sum(1 for _ in lines))


def _code_lines(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[DiffLine]:
    for path in dict.fromkeys((*before, *after)):
        texts = before.get(path), after.get(path)
        if texts[0] == texts[1]:
            continue
        yield DiffLine("@", path)
        if None in texts:
            sign = "+" if texts[0] is None else "-"
            yield from (DiffLine(sign, line) for line in (texts[0] or texts[1] or "").splitlines())
            continue
        old, new = ((text or "").splitlines() for text in texts)
        if max(len(old), len(new)) > _MOST_CODE_LINES:
            yield DiffLine("~", f"{len(old)} lines → {len(new)} lines, too many to compare")
            continue
        for line in itertools.islice(difflib.unified_diff(old, new, lineterm=""), 2, None):
            sign = line[:1] if line[:1] in ("-", "+", "@") else " "
            yield DiffLine(sign, line if sign == "@" else line[1:])


def _code_files(told: _JobFiles) -> dict[str, str]:
    """Return the texts of the script and the modules that travelled with it."""
    manifest = told.manifest
    assert manifest is not None  # noqa: S101 - for the type checker
    paths = (manifest.entry, *manifest.modules, *(span.file for span in manifest.lines))
    found = {}
    for path in dict.fromkeys(paths):
        with suppress(OSError, ValueError):
            if ".." not in Path(path).parts:
                found[path] = told.file(path, _MOST_CODE).decode(errors="replace")
    return found


# Values.


def _values(told: Sequence[_JobFiles]) -> list[_Column | None]:
    # where the manifest is gone, that is said of the script
    return [values_of(one.paths.bundle, one.manifest) if one.manifest else None for one in told]


# Options.


def _options(told: Sequence[_JobFiles], unknown: list[str]) -> list[_Column | None]:
    found: list[_Column | None] = [_options_of(one) if one.spec else None for one in told]
    _say_missing(told, found, "what it asked for", unknown)
    return found


_LEFT_OUT = frozenset(
    {"version", "roles", "options", "asks", "parent", "chosen", "workers_on", "env"}
)


def _options_of(told: _JobFiles) -> dict[str, _Words]:
    """Return what a job asked for, by option; none that was not given."""
    return {name: _Words(text, text) for name, text in _option_texts(told).items() if text}


def _option_texts(told: _JobFiles) -> dict[str, str]:
    found = {"--cluster": str(told.record.get("cluster", ""))}
    try:
        spec = JobSpec.from_json(told.spec)
    except (CommandError, *SPOILT):  # of another release
        plain = {name: value for name, value in told.spec.items() if name != "version"}
        return found | {name: json.dumps(value) for name, value in plain.items()}
    names = {field: (f"--{option.name}", option.kind) for field, option in options_of(JobSpec)}
    for field in spec.__slots__:
        if field in _LEFT_OUT:
            continue
        name, kind = names.get(field, (field, ""))
        found[name] = _option_text(getattr(spec, field), kind)
    found |= {f"--env {name}": value for name, value in spec.env.items()}
    found |= {f"--{name}": _option_text(value, "") for name, value in spec.options.items()}
    for role in spec.roles:
        found |= _options_of_role(role)
    return found


def _options_of_role(role: Role) -> dict[str, str]:
    alone = role.name == "worker"
    prefix = "--" if alone else f"--{role.name} "
    resources = role.resources
    command = "worker_launch_cmd" if alone else f"{role.name}_launch_cmd"
    return {
        f"{prefix}gpus": _option_text(resources.gpus, ""),
        f"{prefix}memory": format_memory(resources.memory) if resources.memory else "",
        f"{prefix}cpus": _option_text(resources.vcores, ""),
        f"--num_{'workers' if alone else role.name}": format_workers(role.least, role.count),
        f"--{command}": role.command or "",
        "arguments" if alone else f"arguments of {role.name}": " ".join(role.args),
    }


def _option_text(value: object, kind: str) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if kind == "duration" and isinstance(value, (int, float)):
        return format_seconds(value)
    if isinstance(value, (tuple, list)):
        return ", ".join("=".join(one) if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


# Versions, data, git.


def _say_missing(
    told: Sequence[_JobFiles], found: Sequence[object], words: str, unknown: list[str]
) -> None:
    """Say of which jobs something is not known."""
    missing = [one.id for one, there in zip(told, found, strict=True) if there is None]
    if missing:
        unknown.append(f"{words} of job {' and '.join(missing)}")


def _versions(told: Sequence[_JobFiles], unknown: list[str]) -> list[_Column | None]:
    there = [one.provenance.environment for one in told]
    _say_missing(told, there, "the packages", unknown)
    if there.count(None) > len(there) - 2:
        pythons = [one.manifest.python if one.manifest else "" for one in told]
        return [{"Python": _Words(python, python)} if python else None for python in pythons]
    # Each environment has records of its own: scripts name its Python.
    one_place = len({one.prefix for one in there if one is not None}) == 1
    return [None if one is None else _versions_of(one, records=one_place) for one in there]


def _versions_of(environment: Environment, *, records: bool) -> dict[str, _Words]:
    found = {"environment": environment.prefix, "Python": environment.python}
    packages = {
        name: _Words(version, (version, record if records else ""))
        for name, (version, record) in environment.by_name().items()
    }
    return {**{name: _Words(text, text) for name, text in found.items()}, **packages}


class _DataSet(NamedTuple):
    """The data of a job."""

    data: Data

    def same(self, other: Any, /) -> bool:  # noqa: ANN401 - a cell
        return isinstance(other, _DataSet) and self.data.same(other.data)

    def shown(self, masks: Masks, /) -> str:
        data = self.data
        told = f"{count(data.files, 'file')}, {data.size} bytes"
        return masks.text(data.problem if data.problem and not data.files else told)


def _data(told: Sequence[_JobFiles], unknown: list[str]) -> list[_Column | None]:
    asked = [one for one in told if one.spec.get("input_path")]
    there = {one.id: one.provenance.data for one in asked}
    _say_missing(asked, list(there.values()), "the data", unknown)
    whole = {job: data for job, data in there.items() if data is not None and data.whole}
    for data in there.values():
        if data is not None and not data.whole:
            unknown.append(f"whether the data is the same: {data.path} is too much to look at")
            break
    paths = {data.path for data in whole.values()}
    name = paths.pop() if len(paths) == 1 else "data"
    return [{name: _DataSet(whole[one.id])} if one.id in whole else None for one in told]


def _git(told: Sequence[_JobFiles], unknown: list[str]) -> list[_Column | None]:
    there = [one.provenance.git for one in told]
    if not any(there):
        return []
    missing = [one.id for one, git in zip(told, there, strict=True) if git is None]
    if missing:
        unknown.append(f"the repository of job {' and '.join(missing)}, if it lay in one")
    unknown += [
        f"the repository of job {one.id}: {git.problem}"
        for one, git in zip(told, there, strict=True)
        if git is not None and git.problem
    ]
    # What one lies in is told, though of the other it is not known.
    return [{} if one is None else _repository(one) for one in there]


def _repository(git: Repository) -> dict[str, _Words]:
    commit = git.commit[:_SHORT_COMMIT] or "no commit"
    names = ", ".join(git.changed[:_MOST_NAMED])
    more = len(git.changed) - _MOST_NAMED
    return {
        "repository": _Words(git.root, git.root),
        "commit": _Words(
            f"{commit} ({git.branch})" if git.branch else commit, (git.commit, git.branch)
        ),
        "uncommitted": _Words(
            (names + (f" and {more} more" if more > 0 else "")) or "nothing", git.diff
        ),
    }


# Results.


def _results(told: Sequence[_JobFiles], unknown: list[str]) -> list[_Column | None]:
    _say_missing(told, [one.status for one in told], "how it ended", unknown)
    unknown += [
        f"the result of job {one.id}, which is not over"
        for one in told
        if one.status and not one.status.state.final
    ]
    over = [one for one in told if one.status and one.status.state.final]
    found: list[_Column | None] = []
    for one in told:
        if one.status is None:
            found.append(None)
            continue
        state, reason = one.status.state.value, one.status.reason
        words = f"{state}: {reason}" if reason else state
        # What one has that is not over yet is no difference.
        results: Mapping[str, StoredValue] = {}
        if len(over) == len(told) and one.outcome is not None:
            results = results_of(one.outcome, one.paths.task(one.first).results)
        found.append({"state": _Words(words, words), **results})
    return found


def _reported(told: Sequence[_JobFiles]) -> list[_Column | None]:
    return [_reported_by(one) if one.status else None for one in told]


def _reported_by(told: _JobFiles) -> dict[str, _Words]:
    """Return the last of each number that the first task to report any has told."""
    assert told.status is not None  # noqa: S101 - for the type checker
    for task in told.status.tasks[:_MOST_TASKS]:
        if rows := read_reported(told.paths.task(task.task)):
            last = {name: _number(value) for name, value in last_of(rows).items()}
            names = sorted(last, key=lambda name: name == STEP)
            return {name: _Words(last[name], last[name]) for name in names}
    return {}


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:.6g}"


def _ledgers(told: Sequence[_JobFiles]) -> list[_Column | None]:
    return [_ledger(one.status) if one.status else None for one in told]


def _ledger(status: JobStatus) -> dict[str, _Words]:
    spent = status.ledger.seconds(Moment.now())
    found = {"GPUs": str(status.ledger.gpus)}
    found |= {name: duration(seconds) for name, seconds in spent.items()}
    return {name: _Words(text, text) for name, text in found.items()}
