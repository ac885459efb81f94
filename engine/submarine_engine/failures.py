"""What a job raised, as its notebook sees it: at the cell and line, of the job's own type."""

from __future__ import annotations

import operator
import re
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from submarine_runtime.failure import Raised

from submarine_engine.amounts import duration
from submarine_engine.bundle.maincell import COROUTINE
from submarine_engine.bundle.model import Manifest
from submarine_engine.errors import JobFailedError, SubmarineError
from submarine_engine.history import read_json, read_whole
from submarine_engine.job import TaskState
from submarine_engine.lifecycle import IDLE, TOO_MUCH_MEMORY, is_echo
from submarine_engine.outcome import Outcome, RemoteError, RemoteFrame, clean
from submarine_engine.traceback import Frame, Trace
from submarine_engine.unmet import way_out

if TYPE_CHECKING:
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.masking import Masker


# A failed job's error as an instance of the type that the job raised, too.
#
# ``except ValueError`` works around a job as around the code itself. Only types that this process
# has loaded already are considered: nothing is imported on a job's word.


_DEEPEST = 8

# A generator would end by the first two; IPython and Python show the third their own way.
_NEVER = (StopIteration, StopAsyncIteration, SyntaxError, SubmarineError)


def failed_like(
    kinds: Iterable[tuple[str, str]],
    what: str,
    **fields: Any,  # noqa: ANN401 - of JobFailedError
) -> JobFailedError:
    """Make a `JobFailedError` that is also of the first of `kinds` that can be.

    Parameters
    ----------
    kinds
        Module and qualified name of exception types.
    what
        What happened, one sentence.
    fields
        What else a `JobFailedError` takes, by name.
    """
    plain = JobFailedError(what, **fields)
    return _rebuild(tuple(kinds), what, plain.__dict__)


def _rebuild(
    kinds: tuple[tuple[str, str], ...],
    what: str,
    state: dict[str, Any],
    args: tuple[object, ...] = (),
) -> JobFailedError:
    error = JobFailedError.__new__(JobFailedError, what)
    for kind in map(_find, kinds):
        if kind is None or not _may_be(kind):
            continue
        try:
            mixed = _mix(kind)  # type: ignore[arg-type]  # mypy: no class is Hashable to it
            error = mixed.__new__(mixed, what)
        except Exception:  # noqa: BLE001, S112 - a foreign class allows what it likes
            continue
        break
    error.args = (what,)
    if args:
        _initialise(error, args)
    error.__dict__.update(state)
    error.__dict__["_kinds"] = kinds
    return error


def _initialise(error: BaseException, args: tuple[object, ...]) -> None:
    """Give an error its arguments, and what C alone keeps of them: an `OSError`'s errno."""
    base = next(one for one in type(error).__mro__ if one.__module__ == "builtins")
    with suppress(Exception):  # a foreign class allows what it likes
        base.__init__(error, *args)  # type: ignore[misc] # the class's own may want others
    error.args = args


def _find(names: tuple[str, str]) -> type[BaseException] | None:
    """Return the exception type of that module and name, where it is loaded here."""
    found: Any = sys.modules.get(names[0])
    for name in names[1].split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _may_be(kind: type[BaseException]) -> bool:
    """Return whether a job's error may be of a type, too."""
    return issubclass(kind, Exception) and kind is not Exception and not issubclass(kind, _NEVER)


@lru_cache(maxsize=100)
def _mix(kind: type[BaseException]) -> type[JobFailedError]:
    def reduce(error: JobFailedError) -> tuple[object, ...]:
        return _rebuild, (error.__dict__["_kinds"], error.what, error.__dict__, error.args)

    members = {"__doc__": JobFailedError.__doc__, "__module__": JobFailedError.__module__}
    mixed: Any = type(kind.__name__, (JobFailedError, kind), {**members, "__reduce__": reduce})
    mixed.__qualname__ = JobFailedError.__qualname__
    return mixed  # type: ignore[no-any-return]


_Made = dict[int, BaseException | None]
"""What was made of each `Raised`, by `id`: one that is a cause and the context is one here, too."""


