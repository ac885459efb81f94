"""A failed job's error as an instance of the type that the job raised, too.

``except ValueError`` works around a job as around the code itself. Only types that this process has
loaded already are considered: nothing is imported on a job's word.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from submarine_engine.errors import JobFailedError, SubmarineError

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
    """
    plain = JobFailedError(what, **fields)
    return _rebuild(tuple(kinds), what, plain.__dict__)


def _rebuild(
    kinds: tuple[tuple[str, str], ...], what: str, state: dict[str, Any]
) -> JobFailedError:
    error = JobFailedError.__new__(JobFailedError, what)
    for kind in map(_find, kinds):
        if kind is None:
            continue
        try:
            mixed = _mix(kind)  # type: ignore[arg-type]  # mypy: no class is Hashable to it
            error = mixed.__new__(mixed, what)
        except Exception:  # noqa: BLE001, S112 - a foreign class allows what it likes
            continue
        break
    error.args = (what,)
    error.__dict__.update(state)
    error.__dict__["_kinds"] = kinds
    return error


def _find(names: tuple[str, str]) -> type[Exception] | None:
    """Return the exception type of that module and name, where it is loaded here."""
    found: Any = sys.modules.get(names[0])
    for name in names[1].split("."):
        found = getattr(found, name, None)
    if not isinstance(found, type) or not issubclass(found, Exception) or found is Exception:
        return None
    return None if issubclass(found, _NEVER) else found


@lru_cache(maxsize=100)
def _mix(kind: type[Exception]) -> type[JobFailedError]:
    def reduce(error: JobFailedError) -> tuple[object, ...]:
        return _rebuild, (error.__dict__["_kinds"], error.what, error.__dict__)

    members = {"__doc__": JobFailedError.__doc__, "__module__": JobFailedError.__module__}
    mixed: Any = type(kind.__name__, (JobFailedError, kind), {**members, "__reduce__": reduce})
    mixed.__qualname__ = JobFailedError.__qualname__
    return mixed  # type: ignore[no-any-return]
