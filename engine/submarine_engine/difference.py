"""How two jobs differ: code, values, options, versions, data, git, results; by their folders alone.

So it tells of jobs of any cluster, of one that cannot be used here, and of a job that is not over,
as far as that is known: `Difference.unknown` says what is not. Everything in the folders may have
been written by the jobs' own code, and nothing of that is run: of values and results only those are
shown that are plain (numbers, texts, lists and dicts of such).
"""

from __future__ import annotations

import difflib
import hashlib
import io
import itertools
import json
import math
import os
import pickle
import reprlib
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from submarine_runtime.reported import STEP

from submarine_engine.amounts import size
from submarine_engine.bundle.model import Manifest
from submarine_engine.bundle.secrets import has_secret_name, looks_secret
from submarine_engine.clusters.store import StatusCache
from submarine_engine.command.values import format_memory, format_seconds, format_workers
from submarine_engine.errors import CommandError
from submarine_engine.history import SPOILT, JobPaths, read_foreign, read_json
from submarine_engine.job import JobSpec, Role, options_of
from submarine_engine.lifecycle import JobStatus
from submarine_engine.masking import masker_of
from submarine_engine.metrics import read_reported
from submarine_engine.outcome import Outcome, clean, read_outcome
from submarine_engine.provenance import Provenance, Repository, read_provenance
from submarine_engine.rerun import data_words, packages_changed

_MOST_CODE = 1 << 20
_MOST_CODE_LINES = 10_000
_MOST_LINES = 500
"""Of a section."""
_LONGEST = 300
_PLAIN = 64 << 10
"""Bytes of a value that is shown, where it is plain."""
_MOST_HOME = 1 << 20
_MOST_NAMED = 5
_SHORT_COMMIT = 12

_COLOURS = {
    "-": "--jp-error-color1, #c62828",
    "+": "--jp-success-color1, #2e7d32",
    "@": "--jp-ui-font-color2, #767676",
    "?": "--jp-ui-font-color2, #767676",
}
"""Of lines in a notebook; the variable is JupyterLab's."""


class Line(NamedTuple):
    """A line of a difference.

    Parameters
    ----------
    sign
        ``-`` for the earlier job's, ``+`` for the later one's, ``~`` for a line that tells both,
        ``@`` for a heading within, else a blank.
    text
        Without control characters.
    """

    sign: str
    text: str