def made_again(raised: Raised, made: _Made | None = None) -> BaseException | None:
    """Return an exception like one of a job's; None where this process has no type for it.

    Its class is not called, since nobody knows by what arguments: it gets what the job's held.

    Parameters
    ----------
    raised
        What the job raised, and what that held.
    made
        What was made already, by the `id` of each `Raised`; None for the outermost.
    """
    made = {} if made is None else made
    if id(raised) in made:
        return made[id(raised)]
    made[id(raised)] = None  # where it is among its own arguments
    for kind in map(_find, raised.kinds):
        if kind is None:
            continue
        base = next(one for one in kind.__mro__ if one.__module__ == "builtins")
        try:
            args = _arguments(raised, made)
            error = base.__new__(kind, *args)
            base.__init__(error, *args)  # type: ignore[misc] # the class's own may want others
        except Exception:  # noqa: BLE001, S112 - a foreign class allows what it likes
            continue
        made[id(raised)] = error
        _fill(error, raised, made)
        return error
    return None


def as_raised(
    error: JobFailedError,
    raised: Raised,
    masker: Masker | None = None,
    *,
    in_cell: bool = False,
) -> JobFailedError:
    """Return the error of a job with what the job's exception held.

    Parameters
    ----------
    error
        What was made of the job's outcome.
    raised
        What the job raised, and what that held.
    masker
        Masks the job's secrets: whatever prints an exception shows its arguments and notes.
    in_cell
        Whether a cell raises it: then it may be a `KeyboardInterrupt`, which would end a program.

    Returns
    -------
    JobFailedError
        `error`, with the attributes, arguments and causes of the job's exception. Where it cannot
        be of that one's type, that one is its cause: IPython shows groups in its own way, for one,
        with our frames.
    """
    if masker is not None:
        raised = _masked(raised, masker, {})
    original = made_again(raised)
    if original is None:
        return error
    if in_cell and isinstance(original, KeyboardInterrupt):
        state = error.__dict__
        with suppress(Exception):  # as `_rebuild`
            error = _mix(type(original))(error.what)  # type: ignore[arg-type]  # as there
            error.__dict__.update(state, _kinds=())
    if not isinstance(error, type(original)):
        error.__cause__ = original
        return error
    state = error.__dict__.copy()
    made: _Made = {id(raised): error}
    _initialise(error, _arguments(raised, made))
    _fill(error, raised, made)
    error.__dict__.update(state)  # ours go first: a message is made of them
    return error


def _masked(raised: Raised, masker: Masker, made: dict[int, Raised]) -> Raised:
    """Return what an exception is made of with the secrets in its texts masked.

    Parameters
    ----------
    made
        What was made of each so far, by `id`.
    """
    if id(raised) not in made:
        masked = made[id(raised)] = Raised.__new__(Raised)
        held = {key: _masked_in(one, masker, made, 0) for key, one in vars(raised).items()}
        masked.__dict__.update(held)
    return made[id(raised)]


def _masked_in(value: Any, masker: Masker, made: dict[int, Raised], depth: int) -> Any:  # noqa: ANN401 - what an exception holds
    """Return the same where there are no secrets in it: it may be the notebook's own object."""
    kind = type(value)
    if kind in (str, bytes):
        return masker.text(value) if kind is str else masker.data(value)
    if kind is Raised:
        return _masked(value, masker, made)
    if kind not in (dict, list, tuple) or depth == _DEEPEST:  # it may hold itself
        return value
    old = list(value.values() if kind is dict else value)
    new = [_masked_in(one, masker, made, depth + 1) for one in old]
    if not any(map(operator.is_not, new, old)):
        return value
    return dict(zip(value, new, strict=True)) if kind is dict else kind(new)


def _arguments(raised: Raised, made: _Made) -> tuple[Any, ...]:
    return tuple(_argument(one, made) for one in raised.args)


