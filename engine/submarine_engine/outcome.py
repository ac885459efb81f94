"""What a task left behind, read as the word of a stranger: every field is checked.

The form is in ``docs/architecture.md``; the writer is `submarine_runtime.outcome`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submarine_engine.history import LARGEST_OUTCOME, read_foreign
from submarine_engine.masking import masker_of

OUTCOME_VERSION = 1

_LONGEST = 20_000
_MOST_FRAMES = 200
_MOST_LINKS = 10

_KINDS = ("returned", "raised", "exited")
_FORMATS = ("pickle", "text", "outputs", "home", "none")
_FRAMES = ("made", "states", "attributes", "module", "settings", "name", "value", "error")
_RESULT_FILE = re.compile(r"(?:return|var-\w+)\.(?:pkl|txt)")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[@-~]|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """A result or an output as it was stored.

    Parameters
    ----------
    format
        ``pickle``, ``text``, ``outputs`` (it is what the variables `names` hold), ``home`` (a frame
        of what goes home holds it) or ``none``.
    type
        The type's qualified name.
    file
        Name below ``results/``; None for the last two formats.
    warning
        What was lost on the way, in words; empty for nothing.
    """

    format: str = "none"
    type: str = "NoneType"
    file: str | None = None
    names: tuple[str, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFrame:
    """A frame of the job's own traceback; `file` is relative to the bundle where it lies there."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteError:
    """An exception of the job with its chain, as far as it was told."""

    type: str
    module: str
    message: str
    builtin: str = ""
    frames: tuple[RemoteFrame, ...] = ()
    notes: tuple[str, ...] = ()
    cause: RemoteError | None = None
    context: RemoteError | None = None
    group: tuple[RemoteError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A piece of ``results/home.pkl``.

    Parameters
    ----------
    kind
        ``made``, ``states``, ``attributes`` and ``module`` (what the cell changed), ``settings``,
        ``name``, ``value`` or ``error`` (what it raised).
    name
        The variable; of a change the file that its values travelled in, or what was changed.
    end
        The byte at which the frame ends, and the next one begins.
    memo
        How many objects the pickle's memo holds by then.
    """

    kind: str
    name: str
    type: str
    end: int
    memo: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stayed:
    """What stays in the job: a variable (or part of one), its type, and why."""

    name: str
    type: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WentHome:
    """What a cell's job left behind for its notebook.

    Parameters
    ----------
    frames
        What ``home.pkl`` holds.
    stayed
        What could not be written.
    defined
        Names of the manifest's definitions that the script came to.
    gone
        Names that the cell deleted.
    asked
        Whether the variables were asked for by their names: then no budget holds them back.
    size
        Bytes of ``home.pkl``.
    seconds
        How long writing it took.
    """

    frames: tuple[Frame, ...] = ()
    stayed: tuple[Stayed, ...] = ()
    defined: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    asked: bool = False
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A task's outcome.

    Parameters
    ----------
    raised
        Whether what the code raised lies in a file of its own.
    """

    kind: str
    exit_code: int
    python: str
    result: StoredValue = StoredValue()
    outputs: Mapping[str, StoredValue] = field(default_factory=dict)
    error: RemoteError | None = None
    home: WentHome | None = None
    raised: bool = False


def read_outcome(folder: Path) -> Outcome | None:
    """Read ``outcome.json`` of a task's folder; None where there is none.

    Raises
    ------
    ValueError
        It is not what a runtime writes.
    OSError
        It cannot be read.
    """
    try:
        content = read_foreign(folder / "outcome.json", LARGEST_OUTCOME)
    except FileNotFoundError:
        return None
    masker = masker_of(folder.parent.parent)
    try:
        told = json.loads(content)
        return _outcome(masker.outcome(told) if masker else told)
    except (ArithmeticError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no outcome: {error}") from error


def read_error(data: object) -> RemoteError | None:
    """Read `data` as an exception that a runtime tells of; None where it is nothing of the kind."""
    try:
        return _error(data, _MOST_LINKS)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None


def clean(text: str) -> str:
    """Return text from a job without what would move a terminal's cursor or turn its text."""
    return _CONTROL.sub("\ufffd", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def _outcome(data: Mapping[str, Any]) -> Outcome:
    if data["version"] != OUTCOME_VERSION:
        raise ValueError(f"an outcome of version {data['version']!r} cannot be read")
    if data["kind"] not in _KINDS:
        raise ValueError(f"no outcome: {data['kind']!r}")
    error = data.get("error")
    return Outcome(
        kind=data["kind"],
        exit_code=_number(data["exit_code"]),
        python=_text(data.get("python") or ""),
        result=_value(data["result"]),
        outputs={
            name: _value(value)
            for name, value in data["outputs"].items()
            if isinstance(name, str) and name.isidentifier()
        },
        error=_error(error, _MOST_LINKS) if error else None,
        home=_home(data["home"]) if data.get("home") else None,
        raised=data.get("raised") is True,
    )


def _home(data: Mapping[str, Any]) -> WentHome:
    frames = tuple(
        Frame(
            kind=_one_of(frame["kind"], _FRAMES),
            name=_text(frame["name"]),
            type=_text(frame["type"]),
            end=_number(frame["end"]),
            memo=_number(frame["memo"]),
        )
        for frame in data["frames"]
    )
    stayed = tuple(
        Stayed(name=_text(one["name"]), type=_text(one["type"]), why=_text(one["why"]))
        for one in data["stayed"]
    )
    return WentHome(
        frames=frames,
        stayed=stayed,
        defined=_identifiers(data["defined"]),
        gone=_identifiers(data["gone"]),
        asked=data.get("asked") is True,
        size=_number(data["size"]),
        seconds=float(data["seconds"]),
    )


def _identifiers(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(name for name in names if isinstance(name, str) and name.isidentifier())


def _one_of(value: object, known: Sequence[str]) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(known)}")
    return str(value)


def _value(data: Mapping[str, Any]) -> StoredValue:
    form, file = data["format"], data.get("file")
    names = tuple(_text(name) for name in data.get("names") or ())
    if form not in _FORMATS:
        raise ValueError(f"no format of a result: {form!r}")
    if form in ("pickle", "text") and not _RESULT_FILE.fullmatch(str(file)):
        raise ValueError(f"no file of a result: {file!r}")
    return StoredValue(
        format=form,
        type=_text(data.get("type") or ""),
        file=str(file) if file else None,
        names=names,
        warning=_text(data.get("warning") or ""),
    )


def _error(data: Any, links: int) -> RemoteError | None:  # noqa: ANN401 - a stranger's word
    if not isinstance(data, Mapping) or links == 0:
        return None
    group = (_error(one, links - 1) for one in (data.get("group") or ())[:10])
    frames = (data.get("frames") or ())[-_MOST_FRAMES:]
    return RemoteError(
        type=_text(data["type"]),
        module=_text(data.get("module") or ""),
        message=_text(data.get("message") or ""),
        builtin=_text(data.get("builtin") or ""),
        frames=tuple(_frame(frame) for frame in frames),
        notes=tuple(_text(note) for note in (data.get("notes") or ())[:20]),
        cause=_error(data.get("cause"), links - 1),
        context=_error(data.get("context"), links - 1),
        group=tuple(one for one in group if one),
    )


def _frame(data: Mapping[str, Any]) -> RemoteFrame:
    return RemoteFrame(
        file=_text(data["file"]),
        line=_number(data["line"]),
        function=_text(data.get("function") or ""),
        text=_text(data.get("text") or ""),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return clean(value[:_LONGEST])


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
