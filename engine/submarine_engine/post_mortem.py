"""A failed job opened where it failed: its frames in a debugger, long after its GPU was given back.

The task has kept them (`submarine_runtime.post_mortem`). Here they become a traceback of real
frames at cell and line, so that any debugger made for Python can walk through it. A value is loaded
when it is asked for, and what cannot be loaded is shown as far as it is known.
"""

from __future__ import annotations

import json
import linecache
import os
import pickle
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from submarine_runtime.lean import type_name
from submarine_runtime.post_mortem import (
    VALUES,
    VERSION,
    Shown,
    lean_repr,
    stand_in,
)
from submarine_runtime.stacks import LARGEST, STACKS

from submarine_engine.bundle.maincell import COROUTINE
from submarine_engine.errors import JobError
from submarine_engine.failures import Source, failure
from submarine_engine.history import LARGEST_OUTCOME, read_foreign
from submarine_engine.job import JobState
from submarine_engine.masking import masker_of
from submarine_engine.outcome import RemoteFrame, clean, read_outcome
from submarine_engine.patience import Patience, TookTooLongError
from submarine_engine.stacks import read_threads

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.masking import Masker

WITHIN = 5.0
"""Seconds that a value's own code may take to load it, or to say what it looks like."""

_LEAST = 0.5
"""The same of one of many that are shown one after the other, where others have taken too long."""

_MOST_FRAMES = 200
_MOST_VALUES = 100_000
_MOST_LINKS = 10
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
_CORES = frozenset({-SIGSEGV, -SIGBUS, -SIGILL, -SIGFPE, -SIGABRT})
_LONGEST = 2000
_LONGEST_LINE = 500
_SEARCHED = 1 << 20
"""Bytes of a value in which other ways to write a secret are looked for; the task has masked it as
it is."""
_RUNTIME = "/submarine_runtime/"
_AT_HAND = {"np": "numpy", "numpy": "numpy"}


@dataclass(frozen=True, slots=True)
class KeptFrame:
    """A frame as the task kept it.

    Parameters
    ----------
    file, line, function
        As a traceback shows them: of a cell its name and its own line.
    first
        The line that its function begins in.
    own
        Whether it is the user's own code.
    arguments
        The names of the function's arguments.
    locals
        Names, each with the number of its value; None where they are those of the module, or
        nothing was kept.
    globals
        Likewise, of the module.
    """

    file: str
    line: int
    function: str
    first: int = 1
    own: bool = False
    arguments: tuple[str, ...] = ()
    locals: Mapping[str, int] | None = None
    globals: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, in {self.function}"


@dataclass(frozen=True, slots=True)
class Value:
    """Where a value lies.

    Parameters
    ----------
    type
        The name of its type.
    at, size
        Where its pickle is in the file of values; `size` is 0 where there is none.
    text, why
        How it was shown, and why it was not kept, where there is none.
    """

    type: str
    at: int = 0
    size: int = 0
    text: str = ""
    why: str = ""


