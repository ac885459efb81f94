"""What a pool's calls gave, as its program sees it: values, and errors at cell and line."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import JobCancelledError, JobFailedError, JobLostError, ResultError
from submarine_engine.failures import Source, as_raised, failed_like
from submarine_engine.outcome import clean, read_error
from submarine_engine.pool.arguments import load
from submarine_engine.results import ResultText

if TYPE_CHECKING:
    from submarine_engine.pool.calls import End
    from submarine_engine.pool.folder import PoolFolder


class Loader:
    """Makes values and errors of how calls ended.

    Parameters
    ----------
    folder
        The pool's.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._source = Source.of(folder.root)
        self._masker = folder.masker

    def value(self, end: End, what: str) -> Any:  # noqa: ANN401 - the user's own
        """Return what a call returned.

        Parameters
        ----------
        end
            How it ended.
        what
            What people call it.

        Raises
        ------
        JobFailedError, JobCancelledError, JobLostError
            It returned nothing: what `error` gives.
        ResultError
            It cannot be loaded here.
        """
        if end.outcome == "text":
            return ResultText(clean(end.payload.decode(errors="replace")))
        if end.outcome != "value":
            raise self.error(end, what)
        try:
            return load(end.payload)
        except Exception as error:  # whatever a foreign __setstate__ raises
            raise ResultError(
                f"what {what} returned cannot be loaded here: {type(error).__name__}: {error}",
                job_id=end.worker,
                fix="run the cells that define what it is made of, then load it again",
            ) from error

    def error(self, end: End, what: str) -> JobFailedError | JobCancelledError | JobLostError:
        """Return the error of a call that returned nothing."""
        hint = f"its log: submarine job logs {end.worker}" if end.worker else ""
        if end.outcome == "withdrawn":
            return JobCancelledError(f"{what} was cancelled", job_id=end.worker)
        if end.outcome == "lost":
            why = clean(str(end.told.get("reason") or end.told.get("state", "")))
            lost = f"{what} was lost with its worker{f': {why}' if why else ''}"
            return JobLostError(lost, job_id=end.worker, fix=hint)
        error = read_error(end.told.get("error"))
        if end.outcome != "error" or error is None:
            return JobFailedError(f"{what} {_how(end)}", job_id=end.worker, fix=hint)
        trace = self._source.trace(error)
        kinds = ((error.module, error.type), ("builtins", error.builtin))
        fix = f"it was {what}; {hint}"
        failed = failed_like(kinds, trace.summary, job_id=end.worker, trace=trace, fix=fix)
        if end.payload:
            with suppress(Exception):  # as a notebook that lacks what the exception holds
                raised = pickle.loads(end.payload)  # noqa: S301 - our own job's
                return as_raised(failed, raised, self._masker)
        return failed


def _how(end: End) -> str:
    code = end.told.get("code")
    if end.outcome == "died" and isinstance(code, int):
        if code < 0:
            return f"ended its process by signal {-code}: a crash, or too much memory"
        return f"ended its process with code {code}"
    return {"stop": "was stopped", "pause": "was paused"}.get(end.outcome, "failed")