def _argument(value: Any, made: _Made) -> Any:  # noqa: ANN401 - of an exception
    if isinstance(value, Raised):
        return made_again(value, made)
    if type(value) is list and any(isinstance(one, Raised) for one in value):  # of a group
        return [_argument(one, made) for one in value]
    return value


def _fill(error: BaseException, raised: Raised, made: _Made) -> None:
    for name, value in raised.state.items():
        with suppress(Exception):  # a property, or what this release has otherwise
            setattr(error, name, value)
    error.__cause__ = made_again(raised.cause, made) if raised.cause else None
    error.__context__ = made_again(raised.context, made) if raised.context else None
    error.__suppress_context__ = raised.suppresses


# From how a job failed to the error that says so: the user's own frames, at cell and line.


_AROUND = 2
_MOST_NAMED = 4
_TAIL = 64 * 1024
_SHELL_SIGNAL = 128
_MORE_MEMORY = "use smaller batches, or ask for more with --memory on a machine that has it"
_CRASHES = (
    signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT,
)  # fmt: skip
# As `faulthandler` writes it, innermost first.
_CRASH = re.compile(
    r"^(Current thread|Thread) 0x[0-9a-f]+[^\n]{0,80}:\n((?:  File [^\n]*\n)+)", re.MULTILINE
)
_CRASH_FRAME = re.compile(r'  File "([^"\n]{1,1000})", line ([0-9]{1,9}) in ([^\n]{1,200})')


def failure(
    job_id: str, status: JobStatus, outcome: Outcome | None, folder: Path, hint: str
) -> JobFailedError:
    """Make the error of a job that failed.

    Parameters
    ----------
    job_id
        The job's id.
    status
        The job, over.
    outcome
        What its task left behind; None where it left none.
    folder
        That of the task that failed; of a job that ended otherwise, of the one of rank 0.
    hint
        Where the log is, in words.
    """
    hint = f"{_who(status, outcome)}{hint}"
    source = Source.of(folder)
    error = outcome.error if outcome else None
    if met := way_out(status, error.message if error else "", folder):
        hint = f"{met}; {hint}"
    if status.attempt > 1:
        hint = f"that was its attempt {status.attempt}; {hint}"
    if status.cancelling:  # by a limit of its own: what it raised says only that it was to end
        again = f"go on from its last checkpoint: submarine job retry {job_id}"
        option = "--idle" if IDLE in status.reason else "--time_limit"
        fix = f"give it more by {option}, or {again}; {hint}"
        return JobFailedError(clean(status.reason), job_id=job_id, fix=fix)
    if outcome and outcome.kind == "raised" and error:
        trace = source.trace(error)
        if error.builtin == "KeyboardInterrupt" and TOO_MUCH_MEMORY in status.reason:
            fix = f"{_MORE_MEMORY}; {hint}"  # YARN asks first, which is what it raised
            return JobFailedError(clean(status.reason), job_id=job_id, trace=trace, fix=fix)
        kinds = ((error.module, error.type), ("builtins", error.builtin))
        return failed_like(kinds, trace.summary, job_id=job_id, trace=trace, fix=hint)
    what, fix = _ended(status, outcome)
    stack = source.trace(error) if error else source.crash(folder / "stderr")
    fix = f"{fix}; {hint}" if fix else hint
    return JobFailedError(what, job_id=job_id, trace=stack, fix=fix)


def _who(status: JobStatus, outcome: Outcome | None) -> str:
    """Return which of several tasks failed first, and who was through before it, where that tells.

    Who has come to its end by itself has failed in nothing; the others may have needed it.
    """
    failed = status.task(status.failed_task)
    if failed is None or len(status.tasks) == 1:
        return ""
    error, at = outcome.error if outcome else None, failed.returned or failed.exited
    words = f"the first to fail was {clean(failed.place)}; "
    if error is None or at is None or not is_echo((error.type, error.builtin), error.message):
        return words
    early = [
        f"{clean(one.place)} ({duration(one.exited.until(at))})"
        for one in status.tasks
        if one.state is TaskState.SUCCEEDED and one.exited and one.exited.mono < at.mono
    ]
    if not early:
        return words
    had = ", ".join(early[:_MOST_NAMED]) + (" …" if len(early) > _MOST_NAMED else "")
    return (
        f"{words}before it {had} had come to the end without an error: if the others still needed "
        "what had ended, let all of them end together, by a barrier; "
    )