class PostMortem:
    """The frames of a task that failed.

    Parameters
    ----------
    title
        Which task of which job, and what it raised, in words.
    frames
        Outermost first.
    values
        What the frames' names stand for.
    file
        The file with the values' pickles; None where there is none.
    missing
        Why there are no values, in words; empty where there are.
    masker
        Masks the job's secrets in the values; None where it has none.
    main
        Whether ``__main__`` is a notebook here, with the classes that the job's was made from.
    chain
        What caused it, or is in its group, in words and with its frames.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        title: str,
        frames: Sequence[KeptFrame],
        *,
        values: Sequence[Value] = (),
        file: Path | None = None,
        missing: str = "",
        masker: Masker | None = None,
        main: bool = False,
        chain: Sequence[tuple[str, Sequence[KeptFrame]]] = (),
    ) -> None:
        self.title = title
        self.chain = tuple((words, tuple(held)) for words, held in chain)
        self.frames = tuple(frames)
        self.values = tuple(values)
        self.missing = missing
        self._file = file
        self._masker = masker
        self._main = main
        self._loaded: dict[int, object] = {}
        self._within, self._hurries = WITHIN, False

    def value(self, number: int) -> object:
        """Load the value `number`, from 0 in `values`.

        What cannot be loaded, or not in time, is a `Shown` that says why.
        """
        if number not in self._loaded:
            self._loaded[number] = self._load(self.values[number])
        return self._loaded[number]

    def _load(self, value: Value) -> object:
        if not value.size or self._file is None:
            return Shown(value.type, value.text, value.why)
        patience = Patience(self._within)
        try:
            data = self._read(value)
            if self._masker is not None and len(data) <= _SEARCHED:
                data = self._masker.data(data)
            with patience:
                found = _Unpickler(data, patience, main=self._main).load()
        except KeyboardInterrupt:  # somebody has waited long enough for it
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a foreign __setstate__ raises
            if patience.over:
                why = f"it cannot be loaded here: its code does not end within {self._within:g} s"
                self._hurry()
                return Shown(value.type, "", why)
            why = f"it cannot be loaded here: {type(error).__name__}: {clean(str(error))[:200]}"
            return Shown(value.type, "", why)
        if value.type == "function" and isinstance(found, type):
            return Shown(value.type, f"<function {found.__qualname__}>", "its code is not here")
        return found

    def _read(self, value: Value) -> bytes:
        assert self._file is not None  # noqa: S101 - for the type checker
        descriptor = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.getuid():
                raise PermissionError(f"{self._file} belongs to another user")
            if value.at + value.size > found.st_size:
                raise EOFError(f"{self._file} was cut off")
            data = os.pread(descriptor, value.size, value.at)
        finally:
            os.close(descriptor)
        if len(data) != value.size:
            raise EOFError(f"{self._file} was cut off")
        return data

    def traceback(self, *, own: bool = False) -> types.TracebackType | None:
        """Return the frames as Python's own; None where there are none.

        Parameters
        ----------
        own
            Whether it ends at the innermost frame of the user's own code.
        """
        return self._traceback(self.frames, own=own)

    def _traceback(
        self, held: Sequence[KeptFrame], *, own: bool = False
    ) -> types.TracebackType | None:
        frames = list(held)
        while own and frames and not frames[-1].own:
            frames.pop()
        above: types.TracebackType | None = None
        for kept in reversed(frames):
            frame = self._real(kept)
            above = types.TracebackType(above, frame, 0, max(1, kept.line))
        return above

    def causes(self, *, own: bool = False) -> tuple[types.TracebackType | None, ...]:
        """Return the frames of `chain` as `traceback` does, but for those of a group.

        Parameters
        ----------
        own
            As for `traceback`.
        """
        return tuple(
            self._traceback(held, own=own)
            for words, held in self.chain
            if not words.startswith("with ")
        )

    def tracebacks(self) -> list[tuple[str, types.TracebackType | None]]:
        """Return the error and all of `chain`, in words and with their frames; the error last."""
        told = [(self.title.partition(": ")[2], self.frames), *self.chain]
        return [(words, self._traceback(held)) for words, held in reversed(told)]

    def _real(self, kept: KeptFrame) -> types.FrameType:
        space = Names(self, {**kept.globals, **(kept.locals or {})}, kept)
        held = space if kept.locals is None else Names(self, kept.locals, kept, space)
        return _frame(kept, space, held)

    def _shown(self, number: int) -> str:
        """Return what a value looks like, as one of many."""
        self._hurries = True
        text, is_late = _described(lean_repr, self.value(number), self._within)
        if is_late:
            self._hurry()
        return clean(text)

    def _hurry(self) -> None:
        """Give what comes next less time, where nobody is there who would interrupt it."""
        if self._hurries:
            self._within = max(_LEAST, self._within / 2)

    def lines(self) -> Iterator[str]:
        """Yield the frames with their values, as text for where nobody can type commands."""
        yield self.title
        if self.missing:
            yield self.missing
        yield from self._lines(self.frames)
        for words, held in self.chain:
            yield words
            yield from self._lines(held)

    def _lines(self, held: Sequence[KeptFrame]) -> Iterator[str]:
        for kept in held:
            yield f"  {kept}"
            text = linecache.getline(kept.file, kept.line).strip()
            if text:
                yield f"    {clean(text)[:_LONGEST_LINE]}"
            names = kept.globals if kept.own and kept.locals is None else kept.locals or {}
            for name, number in names.items():
                if self.values[number].type not in ("module", "function", "type"):
                    shown = self._shown(number).replace("\n", " ")
                    yield f"      {name} = {shown[:_LONGEST_LINE]}"

    def to_json(self) -> dict[str, Any]:
        """Return what `lines` tells, for programs."""
        chain = [{"title": words, "frames": self._json(held)} for words, held in self.chain]
        frames = self._json(self.frames)
        return {"title": self.title, "missing": self.missing, "frames": frames, "chain": chain}

    def _json(self, held: Sequence[KeptFrame]) -> list[dict[str, Any]]:
        return [
            {
                "file": kept.file,
                "line": kept.line,
                "function": kept.function,
                "own": kept.own,
                "locals": {
                    name: self._shown(number)
                    for name, number in (
                        kept.globals if kept.locals is None else kept.locals
                    ).items()
                },
            }
            for kept in held
        ]


def shown(value: object, longest: int = 200) -> str:
    """Return a short `repr`, whatever that of the value does.

    Parameters
    ----------
    longest
        Characters of each text in it.
    """
    return in_time(partial(lean_repr, longest=longest), value)


def in_time(look: Callable[[Any], str], value: object) -> str:
    """Return what a value looks like; in words where that does not end.

    Parameters
    ----------
    look
        Tells it. An interrupt ends it sooner where it lets one through.
    """
    return _described(look, value, WITHIN)[0]


def _described(look: Callable[[Any], str], value: object, within: float) -> tuple[str, bool]:
    """Return what a value looks like, and whether that took longer than so many seconds."""
    patience = Patience(within)
    text = ""
    with suppress(TookTooLongError), patience:
        text = look(value)
    if patience.over:
        text = f"<{type_name(value)}: what it looks like is not told within {within:g} s>"
    return text, patience.over


class _Lazy:
    """Stands for a value until it is asked for."""

    __slots__ = ("number", "type")

    def __init__(self, number: int, type_: str) -> None:
        self.number, self.type = number, type_

    def __repr__(self) -> str:
        return f"<{self.type}, not loaded yet>"


class Names(dict[str, Any]):
    """The names of a frame; each value is loaded when it is asked for.

    Parameters
    ----------
    source
        Has the values.
    numbers
        Those of the values by name.
    kept
        The frame.
    beyond
        The globals, of a frame that has locals.
    """

    def __init__(
        self,
        source: PostMortem,
        numbers: Mapping[str, int],
        kept: KeptFrame,
        beyond: Names | None = None,
    ) -> None:
        lazy = {name: _Lazy(number, source.values[number].type) for name, number in numbers.items()}
        super().__init__(lazy)
        self._source = source
        self.kept = kept
        self._beyond = beyond

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the user's own types
        """Return a value, loaded."""
        value = super().__getitem__(name)
        if type(value) is _Lazy:
            value = self[name] = self._source.value(value.number)
        return value

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - a module
        """Return a global, since Python takes it from a dict as it lies there; numpy is at hand."""
        if self._beyond is not None:
            return self._beyond[name]
        if name in _AT_HAND:
            try:
                return import_module(_AT_HAND[name])
            except ImportError:
                pass
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as a dict's
        """Return the value of `name`, loaded, or `default`."""
        return self[name] if name in self else default  # noqa: SIM401 - it would call itself

    def __iter__(self) -> Iterator[str]:
        """Go through the names; with a method of its own, copies of this ask for each value."""
        return super().__iter__()

    def items(self) -> Any:  # noqa: ANN401 - as a dict's
        """Return names and values, loaded."""
        return {name: self[name] for name in list(self)}.items()

    def values(self) -> Any:  # noqa: ANN401 - as a dict's
        """Return all values, loaded."""
        return dict(self.items()).values()

    def copy(self) -> dict[str, Any]:
        """Return the names with all values loaded."""
        return dict(self.items())


class _Unpickler(pickle.Unpickler):
    """Loads objects whose classes are not here, too: as their attributes alone."""

    def __init__(self, data: bytes, patience: Patience, *, main: bool) -> None:
        import io  # noqa: PLC0415 - a debugger's first value may wait for it

        super().__init__(io.BytesIO(data))
        self._main, self._patience = main, patience

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        if module == "__main__" and not self._main:  # that of a terminal is our own command
            return stand_in(module, name)
        try:
            with self._patience.suspended():  # to import a framework may take long
                return super().find_class(module, name)
        except (ImportError, AttributeError):
            return stand_in(module, name)


def _frame(kept: KeptFrame, space: Names, held: Names) -> types.FrameType:
    """Return a frame of Python's own that stands in that line."""
    line = max(1, kept.line)
    first = kept.first if 1 <= kept.first <= line else line
    code = compile("\n" * (line - first) + "0/0", kept.file, "exec", dont_inherit=True)
    code = code.replace(co_name=kept.function, co_firstlineno=first)
    try:
        exec(code, space, held)  # noqa: S102 - a division by zero
    except ZeroDivisionError as error:
        step = error.__traceback__
        while step is not None and step.tb_next is not None:
            step = step.tb_next
        assert step is not None  # noqa: S101 - it was raised
        return step.tb_frame
    raise AssertionError  # pragma: no cover


