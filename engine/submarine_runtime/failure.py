"""Formats an exception of the user's code: as text for people, as JSON for front ends.

`outcome` and `home` use it. Frames of the runtime itself are left out.
"""

from __future__ import annotations

import builtins
import os
import sys

from submarine_runtime.cell_lines import cell_lines
from submarine_runtime.lean import standard

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

# As frames have it, which in a YARN container come out of an archive: `payload` names them.
_HERE = os.path.dirname((lambda: 0).__code__.co_filename)  # noqa: PTH120 - pathlib is slow
_MOST_FRAMES = 60
_MOST_LINKS = 8
_LONGEST_MESSAGE = 20_000
_LONGEST_LINE = 400


def show(error: BaseException, bundle: str) -> None:
    """Write the traceback to stderr as Python does, by the user's own hook where there is one.

    Parameters
    ----------
    error
        What the code raised; its traceback loses the frames of the runtime that come first.
    bundle
        The folder of the bundle that ran.
    """
    cell_lines(bundle)
    own = _own_frames(error.__traceback__)
    error.__traceback__ = own
    try:
        sys.excepthook(type(error), error, own)
    except BaseException:  # noqa: BLE001 - a foreign hook raises what it likes
        sys.__excepthook__(type(error), error, own)


def describe(error: BaseException, bundle: str, links: int = _MOST_LINKS) -> dict[str, Any]:
    """Return the JSON form of an exception with what caused it, see ``docs/architecture.md``.

    Parameters
    ----------
    error
        What the code raised.
    bundle
        Files below this folder are told relative to it.
    links
        How many exceptions of its chain to tell at most.
    """
    own = _own_frames(error.__traceback__)
    if getattr(error, "submarine_final", False) is True:
        own = None  # a pool was given up: where our own code stood then tells nobody a thing
    frames = [_frame(*place, bundle) for place in _places(own)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append(_frame(error.filename, error.lineno, "", error.text, bundle))
    told: dict[str, Any] = {
        "type": text(type(error).__qualname__),
        "module": text(type(error).__module__),
        "builtin": next(base.__name__ for base in type(error).__mro__ if _is_builtin(base)),
        "message": message(error),
        "frames": frames,
        "notes": _notes(error),
        "cause": None,
        "context": None,
        "group": [],
    }
    if links > 1:
        if error.__cause__ is not None:
            told["cause"] = describe(error.__cause__, bundle, links - 1)
        elif error.__context__ is not None and not error.__suppress_context__:
            told["context"] = describe(error.__context__, bundle, links - 1)
        group = getattr(error, "exceptions", None)
        if isinstance(group, tuple):
            members = [one for one in group[:5] if isinstance(one, BaseException)]
            told["group"] = [describe(one, bundle, links // 2) for one in members]
    return told


class Raised:
    """What an exception is made of, so that the notebook can make one like it.

    An exception's own pickle calls its class, which may take other arguments than those that it
    hands on; and it imports the class, which the notebook may not have.

    Parameters
    ----------
    error
        The exception.
    links
        How many exceptions of its chain to keep at most.
    state
        Whether to keep its attributes: they may be of any kind.
    made
        What has been made of the chain so far, by `id`, with what it is of: a cause is most often
        the context, too, and of a chain of such there would be twice as many with each link.
    """

    def __init__(
        self,
        error: BaseException,
        links: int = _MOST_LINKS,
        *,
        state: bool = True,
        made: dict[int, tuple[Raised, BaseException]] | None = None,
    ) -> None:
        made = {} if made is None else made
        made[id(error)] = self, error
        kinds = type(error).__mro__
        self.kinds = [(str(kind.__module__), str(kind.__qualname__)) for kind in kinds]
        args, held = _made_of(error)
        self.args = tuple(self._as_raised(one, links, made, state=state) for one in args)
        self.state = held if state else {}
        self.suppresses = error.__suppress_context__
        self.cause = self._as_raised(error.__cause__, links, made, state=state)
        self.context = self._as_raised(error.__context__, links, made, state=state)

    def _as_raised(
        self,
        value: Any,  # noqa: ANN401 - an argument
        links: int,
        made: dict[int, tuple[Raised, BaseException]],
        *,
        state: bool,
    ) -> Any:  # noqa: ANN401 - likewise
        if isinstance(value, BaseException):
            if id(value) in made:
                return made[id(value)][0]
            return Raised(value, links - 1, state=state, made=made) if links > 1 else None
        if type(value) is list and any(isinstance(one, BaseException) for one in value):
            return [self._as_raised(one, links, made, state=state) for one in value]
        return value


def _made_of(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments and attributes: those of its own pickle hold what C alone keeps, too."""
    try:
        kind, args, *rest = tuple(error.__reduce__())
    except BaseException:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
        kind, args, rest = None, error.args, [vars(error)]
    if kind is not type(error):
        args, rest = error.args, [vars(error)]
    state = rest[0] if rest else {}
    return tuple(args), dict(state) if isinstance(state, dict) else {}


def _is_builtin(kind: type) -> bool:
    return vars(builtins).get(kind.__name__) is kind


def _notes(error: BaseException) -> list[str]:
    notes = vars(error).get("__notes__")
    return [text(note) for note in notes[:20]] if isinstance(notes, list) else []


def message(error: BaseException) -> str:
    """Return what `str` of the exception `error` gives, whatever its ``__str__`` does."""
    if isinstance(error, SyntaxError) and error.filename:
        return text(error.msg)
    return text(error, "<exception str() failed>")


def text(value: object, fallback: str = "<unprintable>") -> str:
    """Return `value` as text that JSON can hold, cut to a length that a person reads.

    Parameters
    ----------
    value
        Anything.
    fallback
        What is returned where `str` of it raises.
    """
    try:
        found = str(value)[:_LONGEST_MESSAGE]
    except BaseException:  # noqa: BLE001 - a foreign __str__ raises what it likes
        return fallback
    return found.encode(errors="backslashreplace").decode()


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback and traceback.tb_frame.f_code.co_filename.startswith(_HERE):
        traceback = traceback.tb_next
    return traceback


def _places(traceback: TracebackType | None) -> list[tuple[str, int | None, str, str | None]]:
    """Return file, line and function of each frame; its text is still to be read."""
    found: list[tuple[str, int | None, str, str | None]] = []
    while traceback:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith("<frozen importlib"):
            found.append((code.co_filename, traceback.tb_lineno, code.co_name, None))
        traceback = traceback.tb_next
    if len(found) > _MOST_FRAMES:  # a recursion without end
        found = found[: _MOST_FRAMES // 2] + found[-_MOST_FRAMES // 2 :]
    return found


def _frame(
    file: str, line: int | None, function: str, source: str | None, bundle: str
) -> dict[str, Any]:
    if source is None:
        source = standard("linecache", bundle).getline(file, line or 0)
    return {
        "file": text(file.removeprefix(f"{bundle}/")),
        "line": line or 0,
        "function": text(function),
        "text": text(source.strip()[:_LONGEST_LINE]),
    }