def _ended(status: JobStatus, outcome: Outcome | None) -> tuple[str, str]:
    """Return how a job ended that raised nothing, and what to do about it."""
    task = status.task(status.failed_task) or next(
        (one for one in status.tasks if one.exit_code), None
    )
    reason = clean((task and task.reason) or status.reason)
    if outcome and outcome.kind == "exited":
        return _exited(outcome)
    code = task.exit_code if task else None
    if code is None or code >= 0:
        fix = "os._exit() and native code end a job without a traceback" if task else ""
        return reason or (f"exited with code {code}" if task else "the job failed"), fix
    return reason or f"ended by {_signal_name(-code)}", _about_signal(-code, reason)


def _exited(outcome: Outcome) -> tuple[str, str]:
    code = outcome.exit_code
    said = outcome.error.message if outcome.error else ""
    what = f"exited with code {code}" + (f": {said}" if said not in ("", str(code)) else "")
    if code > _SHELL_SIGNAL:  # as shells tell of a program that a signal ended
        number = code - _SHELL_SIGNAL
        return f"{what} ({_signal_name(number)})", _about_signal(number, "")
    return what, ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _about_signal(number: int, reason: str) -> str:
    if number in _CRASHES:
        return "it crashed in native code, not in Python: look at the packages that it used last"
    if number == signal.SIGKILL and "memory" in reason:
        return _MORE_MEMORY
    return ""