# From a job to its frames.


def open_post_mortem(job: Job, task: str | None = None, *, main: bool = False) -> PostMortem:
    """Open the frames of a job that failed.

    Parameters
    ----------
    task
        Which task's, ``worker-1``; None for the one that failed first.
    main
        Whether this process is the notebook that the job is of.

    Raises
    ------
    JobError
        The job is not over or did not fail, or it has no such task.
    """
    status = job.status()
    _check(job.id, status, task)
    failed = status.failed_task if len(status.tasks) > 1 else ""
    folder = job.cluster.results(job.id, task or failed or None)
    which = task or failed or (status.ranked[0].task if status.tasks else "the job")
    masker = masker_of(folder.parent.parent)
    title = f"{which} of job {job.id}"
    try:
        outcome = read_outcome(folder)
    except (OSError, ValueError):
        outcome = None
    error = failure(job.id, status, outcome, folder, "")
    what = error.what
    its = status.task(which)
    if outcome is None and its is not None and task not in (None, failed):
        what = f"{its.state.value}: {its.reason}" if its.reason else its.state.value
    title = f"{title}: {clean(what)[:_LONGEST]}"
    source = Source.of(folder)
    cells = _Cells(source, job.id)
    try:
        data = json.loads(read_foreign(folder / "results" / "post-mortem.json", LARGEST_OUTCOME))
        frames, values, chain = _read_index(data, cells, masker)
        skipped = _count(data.get("skipped", 0))
    except FileNotFoundError:
        missing = _why_none(job, outcome.kind if outcome else "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        missing = f"what its frames held cannot be read: {type(problem).__name__}: {problem}"
    else:
        note = f"{skipped} frames between the first and the last are left out" if skipped else ""
        file = folder / "results" / VALUES
        return PostMortem(
            title, frames, values=values, file=file, missing=note, masker=masker, main=main,
            chain=chain,
        )  # fmt: skip
    told = outcome.error.frames if outcome and outcome.error else ()
    if not told:
        told = source.crash_frames(folder / "stderr") or _asked_frames(folder, source)
        ours = [at for at, one in enumerate(told) if _RUNTIME in one.file]
        told = told[ours[-1] + 1 :] if ours else told
    return PostMortem(title, [cells.frame(one) for one in told], missing=missing)


def traceback_of(
    job_id: str, task: str | None = None, error: BaseException | None = None
) -> types.TracebackType | None:
    """Return the frames of a failed job for a debugger that is called bare; None where none are.

    Parameters
    ----------
    job_id
        The job.
    task
        Which of its tasks; None for the one that failed first.
    error
        What the job's end was made again as: what caused it is given its own frames.
    """
    from submarine_engine.records import open_job  # noqa: PLC0415 - seldom

    try:
        found = open_post_mortem(open_job(job_id), task, main=True)
        for traceback in found.causes(own=True):
            cause = error and (error.__cause__ or error.__context__)
            if cause is None:
                break
            cause.__traceback__, error = traceback, cause
        return found.traceback(own=True) if found.values else None
    except Exception:  # noqa: BLE001 - the job's own error is being shown: nothing may come before it
        return None


def _check(job_id: str, status: JobStatus, task: str | None) -> None:
    if not status.state.final:
        raise JobError(
            "the job is not over: its frames are kept when it fails",
            job_id=job_id,
            fix=f"see where it stands: submarine job stacks {job_id}",
        )
    names = [one.task for one in status.tasks]
    if task is not None and task not in names:
        raise JobError(
            f"the job has no task {task!r}", job_id=job_id, fix=f"name one of {', '.join(names)}"
        )
    if status.state is not JobState.FAILED:
        raise JobError(
            f"the job did not fail, it {status.state.value}: there are no frames to look at",
            job_id=job_id,
            fix=f"see what became of it: submarine job show {job_id}",
        )


def _asked_frames(folder: Path, source: Source) -> tuple[RemoteFrame, ...]:
    """Return where a task stood when it was asked last, since another one had failed."""
    try:
        text = read_foreign(folder / STACKS, LARGEST).decode("ascii", "replace")
        threads = read_threads(text, source)
    except OSError:
        return ()
    return tuple(
        RemoteFrame(file=step.file, line=step.line, function=step.function, text="")
        for thread in threads[:1]
        for step in thread.steps
    )


def _why_none(job: Job, kind: str) -> str:
    from submarine_engine.records import record_of  # noqa: PLC0415 - seldom

    if kind == "returned":
        return "it came to its end without an error: there are no frames to look at"
    record = record_of(job.id)
    if record.get("spec", {}).get("post_mortem") == "off":
        why = "by --post_mortem off"
    elif kind:
        why = "its task did not come to it: the disk may be full, see its log"
    else:
        why = "its process was ended from outside, or crashed in native code"
        crashed = any(one.exit_code in _CORES for one in job.status().tasks)
        if crashed and job.cluster.tasks_here and record.get("host") == os.uname().nodename:
            with suppress(OSError, KeyError, TypeError, ValueError):
                begun = float(record["created"][0])
                why += _core(_CORE_PATTERN.read_text(), Path(record["workdir"]), begun)
    return f"what the frames held was not kept: {why}; this is where it stood"


def _core(pattern: str, workdir: Path, since: float) -> str:
    """Return in words where this machine has put the core of a process, as core(5) has it.

    Parameters
    ----------
    pattern
        What the kernel calls cores.
    workdir
        The folder that the process ran in.
    since
        When it began at the earliest, by the wall clock.
    """
    pattern = pattern.strip()
    if pattern.startswith("|"):
        program = PurePosixPath(pattern[1:].strip().partition(" ")[0]).name
        return f" (this machine hands cores to {clean(program)})"
    named = re.sub("%(.)", lambda found: "%" if found[1] == "%" else "*", pattern)
    named = re.sub(r"\*+", "*", named).rstrip("*")  # the kernel may add a number
    folder = workdir / PurePosixPath(named).parent
    found = []
    with suppress(OSError, ValueError):
        for path in folder.glob(f"{PurePosixPath(named).name}*"):
            told = path.lstat()
            if S_ISREG(told.st_mode) and told.st_uid == os.getuid() and told.st_mtime >= since:
                found.append((told.st_mtime, path))
    return f" (its core: {clean(str(max(found)[1]))})" if found else ""


class _Cells:
    """Gives files of a bundle the names and lines that their cells have."""

    def __init__(self, source: Source, job_id: str) -> None:
        self._source = source
        self._job = job_id.rpartition("-")[2]
        self._laid: set[str] = set()

    def place(self, file: str, line: int) -> tuple[str, int]:
        """Return the file and line that a debugger shows."""
        manifest = self._source.manifest
        origin = manifest.origin(file, line) if manifest else None
        if origin is None:
            path = self._source.folder / file
            inside = not file.startswith(("/", "<")) and ".." not in Path(file).parts
            return (str(path) if inside else file), line
        span, own = origin
        name = f"<{span.cell} of job {self._job}>"
        if name not in self._laid:
            self._laid.add(name)
            text = self._source.cell_text(span.cell)
            # Without a time, which is what keeps it from being looked for on the disk.
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return name, own

    def frame(self, frame: RemoteFrame, **more: Any) -> KeptFrame:  # noqa: ANN401 - its fields
        """Return a frame at its cell and line."""
        file, line = self.place(frame.file, frame.line)
        first = more.pop("first", frame.line)
        its, first = self.place(frame.file, first)
        function = "<module>" if frame.function == COROUTINE else frame.function
        own = more.pop("own", self._source.frame(frame) is not None)
        first = first if its == file else line
        return KeptFrame(file=file, line=line, function=function, first=first, own=own, **more)


def _read_index(
    data: Mapping[str, Any], cells: _Cells, masker: Masker | None
) -> tuple[list[KeptFrame], list[Value], list[tuple[str, list[KeptFrame]]]]:
    """Read what a task kept as the word of a stranger: every field is checked."""
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']!r} cannot be read")
    values = [_value(one, masker) for one in data["values"][:_MOST_VALUES]]
    spaces = {str(name): _numbers(told, len(values)) for name, told in data["globals"].items()}

    def read(told: Sequence[Mapping[str, Any]]) -> list[KeptFrame]:
        return [_read_frame(one, cells, spaces, len(values)) for one in told[:_MOST_FRAMES]]

    chain = []
    for told in data.get("chain", [])[:_MOST_LINKS]:
        words = _text(told["title"])
        chain.append((masker.text(words) if masker else words, read(told["frames"])))
    return read(data["frames"]), values, chain


def _read_frame(
    told: Mapping[str, Any], cells: _Cells, spaces: Mapping[str, Mapping[str, int]], most: int
) -> KeptFrame:
    remote = RemoteFrame(
        file=_text(told["file"]),
        line=_count(told["line"]),
        function=_text(told["function"]),
        text="",
    )
    held = told["locals"]
    return cells.frame(
        remote,
        first=_count(told["first"]),
        own=told["own"] is True,
        arguments=tuple(map(_text, told["arguments"])),
        locals=None if held is None else _numbers(held, most),
        globals=spaces.get(told["globals"], {}),
    )


def _value(told: Mapping[str, Any], masker: Masker | None) -> Value:
    text, why = _text(told.get("text", "")), _text(told.get("why", ""))
    if masker is not None:
        text, why = masker.text(text), masker.text(why)
    at, size = _count(told.get("at", 0)), _count(told.get("size", 0))
    return Value(type=_text(told["type"]), at=at, size=size, text=text, why=why)


def _numbers(told: Mapping[str, Any], most: int) -> dict[str, int]:
    found = {_text(name): _count(number) for name, number in told.items()}
    if any(number >= most for number in found.values()):
        raise ValueError("a name stands for a value that is not there")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return clean(value[:_LONGEST])


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no whole number")
    return value