class Section(NamedTuple):
    """What two jobs differ in."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two jobs differ.

    Parameters
    ----------
    before, after
        The jobs: id and name.
    sections
        What they differ in; none for nothing.
    unknown
        What nobody can tell, in words.
    """

    before: tuple[str, str]
    after: tuple[str, str]
    sections: tuple[Section, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs, as far as it is known."""
        return not self.sections

    def lines(self) -> Iterator[Line]:
        """Yield it line by line, as people read it."""
        for sign, (job_id, name) in (("-", self.before), ("+", self.after)):
            yield Line(sign * 3, f"{name} ({job_id})")
        if self.same:
            yield Line(" ", "nothing differs" + (", as far as it is known" * bool(self.unknown)))
        for section in self.sections:
            yield Line("#", section.title)
            yield from section.lines
        yield from (Line("?", f"not known: {text}") for text in self.unknown)

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
            "before": self.before[0],
            "after": self.after[0],
            "same": self.same,
            "sections": [
                {"title": section.title, "lines": [list(line) for line in section.lines]}
                for section in self.sections
            ],
            "unknown": list(self.unknown),
        }


def as_text(line: Line) -> str:
    """Return a line as a terminal shows it."""
    if line.sign in ("#", "---", "+++"):
        return line.text if line.sign == "#" else f"{line.sign} {line.text}"
    bare = {"~": " ", "?": " ", "@": " "}.get(line.sign, line.sign)
    return f"  {bare} {line.text}".rstrip()


def compare(before: JobPaths, after: JobPaths) -> Difference:
    """Return how two jobs differ.

    Parameters
    ----------
    before, after
        Their files.

    Raises
    ------
    CommandError
        It is one job.
    """
    if before.root == after.root:
        raise CommandError(
            f"both are the job {before.job_id}",
            where="job diff",
            fix="name the other one by its id: `submarine job list` has it",
        )
    one, two = _Told(before), _Told(after)
    unknown: list[str] = []
    found = [
        Section(title, tuple(_bounded(look(one, two, unknown))))
        for title, look in _SECTIONS.items()
    ]
    mask = _Mask(before, after)
    return Difference(
        before=(before.job_id, mask(one.name)),
        after=(after.job_id, mask(two.name)),
        sections=tuple(
            Section(title, tuple(Line(sign, mask(text)) for sign, text in lines))
            for title, lines in found
            if lines
        ),
        unknown=tuple(map(mask, unknown)),
    )


class _Mask:
    """Makes text of jobs fit to be shown: their secrets masked, no control characters."""

    def __init__(self, *jobs: JobPaths) -> None:
        self._maskers = [masker for paths in jobs if (masker := masker_of(paths.root))]

    def __call__(self, text: str) -> str:
        for masker in self._maskers:
            text = masker.text(text)
        text = clean(text).replace("\n", "\u23ce")
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _bounded(lines: Iterator[Line]) -> Iterator[Line]:
    yield from itertools.islice(lines, _MOST_LINES)
    if left := sum(1 for _ in lines):
        yield Line("@", f"… and {left} more lines")


class _Told:
    """What a job's folder tells; what cannot be read is empty."""

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


def _code(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    if _without(one, two, lambda told: told.manifest, "its script", unknown):
        return
    files = [_code_files(told) for told in (one, two)]
    for path in dict.fromkeys((*files[0], *files[1])):
        texts = [told.get(path) for told in files]
        if texts[0] == texts[1]:
            continue
        yield Line("@", path)
        if None in texts:
            sign = "+" if texts[0] is None else "-"
            yield from (Line(sign, line) for line in (texts[0] or texts[1] or "").splitlines())
            continue
        old, new = ((text or "").splitlines() for text in texts)
        if max(len(old), len(new)) > _MOST_CODE_LINES:
            yield Line("~", f"{len(old)} lines → {len(new)} lines, too many to compare")
            continue
        for line in itertools.islice(difflib.unified_diff(old, new, lineterm=""), 2, None):
            sign = line[:1] if line[:1] in ("-", "+", "@") else " "
            yield Line(sign, line if sign == "@" else line[1:])


def _code_files(told: _Told) -> dict[str, str]:
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


class _Stored(NamedTuple):
    """A value as it is stored: `plain` is it itself, in a tuple, where it is made of plain data."""

    type: str
    size: int
    digest: str
    plain: tuple[Any] | None

    @property
    def words(self) -> str:
        if self.plain is not None:
            with suppress(Exception):  # a number of too many digits, and what else there may be
                return _short.repr(self.plain[0])
        return f"{self.type}, {size(self.size)}" if self.type else size(self.size)

    def same(self, other: _Stored) -> bool:
        if self.digest == other.digest:
            return True
        if self.plain is None or other.plain is None:
            return False
        try:  # sets have their members in another order in each process
            return type(self.plain[0]) is type(other.plain[0]) and bool(self.plain == other.plain)
        except Exception:  # noqa: BLE001 - nested too deeply
            return False


_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = 8


class _OnlyPlain(pickle.Unpickler):
    """Loads numbers, texts, lists and dicts, and nothing that would run any code."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        raise pickle.UnpicklingError(f"{module}.{name}")


def _plain(content: bytes) -> tuple[Any] | None:
    try:
        return (_OnlyPlain(io.BytesIO(content)).load(),)
    except Exception:  # noqa: BLE001 - whatever there is in place of a pickle
        return None


def _of_files(paths: Sequence[Path], kind: str) -> _Stored:
    """Return a value that lies in some files, by their contents; raises OSError."""
    digest, length = hashlib.sha256(), 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is no file")
            while piece := file.read(1 << 20):
                digest.update(piece)
                length += len(piece)
    plain = _plain(read_foreign(paths[0], _PLAIN)) if length <= _PLAIN else None
    return _Stored(kind, length, digest.hexdigest(), plain)


def _values(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    del unknown  # where the manifest is gone, that is said of the script
    if one.manifest is None or two.manifest is None:
        return
    yield from _stored(_values_of(one), _values_of(two))


def _values_of(told: _Told) -> dict[str, _Stored]:
    assert told.manifest is not None  # noqa: S101 - for the type checker
    types = {value.name: value.type for value in told.manifest.values}
    found = {}
    for load in told.manifest.loads:
        path = told.paths.bundle / load.path
        blocks = path.with_suffix(".bin")
        kinds = dict.fromkeys(types.get(name, "") for name in load.names)
        with suppress(OSError, ValueError):
            if ".." in Path(load.path).parts:
                continue
            paths = [path, blocks] if blocks.exists() else [path]
            found[", ".join(load.names)] = _of_files(paths, ", ".join(filter(None, kinds)))
    return found


def _stored(before: Mapping[str, _Stored], after: Mapping[str, _Stored]) -> Iterator[Line]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            there = old or new
            assert there is not None  # noqa: S101 - for the type checker
            yield Line("-" if new is None else "+", f"{name} = {_hidden(name, there.words)}")
        elif not old.same(new):
            words = _hidden(name, old.words), _hidden(name, new.words)
            if words[0] == words[1]:
                yield Line("~", f"{name}: {words[0]}, with another content")
            else:
                yield Line("~", f"{name}: {words[0]} → {words[1]}")


def _hidden(name: str, shown: str) -> str:
    """Return a value for people, unless its name or look is a secret's."""
    return "(a secret)" if has_secret_name(name) or looks_secret(shown) else shown


# Options.


def _options(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    if _without(one, two, lambda told: told.spec or None, "what it asked for", unknown):
        return
    before, after = _options_of(one), _options_of(two)
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            key = name.rpartition(" ")[2].partition("=")[0]
            words = (_hidden(key, text) if text else "not given" for text in (old, new))
            yield Line("~", f"{name}: {' → '.join(words)}")


_LEFT_OUT = frozenset({"version", "roles", "options", "asks", "parent", "env"})


def _options_of(told: _Told) -> dict[str, str]:
    """Return what a job asked for, by option; nothing for what was not given."""
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
    if kind == "duration" and isinstance(value, (int, float)):
        return format_seconds(value)
    if isinstance(value, (tuple, list)):
        return ", ".join("=".join(one) if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


# Versions, data, git.


def _without(
    one: _Told,
    two: _Told,
    find: Callable[[_Told], object],
    words: str,
    unknown: list[str],
) -> bool:
    """Say of which job something is not known; return whether it is of any."""
    missing = [told.id for told in (one, two) if find(told) is None]
    if missing:
        unknown.append(f"{words} of job {' and '.join(missing)}")
    return bool(missing)


def _versions(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    before, after = one.provenance.environment, two.provenance.environment
    if before is not None and after is not None:
        if before.prefix != after.prefix:
            yield Line("~", f"environment: {before.prefix} → {after.prefix}")
        yield from (Line("~", text) for text in packages_changed(before, after))
        return
    _without(one, two, lambda told: told.provenance.environment, "the packages", unknown)
    pythons = [told.manifest.python if told.manifest else "" for told in (one, two)]
    if all(pythons) and pythons[0] != pythons[1]:
        yield Line("~", f"Python {pythons[0]} → {pythons[1]}")


def _data(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    if not any(told.spec.get("input_path") for told in (one, two)):
        return
    before, after = one.provenance.data, two.provenance.data
    if before is None or after is None:
        asked = [told for told in (one, two) if told.spec.get("input_path")]
        missing = [told.id for told in asked if told.provenance.data is None]
        if missing:
            unknown.append(f"the data of job {' and '.join(missing)}")
    elif not (before.whole and after.whole):
        unknown.append(f"whether the data is the same: {after.path} is too much to look at")
    elif not before.same(after):
        yield Line("~", data_words(before, after))


def _git(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    before, after = one.provenance.git, two.provenance.git
    if before is None or after is None:
        if before is not None or after is not None:
            there = before or after
            assert there is not None  # noqa: S101 - for the type checker
            other = two if before is not None else one
            yield Line("-" if before is not None else "+", _git_words(there))
            unknown.append(f"the repository of job {other.id}, if it lay in one")
        return
    for told, repository in ((one, before), (two, after)):
        if repository.problem:
            unknown.append(f"the repository of job {told.id}: {repository.problem}")
    if (before.root, before.commit, before.branch, before.diff) != (
        after.root,
        after.commit,
        after.branch,
        after.diff,
    ):
        yield Line("-", _git_words(before))
        yield Line("+", _git_words(after))


def _git_words(repository: Repository) -> str:
    commit = repository.commit[:_SHORT_COMMIT] or "no commit"
    words = [f"{commit} ({repository.branch})" if repository.branch else commit]
    if repository.changed:
        more = len(repository.changed) - _MOST_NAMED
        names = ", ".join(repository.changed[:_MOST_NAMED])
        words.append(f"changed: {names}" + (f" and {more} more" if more > 0 else ""))
    words.append(repository.root)
    return ", ".join(words)


# Results.


def _results(one: _Told, two: _Told, unknown: list[str]) -> Iterator[Line]:
    if _without(one, two, lambda told: told.status, "how it ended", unknown):
        return
    assert one.status is not None  # noqa: S101 - for the type checker
    assert two.status is not None  # noqa: S101 - likewise
    unknown += [
        f"the result of job {told.id}, which is not over"
        for told, status in ((one, one.status), (two, two.status))
        if not status.state.final
    ]
    ends = [
        f"{status.state.value}{': ' if status.reason else ''}{status.reason}"
        for status in (one.status, two.status)
    ]
    if ends[0] != ends[1]:
        yield Line("~", f"{ends[0]} → {ends[1]}")
    before, after = _reported(one), _reported(two)
    for name in dict.fromkeys((*before, *after)):
        old, new = (f"{told[name]:.6g}" if name in told else "nothing" for told in (before, after))
        if before.get(name) != after.get(name) and old != new:
            yield Line("~", f"{name} reported: {old} → {new}")
    if one.status.state.final and two.status.state.final:
        yield from _stored(_results_of(one), _results_of(two))


def _reported(told: _Told) -> dict[str, float]:
    """Return the last value of each number that the first task has reported."""
    found: dict[str, float] = {}
    with suppress(*SPOILT):
        for row in read_reported(told.paths.task(told.first)):
            for name, three in row.numbers.items():
                if name != STEP and not math.isnan(three[1]):
                    found[name] = three[1]
    return found


_THE_RESULT = "result"


def _results_of(told: _Told) -> dict[str, _Stored]:
    outcome, folder = told.outcome, told.paths.task(told.first).results if told.first else None
    if outcome is None or folder is None:
        return {}
    found = {}
    for name, value in ((_THE_RESULT, outcome.result), *outcome.outputs.items()):
        with suppress(OSError, ValueError):
            if value.file and value.format == "text":
                text = read_foreign(folder / value.file, _PLAIN)
                shown = (text.decode(errors="replace"),)
                digest = hashlib.sha256(text).hexdigest()
                found[name] = _Stored(value.type, len(text), digest, shown)
            elif value.file:
                found[name] = _of_files([folder / value.file], value.type)
    with suppress(OSError, ValueError):
        found |= _of_home(outcome, folder)
    return found


def _of_home(outcome: Outcome, folder: Path) -> dict[str, _Stored]:
    """Return what a notebook's cell has left behind: its frames are one pickle after another."""
    if outcome.home is None:
        return {}
    content = read_foreign(folder / "home.pkl", _MOST_HOME)
    found, begin = {}, 0
    plainly: _OnlyPlain | None = _OnlyPlain(io.BytesIO(content))
    for frame in outcome.home.frames:
        piece = content[begin : frame.end]
        begin = frame.end
        if not piece or frame.end > len(content):
            break
        plain: tuple[Any] | None = None
        if plainly is not None:
            try:
                plain = (plainly.load(),)
            except Exception:  # noqa: BLE001 - what follows may refer to what it lacks
                plainly = None
        if frame.kind in ("name", "value"):
            name = frame.name if frame.kind == "name" else _THE_RESULT
            digest = hashlib.sha256(piece).hexdigest()
            found[name] = _Stored(frame.type, len(piece), digest, plain)
    return found


_SECTIONS: Mapping[str, Callable[[_Told, _Told, list[str]], Iterator[Line]]] = {
    "code": _code,
    "values": _values,
    "options": _options,
    "versions": _versions,
    "data": _data,
    "git": _git,
    "results": _results,
}