@dataclass(frozen=True)
class Source:
    """The bundle that a job ran: where its lines come from.

    Parameters
    ----------
    folder
        The bundle's folder; the files may be gone.
    manifest
        None where it cannot be read.
    """

    folder: Path
    manifest: Manifest | None
    _texts: dict[str, list[str]] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(cls, task: Path) -> Source:
        """Find the bundle of a task: in its own folder, else in the job's."""
        folder = next((place for place in (task, *task.parents[:2]) if _has_bundle(place)), task)
        try:
            data = read_json(folder / "bundle" / "manifest.json") or {}
            return cls(folder / "bundle", Manifest.from_json(data))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(folder / "bundle", None)

    def trace(self, error: RemoteError, link: str = "") -> Trace:
        """Return an exception with the user's frames alone.

        Parameters
        ----------
        error
            What the job raised, as it was told.
        link
            How it led to the one after it, as `Trace` has it.
        """
        frames = [self.frame(frame) for frame in error.frames]
        last = error.frames[-1] if error.frames and frames[-1] is None else None
        before = error.cause or error.context
        return Trace(
            type=error.type,
            message=error.message,
            notes=error.notes,
            frames=tuple(frame for frame in frames if frame),
            raised_in=_place(last) if last and not self._is_ours(last) else "",
            before=self.trace(before, "cause" if error.cause else "context") if before else None,
            link=link,
            group=tuple(self.trace(one) for one in error.group),
        )

    def crash(self, stderr: Path) -> Trace | None:
        """Return Python's stack at a crash in native code, as the end of the log `stderr` tells it.

        None where it tells of no crash.
        """
        found = self._crash(stderr)
        if found is None:
            return None
        error = RemoteError(type="", module="", message=found[0], frames=found[1])
        return self.trace(error)

    def crash_frames(self, stderr: Path) -> tuple[RemoteFrame, ...]:
        """Return all frames of that stack in `stderr`, outermost first; none where none is told."""
        found = self._crash(stderr)
        return found[1] if found else ()

    def _crash(self, stderr: Path) -> tuple[str, tuple[RemoteFrame, ...]] | None:
        try:
            with stderr.open("rb") as file:
                file.seek(max(0, stderr.stat().st_size - _TAIL))
                text = file.read(_TAIL).decode(errors="replace")
        except OSError:
            return None
        at = text.rfind("Fatal Python error: ")
        threads = _CRASH.findall(text[at:]) if at >= 0 else []
        if not threads:
            return None
        # That of a library's own has no Python, and is not told: the main one waited for it, which
        # is told last.
        crashed = next((one for kind, one in threads if kind.startswith("Current")), threads[-1][1])
        stack = []
        for file_, line, function in _CRASH_FRAME.findall(crashed):
            name = clean(file_).removeprefix(f"{self.folder}/")
            stack.append(RemoteFrame(file=name, line=int(line), function=clean(function), text=""))
        what = clean(text[at:].partition("\n")[0].removeprefix("Fatal Python error: "))
        return what, tuple(reversed(stack))

    def cell_text(self, cell: str) -> str:
        """Return what the bundle has of a cell, each line at its own place."""
        spans = [*(self.manifest.lines if self.manifest else ())]
        spans += [code.span for code in (self.manifest.compiled if self.manifest else ())]
        found: list[str] = []
        for span in sorted(spans, key=lambda span: span.cell_line):
            if span.cell != cell:
                continue
            lines = self._lines(span.file)[span.line - 1 :][: span.count]
            indents = [len(text) - len(text.lstrip()) for text in lines if text.strip()]
            indent = min(indents, default=0)
            found += [""] * (span.cell_line - 1 + span.count - len(found))
            for number, text in enumerate(lines, span.cell_line - 1):
                found[number] = clean(text[indent:])
        return "\n".join(found) + "\n"

    def frame(self, frame: RemoteFrame) -> Frame | None:
        """Return the user's frame that a frame is; None for libraries and for lines of ours."""
        origin = self.manifest.origin(frame.file, frame.line) if self.manifest else None
        if origin is None and (not self._in_bundle(frame.file) or self._is_ours(frame)):
            return None
        lines = self._lines(frame.file)
        if origin is None:
            around = _around(lines, frame.line, 1, len(lines), 0)
            return Frame(frame.file, frame.line, frame.function, frame.text, context=around)
        function = "<module>" if frame.function == COROUTINE else frame.function
        span, line = origin
        last = span.line + span.count - 1
        around = _around(lines, frame.line, span.line, last, line - frame.line)
        text = frame.text or next((text for number, text in around if number == line), "").strip()
        return Frame(span.cell, line, function, text, span.cell_id, around)

    def _in_bundle(self, file: str) -> bool:
        path = PurePosixPath(file)
        return not path.is_absolute() and ".." not in path.parts and file[:1] != "<"

    def _is_ours(self, frame: RemoteFrame) -> bool:
        """Return whether it is a line of the script that no cell wrote."""
        if self.manifest is None or frame.file in self.manifest.modules:
            return False
        from_cells = any(span.file == frame.file for span in self.manifest.lines)
        return from_cells and self.manifest.origin(frame.file, frame.line) is None

    def _lines(self, file: str) -> list[str]:
        for code in self.manifest.compiled if self.manifest else ():
            if code.file == file:
                return code.lines
        if file not in self._texts:
            self._texts[file] = []
            with suppress(OSError):
                text = read_whole(self.folder / file).decode(errors="replace")
                self._texts[file] = text.splitlines()
        return self._texts[file]


def _has_bundle(place: Path) -> bool:
    return (place / "bundle" / "manifest.json").is_file()


def _around(
    lines: list[str], line: int, first: int, last: int, shift: int
) -> tuple[tuple[int, str], ...]:
    """Return the lines around `line`, within `first` to `last`, with `shift` added to numbers."""
    # A cell's code may stand in a block of the script, further to the right than in the cell.
    indents = [len(text) - len(text.lstrip()) for text in lines[first - 1 : last] if text.strip()]
    indent = min(indents, default=0)
    numbers = range(max(first, line - _AROUND), min(last, line + _AROUND, len(lines)) + 1)
    return tuple((number + shift, clean(lines[number - 1][indent:])) for number in numbers)


def _place(frame: RemoteFrame) -> str:
    function = f", in {frame.function}" if frame.function else ""
    return f"{frame.file}, line {frame.line}{function}"
